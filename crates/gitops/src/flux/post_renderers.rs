//! The post-renderers of a `HelmRelease`: kustomizations of what Helm has rendered.
//!
//! Facts: the API `helm.toolkit.fluxcd.io/v2`, and helm-controller. A post-renderer has patches and images; one without `kustomize` does
//! nothing. Since Flux 2.9, hooks go through it with the other manifests, unless `postRenderStrategy` says otherwise.

use serde_json::{Map, Value, json};

use federate_kubernetes::object::field_text;

use crate::description::{DescriptionError, HookRendering, PostRendering};

/// The lists of a post-renderer that are carried out, with the fields of their items.
const LISTS: [(&str, &[&str]); 2] =
    [("images", &["name", "newName", "newTag", "digest"]), ("patches", &["patch", "target"])];

/// The fields of the target of a patch.
const TARGET_FIELDS: [&str; 7] =
    ["group", "version", "kind", "name", "namespace", "labelSelector", "annotationSelector"];

/// Reads the post-renderers of the spec of a release. `has_hooks` says whether hooks go through them by default.
pub(super) fn read_post_rendering(spec: &Value, has_hooks: bool) -> Result<PostRendering, DescriptionError> {
    let hooks = match field_text(spec, "postRenderStrategy") {
        "" if has_hooks => HookRendering::Combined,
        "combined" => HookRendering::Combined,
        "separate" => HookRendering::Separate,
        "" | "nohooks" => HookRendering::Left,
        other => {
            let why = format!("Flux has no strategy `{other}` for post-renderers");
            return Err(DescriptionError::new("/spec/postRenderStrategy", why));
        }
    };
    let mut kustomizations = Vec::new();
    for (index, item) in spec.get("postRenderers").and_then(Value::as_array).into_iter().flatten().enumerate()
    {
        let pointer = format!("/spec/postRenderers/{index}");
        refuse_others(item, &["kustomize"], &pointer)?;
        let Some(kustomize) = item.get("kustomize").filter(|kustomize| !kustomize.is_null()) else {
            continue;
        };
        let pointer = format!("{pointer}/kustomize");
        refuse_others(kustomize, &LISTS.map(|(key, _)| key), &pointer)?;
        let mut fields = Map::new();
        for (key, known) in LISTS {
            let items = kustomize.get(key).and_then(Value::as_array).into_iter().flatten();
            for (at, item) in items.enumerate() {
                let pointer = format!("{pointer}/{key}/{at}");
                refuse_others(item, known, &pointer)?;
                let target = item.get("target").filter(|target| !target.is_null());
                target.map_or(Ok(()), |target| {
                    refuse_others(target, &TARGET_FIELDS, &format!("{pointer}/target"))
                })?;
                let list = fields.entry(key).or_insert_with(|| json!([]));
                list.as_array_mut().into_iter().for_each(|list| list.push(item.clone()));
            }
        }
        kustomizations.push(Value::Object(fields).to_string());
    }
    Ok(PostRendering { kustomizations, hooks })
}

/// Refuses fields that are not carried out.
fn refuse_others(value: &Value, known: &[&str], pointer: &str) -> Result<(), DescriptionError> {
    let fields = value.as_object().into_iter().flatten();
    let mut unknown = fields.filter(|(key, value)| !value.is_null() && !known.contains(&key.as_str()));
    match unknown.next() {
        Some((key, _)) => {
            let pointer = format!("{pointer}/{}", federate_yaml::pointer::escape(key));
            let why = format!("federate does not carry out `{key}` of a post-renderer");
            Err(DescriptionError::new(&pointer, why).with_help("write it as `patches` or `images`"))
        }
        None => Ok(()),
    }
}
