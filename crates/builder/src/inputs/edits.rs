//! Changes the kustomization of a job before it is read: fields that an object of Flux or Argo CD adds.
//!
//! Facts: the generator of Flux's kustomizations, and the commands of `kustomize edit`. Flux merges images into those of the same
//! name; `kustomize edit` replaces them, unless a part is `*`, and refuses labels and annotations that are there.

use serde_json::{Map, Value, json};

use federate_repo::build::{BuildError, KustomizationJob, KustomizationRules};
use federate_repo::file_tree::EntryKind;
use federate_repo::source_ignore::SourceIgnore;

use super::{KUSTOMIZATION_NAMES, MAX_FILES, Reader, join_path, refuse_build};

/// The setting by which kustomize notes the origins of objects.
pub(super) const ORIGIN_SETTING: &str = "originAnnotations";

/// The deepest nesting of folders without a kustomization.
const MAX_DEPTH: usize = 100;

impl Reader<'_> {
    /// Adds a kustomization where Flux would, and the changes of the job.
    pub(super) fn prepare_kustomization(
        &mut self,
        folder: &str,
        job: &KustomizationJob,
    ) -> Result<(), BuildError> {
        let is_flux = job.rules == KustomizationRules::Flux;
        let mut is_generated = false;
        if is_flux && !self.has_kustomization(folder) {
            self.generate_kustomization(folder)?;
            is_generated = true;
        }
        let edits = match serde_json::from_str::<Value>(&job.edits) {
            Ok(Value::Object(edits)) => edits,
            _ => Map::new(),
        };
        let paths = KUSTOMIZATION_NAMES.map(|name| join_path(folder, name));
        let Some(path) = paths.iter().find(|path| self.has_file(path)) else { return Ok(()) };
        self.add_file(path, None)?;
        let text = self.inputs.files.get(path).cloned().unwrap_or_default();
        let stream = federate_yaml::read_stream(&text);
        let mut value =
            stream.documents.into_iter().next().map(|document| document.value).unwrap_or_default();
        if value.is_null() && (is_flux || !edits.is_empty()) {
            value = json!({});
        }
        // What cannot be read is refused where it is read.
        let Some(fields) = value.as_object_mut().filter(|_| stream.errors.is_empty()) else { return Ok(()) };
        // Flux asks for the origins of objects where a kustomization has no resources, which kustomize would refuse as empty.
        let is_without_resources = is_flux && !is_generated && has_no_resources(fields);
        if is_without_resources {
            fields.insert("buildMetadata".to_owned(), json!([ORIGIN_SETTING]));
        }
        let is_changed = is_without_resources || !edits.is_empty() || text.is_empty();
        for (key, edit) in edits {
            edit_field(fields, &key, edit, job.rules).map_err(|why| refuse_build(None, why, None))?;
        }
        self.inputs.keeps_origins = asks_for_origins(fields);
        if is_changed {
            self.inputs.files.insert(path.clone(), value.to_string().into_bytes());
        }
        Ok(())
    }

    /// Adds a kustomization that lists the files of a folder without one.
    fn generate_kustomization(&mut self, folder: &str) -> Result<(), BuildError> {
        let mut resources = Vec::new();
        let mut ignored = SourceIgnore::read(self.source, folder);
        self.list_resources(folder, "", MAX_DEPTH, &mut ignored, &mut resources)?;
        let kustomization = json!({"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization", "resources": resources});
        let [name, ..] = KUSTOMIZATION_NAMES;
        self.add_bytes(join_path(folder, name), kustomization.to_string().into_bytes())
    }

    fn has_kustomization(&self, folder: &str) -> bool {
        KUSTOMIZATION_NAMES
            .iter()
            .any(|name| matches!(self.kind_of(&join_path(folder, name)), Some(EntryKind::File)))
    }

    /// Lists the resources of a generated kustomization, relative to its folder: hidden files count, too, and those that Flux leaves
    /// out do not.
    fn list_resources(
        &self,
        root: &str,
        below: &str,
        depth: usize,
        ignored: &mut SourceIgnore,
        resources: &mut Vec<String>,
    ) -> Result<(), BuildError> {
        if depth == 0 {
            let why = format!("`{root}` has more than {MAX_DEPTH} folders in each other");
            return Err(refuse_build(None, why, None));
        }
        let folder = if below.is_empty() { root.to_owned() } else { join_path(root, below) };
        ignored.add_folder(self.source, &folder);
        let entries = self.source.list_folder(&folder);
        let mut entries =
            entries.map_err(|why| refuse_build(None, format!("`{folder}` cannot be listed: {why}"), None))?;
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        for entry in entries {
            let path = join_path(below, &entry.name);
            match entry.kind {
                // Only files are left out: another pattern may keep some of a folder.
                EntryKind::File if ignored.ignores_file(&join_path(&folder, &entry.name)) => {}
                EntryKind::File => {
                    let extension = entry.name.rsplit_once('.').map_or("", |(_, extension)| extension);
                    resources.extend(["yaml", "yml"].contains(&extension).then_some(path));
                }
                EntryKind::Folder if entry.name == ".git" => {}
                EntryKind::Folder if self.has_kustomization(&join_path(&folder, &entry.name)) => {
                    resources.push(path);
                }
                EntryKind::Folder => self.list_resources(root, &path, depth - 1, ignored, resources)?,
                _ => {}
            }
            if resources.len() > MAX_FILES {
                return Err(refuse_build(None, format!("`{root}` has more than {MAX_FILES} files"), None));
            }
        }
        Ok(())
    }
}

/// Whether a kustomization asks kustomize to note the origins of objects.
fn asks_for_origins(fields: &Map<String, Value>) -> bool {
    let settings = fields.get("buildMetadata").and_then(Value::as_array).into_iter().flatten();
    settings.into_iter().any(|setting| setting == ORIGIN_SETTING)
}

fn has_no_resources(fields: &Map<String, Value>) -> bool {
    fields.get("resources").and_then(Value::as_array).is_none_or(Vec::is_empty)
}

/// Changes a field of a kustomization. The error says what is there already.
fn edit_field(
    fields: &mut Map<String, Value>,
    key: &str,
    edit: Value,
    rules: KustomizationRules,
) -> Result<(), String> {
    match (key, rules) {
        ("images", KustomizationRules::Flux) => edit_list(fields, key, edit, &merge_images),
        ("images", KustomizationRules::Kustomize) => {
            edit_list(fields, key, edit, &|items, added| replace_named(items, added, &keep_starred));
        }
        ("replicas", _) => {
            edit_list(fields, key, edit, &|items, added| replace_named(items, added, &|_, _| {}));
        }
        ("patches" | "components", _) => edit_list(fields, key, edit, &|items, added| items.extend(added)),
        ("addLabels", _) => return add_labels(fields, &edit),
        ("addAnnotations", _) => return add_pairs(fields, "commonAnnotations", &edit, "annotation"),
        _ => drop(fields.insert(key.to_owned(), edit)),
    }
    Ok(())
}

/// Changes a list of a kustomization, which is there afterwards, with the items of another.
fn edit_list(
    fields: &mut Map<String, Value>,
    key: &str,
    edit: Value,
    change: &dyn Fn(&mut Vec<Value>, Vec<Value>),
) {
    let Value::Array(added) = edit else { return };
    let value = fields.entry(key).or_insert(Value::Null);
    if !value.is_array() {
        *value = Value::Array(Vec::new());
    }
    if let Value::Array(items) = value {
        change(items, added);
    }
}

/// Merges images into those of the same name. Tag and digest are one unit.
fn merge_images(images: &mut Vec<Value>, added: Vec<Value>) {
    for image in added {
        let known = images.iter_mut().find(|known| known.get("name") == image.get("name"));
        let Some(known) = known.and_then(Value::as_object_mut) else {
            images.push(image);
            continue;
        };
        let given =
            |key: &str| image.get(key).filter(|value| value.as_str().is_some_and(|text| !text.is_empty()));
        if let Some(name) = given("newName") {
            known.insert("newName".to_owned(), name.clone());
        }
        if given("newTag").is_some() || given("digest").is_some() {
            for key in ["newTag", "digest"] {
                known.shift_remove(key);
                known.extend(given(key).map(|value| (key.to_owned(), value.clone())));
            }
        }
    }
}

/// Replaces items by those of the same name, and sorts them by name. `change` changes an item that replaces another, or none.
fn replace_named(items: &mut Vec<Value>, added: Vec<Value>, change: &dyn Fn(&mut Value, &Value)) {
    let name_of = |item: &Value| item.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
    for mut item in added {
        let known = items.iter().position(|known| name_of(known) == name_of(&item));
        change(&mut item, known.and_then(|at| items.get(at)).unwrap_or(&Value::Null));
        match known.and_then(|at| items.get_mut(at)) {
            Some(known) => *known = item,
            None => items.push(item),
        }
    }
    items.sort_by_key(name_of);
}

/// Takes those parts of an image that are `*` from the one that it replaces.
fn keep_starred(image: &mut Value, known: &Value) {
    let Some(image) = image.as_object_mut() else { return };
    for key in ["newName", "newTag", "digest"] {
        if image.get(key).is_some_and(|value| value == "*") {
            image.shift_remove(key);
            image.extend(known.get(key).map(|value| (key.to_owned(), value.clone())));
        }
    }
}

fn add_labels(fields: &mut Map<String, Value>, settings: &Value) -> Result<(), String> {
    let is_true = |value: &Value, key: &str| value.get(key) == Some(&Value::Bool(true));
    if !is_true(settings, "withoutSelector") {
        return add_pairs(fields, "commonLabels", settings, "label");
    }
    let includes_templates = is_true(settings, "includeTemplates");
    let is_same = |known: &Value| {
        !is_true(known, "includeSelectors") && is_true(known, "includeTemplates") == includes_templates
    };
    let mut added = Ok(());
    if !fields.get("labels").is_some_and(Value::is_array) {
        fields.insert("labels".to_owned(), Value::Array(Vec::new()));
    }
    if let Some(Value::Array(labels)) = fields.get_mut("labels") {
        let at = labels.iter().position(is_same).unwrap_or_else(|| {
            labels.push(json!({"includeTemplates": includes_templates}));
            labels.len() - 1
        });
        if let Some(known) = labels.get_mut(at).and_then(Value::as_object_mut) {
            added = add_pairs(known, "pairs", settings, "label");
        }
    }
    added
}

/// Adds the pairs of the settings to a map. Those that are there are replaced by force only.
fn add_pairs(fields: &mut Map<String, Value>, key: &str, settings: &Value, what: &str) -> Result<(), String> {
    let is_forced = settings.get("force") == Some(&Value::Bool(true));
    let mut map = fields.get(key).and_then(Value::as_object).cloned().unwrap_or_default();
    let pairs = settings.get("pairs").and_then(Value::as_object).into_iter().flatten();
    for (name, value) in pairs {
        if map.contains_key(name) && !is_forced {
            return Err(format!("the kustomization has the common {what} `{name}` already"));
        }
        map.insert(name.clone(), value.clone());
    }
    fields.insert(key.to_owned(), Value::Object(map));
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests fail loudly")]

    use super::*;

    fn edited(fields: &Value, key: &str, edit: Value, rules: KustomizationRules) -> Result<Value, String> {
        let mut fields = fields.as_object().cloned().unwrap();
        edit_field(&mut fields, key, edit, rules).map(|()| Value::Object(fields))
    }

    #[test]
    fn images_are_merged_by_flux_and_replaced_by_kustomize() {
        let fields = json!({"images": [{"name": "a", "newName": "b", "newTag": "1"}]});
        let tag = json!([{"name": "a", "digest": "sha256:x"}]);
        let merged = edited(&fields, "images", tag.clone(), KustomizationRules::Flux).unwrap();
        assert_eq!(merged["images"], json!([{"name": "a", "newName": "b", "digest": "sha256:x"}]));
        let replaced = edited(&fields, "images", tag.clone(), KustomizationRules::Kustomize).unwrap();
        assert_eq!(replaced["images"], tag);
        let starred = json!([{"name": "a", "newName": "*", "newTag": "2"}, {"name": "B", "newTag": "*"}]);
        let kept = edited(&fields, "images", starred, KustomizationRules::Kustomize).unwrap();
        assert_eq!(kept["images"], json!([{"name": "B"}, {"name": "a", "newTag": "2", "newName": "b"}]));
    }

    #[test]
    fn labels_that_are_there_need_force() {
        let fields = json!({"commonLabels": {"a": "1"}, "labels": [{"pairs": {"b": "1"}}]});
        let settings = |key: &str, rest: Value| {
            let mut settings = json!({"pairs": {key: "2"}});
            settings.as_object_mut().unwrap().extend(rest.as_object().cloned().unwrap());
            settings
        };
        for (key, rest, expected) in [
            ("a", json!({}), None),
            ("a", json!({"force": true}), Some(("/commonLabels/a", "2"))),
            ("a", json!({"withoutSelector": true}), Some(("/labels/0/pairs/a", "2"))),
            ("b", json!({"withoutSelector": true}), None),
            (
                "b",
                json!({"withoutSelector": true, "includeTemplates": true}),
                Some(("/labels/1/pairs/b", "2")),
            ),
        ] {
            let found = edited(&fields, "addLabels", settings(key, rest), KustomizationRules::Kustomize).ok();
            let found = found.map(|fields| expected.map(|(at, _)| fields.pointer(at).cloned()));
            assert_eq!(found, expected.map(|(_, value)| Some(Some(value.into()))), "{key}");
        }
    }
}
