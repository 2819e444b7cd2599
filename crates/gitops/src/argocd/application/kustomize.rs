//! What a source of Argo CD changes in a kustomization.
//!
//! Facts: how Argo CD calls `kustomize edit`. The builder makes the changes, as they depend on what the kustomization has.

use serde_json::{Map, Value, json};

use federate_file_tree::{CachedTree, find_entry, normalize_path};
use federate_kubernetes::object::field_text;

use super::ApplicationSource;
use super::overrides::refuse_unknown;
use crate::description::{DescriptionError, list_texts, read_map};

/// Keys of `kustomize` that are read, or change nothing that is built: the version of kustomize, and what only its charts would use.
const KEYS: [&str; 18] = [
    "apiVersions",
    "commonAnnotations",
    "commonAnnotationsEnvsubst",
    "commonLabels",
    "components",
    "forceCommonAnnotations",
    "forceCommonLabels",
    "ignoreMissingComponents",
    "images",
    "kubeVersion",
    "labelIncludeTemplates",
    "labelWithoutSelector",
    "namePrefix",
    "nameSuffix",
    "namespace",
    "patches",
    "replicas",
    "version",
];

impl ApplicationSource<'_> {
    /// The changes of the kustomization in a folder.
    pub(super) fn read_kustomize(
        &self,
        tree: &CachedTree<'_>,
        folder: &str,
    ) -> Result<Map<String, Value>, DescriptionError> {
        refuse_unknown(&self.source, "kustomize", &KEYS, self.pointer)?;
        let kustomize = self.source.get("kustomize").unwrap_or(&Value::Null);
        let is_true = |key: &str| kustomize.get(key) == Some(&Value::Bool(true));
        let mut edits = Map::new();
        for key in ["namePrefix", "nameSuffix", "namespace"] {
            let text = Some(field_text(kustomize, key)).filter(|text| !text.is_empty());
            edits.extend(text.map(|text| (key.to_owned(), text.into())));
        }
        if let Some(patches) = kustomize.get("patches").filter(|patches| patches.is_array()) {
            edits.insert("patches".to_owned(), patches.clone());
        }
        edits.extend(self.read_images(kustomize)?.map(|images| ("images".to_owned(), images)));
        edits.extend(self.read_replicas(kustomize)?.map(|replicas| ("replicas".to_owned(), replicas)));
        let components: Vec<Value> = list_texts(kustomize.get("components"))
            .into_iter()
            .filter(|path| !is_true("ignoreMissingComponents") || may_exist(tree, folder, path))
            .map(Value::from)
            .collect();
        if !components.is_empty() {
            edits.insert("components".to_owned(), components.into());
        }
        let labels = self.expand_values(kustomize, "commonLabels", true)?;
        if !labels.is_empty() {
            if is_true("labelIncludeTemplates") && !is_true("labelWithoutSelector") {
                let pointer = format!("{}/kustomize/labelIncludeTemplates", self.pointer);
                let why = "`labelIncludeTemplates` needs `labelWithoutSelector`";
                return Err(DescriptionError::new(&pointer, why));
            }
            let settings = json!({
                "pairs": labels,
                "withoutSelector": is_true("labelWithoutSelector"),
                "includeTemplates": is_true("labelIncludeTemplates"),
                "force": is_true("forceCommonLabels"),
            });
            edits.insert("addLabels".to_owned(), settings);
        }
        let annotations =
            self.expand_values(kustomize, "commonAnnotations", is_true("commonAnnotationsEnvsubst"))?;
        if !annotations.is_empty() {
            let settings = json!({"pairs": annotations, "force": is_true("forceCommonAnnotations")});
            edits.insert("addAnnotations".to_owned(), settings);
        }
        Ok(edits)
    }

    /// The texts of a map, with variables of the build environment filled in.
    fn expand_values(
        &self,
        kustomize: &Value,
        key: &str,
        has_variables: bool,
    ) -> Result<Map<String, Value>, DescriptionError> {
        let mut expanded = Map::new();
        for (name, value) in read_map(kustomize.get(key)) {
            let pointer =
                format!("{}/kustomize/{key}/{}", self.pointer, federate_yaml::pointer::escape(&name));
            let refuse = |why: String| DescriptionError::new(&pointer, why);
            let Some(text) = value.as_str() else { return Err(refuse("the value is not a text".to_owned())) };
            let text =
                if has_variables { self.environment.expand(text).map_err(refuse)? } else { text.to_owned() };
            expanded.insert(name, text.into());
        }
        Ok(expanded)
    }

    fn read_images(&self, kustomize: &Value) -> Result<Option<Value>, DescriptionError> {
        let mut images = Vec::new();
        for (index, image) in list_texts(kustomize.get("images")).iter().enumerate() {
            let pointer = format!("{}/kustomize/images/{index}", self.pointer);
            let refuse = |why: String| DescriptionError::new(&pointer, why);
            let image = self.environment.expand(image).map_err(refuse)?;
            images.push(read_image(&image).ok_or_else(|| {
                DescriptionError::new(&pointer, format!("the image `{image}` has no tag, digest or new name"))
            })?);
        }
        Ok(Some(images).filter(|images| !images.is_empty()).map(Value::from))
    }

    fn read_replicas(&self, kustomize: &Value) -> Result<Option<Value>, DescriptionError> {
        let mut all = Vec::new();
        let listed = kustomize.get("replicas").and_then(Value::as_array).into_iter().flatten();
        for (index, replicas) in listed.enumerate() {
            let count = match replicas.get("count") {
                Some(Value::String(text)) => text.parse().ok(),
                count => count.and_then(Value::as_i64),
            };
            let pointer = format!("{}/kustomize/replicas/{index}/count", self.pointer);
            let count = count
                .ok_or_else(|| DescriptionError::new(&pointer, "the number of replicas is not a number"))?;
            all.push(json!({"name": field_text(replicas, "name"), "count": count}));
        }
        Ok(Some(all).filter(|all| !all.is_empty()).map(Value::from))
    }
}

/// Whether the repo has a path that starts in a folder. One that leads out of the repo is left to the build, which refuses it.
fn may_exist(tree: &CachedTree<'_>, folder: &str, path: &str) -> bool {
    normalize_path(&format!("./{folder}/{path}"))
        .map_or(true, |path| path.is_empty() || find_entry(tree, &path).is_some())
}

/// An image as `kustomize edit set image` reads it: `NAME=NEW`, `NAME:TAG` and others; `None` if it changes nothing.
fn read_image(text: &str) -> Option<Value> {
    let (name, new) = text.split_once('=').map_or((None, text), |(name, new)| (Some(name), new));
    let (new, digest) = new.split_once('@').map_or((new, None), |(new, digest)| (new, Some(digest)));
    let is_tag =
        |tag: &str| tag == "*" || tag.chars().all(|c| c.is_ascii_alphanumeric() || "._-".contains(c));
    let tagged = new.rsplit_once(':').filter(|(_, tag)| is_tag(tag));
    let (new, tag) = tagged.map_or((new, None), |(new, tag)| (new, Some(tag)));
    if tag.is_none() && digest.is_none() && (name.is_none() || new.is_empty()) {
        return None;
    }
    let mut image = json!({ "name": name.unwrap_or(new) });
    for (key, value) in [("newName", name.map(|_| new)), ("newTag", tag), ("digest", digest)] {
        if let Some(value) = value.filter(|value| !value.is_empty()) {
            image[key] = value.into();
        }
    }
    Some(image)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_are_read_as_kustomize_does() {
        for (text, expected) in [
            ("nginx:1.2", json!({"name": "nginx", "newTag": "1.2"})),
            ("nginx=reg:5000/own:2", json!({"name": "nginx", "newName": "reg:5000/own", "newTag": "2"})),
            ("nginx=reg/own", json!({"name": "nginx", "newName": "reg/own"})),
            ("a/nginx@sha256:abc", json!({"name": "a/nginx", "digest": "sha256:abc"})),
            ("nginx=*:3", json!({"name": "nginx", "newName": "*", "newTag": "3"})),
            ("a:1@sha256:b", json!({"name": "a", "newTag": "1", "digest": "sha256:b"})),
        ] {
            assert_eq!(read_image(text), Some(expected), "{text}");
        }
        assert_eq!((read_image("nginx"), read_image("reg:5000/nginx"), read_image("")), (None, None, None));
    }
}
