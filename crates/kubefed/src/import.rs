//! Import: turns an object into its federated object, as `kubefedctl federate` does, and a
//! `CustomResourceDefinition` into a `FederatedTypeConfig`, as `kubefedctl enable` does.

use std::cmp::Ordering;

use serde_json::{Map, Value, json};

use federate_dialect::import::{ImportOutcome, Importer, ObjectImportOptions};
use federate_kubernetes::{Finding, Object};

/// The API group and version of federated objects.
const FEDERATED: (&str, &str) = ("types.kubefed.io", "v1beta1");

/// The importer.
pub(super) const IMPORTER: Importer = Importer {
    import_object,
    unnamed: Some(
        "KubeFed has neither policies nor cluster lists for adoption: a federated object contains its placement",
    ),
    everywhere: None,
    wraps: true,
    enables_types: true,
    note: None,
    retain: None,
};

/// Imports an object.
fn import_object(object: &Object, options: &ObjectImportOptions) -> Result<ImportOutcome, Vec<Finding>> {
    let made = if options.enable {
        type_config_for(object).map_err(|finding| vec![finding])?
    } else {
        wrap_object(object)
    };
    Ok(ImportOutcome::Objects(vec![made]))
}

/// Returns the federated object with `object` as its template, placed on every cluster.
fn wrap_object(object: &Object) -> Value {
    let (kind, name) = (object.id.kind.as_str(), object.id.name.as_str());
    let namespace = if kind == "Namespace" { Some(name) } else { object.id.namespace.as_deref() };
    let mut metadata = Map::new();
    metadata.insert("name".into(), name.into());
    metadata.extend(namespace.map(|namespace| ("namespace".to_owned(), namespace.into())));
    json!({
        "apiVersion": format!("{}/{}", FEDERATED.0, FEDERATED.1),
        "kind": format!("Federated{kind}"),
        "metadata": metadata,
        "spec": {
            "placement": {"clusterSelector": {"matchLabels": {}}},
            "template": template_part(object),
        },
    })
}

/// The part of an object that stays in its federated object.
fn template_part(object: &Object) -> Value {
    let mut template = object.body.clone();
    let Some(map) = template.as_object_mut() else { return template };
    for key in ["apiVersion", "kind", "status"] {
        map.shift_remove(key);
    }
    let labels = object
        .value_at(&["metadata", "labels"])
        .filter(|labels| labels.as_object().is_some_and(|labels| !labels.is_empty()));
    match labels {
        Some(labels) => map.insert("metadata".into(), json!({"labels": labels})),
        None => map.shift_remove("metadata"),
    };
    if object.id.kind == "ServiceAccount" {
        map.shift_remove("secrets");
    }
    let Some(Value::Object(spec)) = map.get_mut("spec") else { return template };
    match object.id.kind.as_str() {
        "Namespace" => {
            spec.shift_remove("finalizers");
        }
        "Service" => remove_allocated_fields(spec),
        _ => {}
    }
    template
}

/// Addresses and node ports, which each cluster allocates by itself.
fn remove_allocated_fields(spec: &mut Map<String, Value>) {
    spec.shift_remove("clusterIP");
    spec.shift_remove("clusterIPs");
    let ports = spec.get_mut("ports").and_then(Value::as_array_mut);
    for port in ports.into_iter().flatten().filter_map(Value::as_object_mut) {
        port.shift_remove("nodePort");
    }
}

/// Returns the configuration that federates the type of a `CustomResourceDefinition`.
fn type_config_for(object: &Object) -> Result<Value, Finding> {
    if object.id.group() != "apiextensions.k8s.io" || object.id.kind != "CustomResourceDefinition" {
        let message =
            format!("{} is not a CustomResourceDefinition, so there is no type to enable", object.id);
        return Err(Finding::error("not-a-type", object, message)
            .with_pointer("/kind")
            .with_help("remove --enable to federate the object itself"));
    }
    let group = read_text(object, "/spec/group")?;
    let scope = read_text(object, "/spec/scope")?;
    let kind = read_text(object, "/spec/names/kind")?;
    let plural = read_text(object, "/spec/names/plural")?;
    let Some(version) = preferred_version(object) else {
        let message = format!("{} has no served version", object.id);
        return Err(Finding::error("invalid-object", object, message).with_pointer("/spec/versions"));
    };
    Ok(json!({
        "apiVersion": "core.kubefed.io/v1beta1",
        "kind": "FederatedTypeConfig",
        "metadata": {"name": format!("{plural}.{group}")},
        "spec": {
            "federatedType": {
                "group": FEDERATED.0,
                "kind": format!("Federated{kind}"),
                "pluralName": format!("federated{plural}"),
                "scope": scope,
                "version": FEDERATED.1,
            },
            "propagation": "Enabled",
            "targetType": {"group": group, "kind": kind, "pluralName": plural, "scope": scope, "version": version},
        },
    }))
}

fn read_text<'o>(object: &'o Object, pointer: &str) -> Result<&'o str, Finding> {
    match object.body.pointer(pointer).and_then(Value::as_str) {
        Some(text) if !text.is_empty() => Ok(text),
        _ => {
            let field = pointer.trim_start_matches('/').replace('/', ".");
            let message = format!("{} does not say `{field}`", object.id);
            Err(Finding::error("invalid-object", object, message).with_pointer(pointer))
        }
    }
}

/// The preferred version: the highest one that is served.
fn preferred_version(object: &Object) -> Option<&str> {
    let versions = object.value_at(&["spec", "versions"]).and_then(Value::as_array).into_iter().flatten();
    let served = versions.filter(|version| version["served"] != false);
    served.filter_map(|version| version["name"].as_str()).max_by(|a, b| compare_versions(a, b))
}

/// The order of versions in Kubernetes, the preferred one greatest: `v2` before `v1`, stable versions before
/// beta and alpha ones, and all of them before other names, which are in reverse alphabetical order.
fn compare_versions(a: &str, b: &str) -> Ordering {
    match (version_parts(a), version_parts(b)) {
        (Some(a), Some(b)) => a.cmp(&b),
        (Some(_), None) => Ordering::Greater,
        (None, Some(_)) => Ordering::Less,
        (None, None) => b.cmp(a),
    }
}

/// Stability, major and minor number of a version.
fn version_parts(version: &str) -> Option<(u8, u64, u64)> {
    let rest = version.strip_prefix('v')?;
    let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (major, rest) = rest.split_at(digits);
    let major = major.parse().ok().filter(|major| *major > 0)?;
    for (stability, word) in [(1, "beta"), (0, "alpha")] {
        if let Some(minor) = rest.strip_prefix(word) {
            return Some((stability, major, minor.parse().ok()?));
        }
    }
    rest.is_empty().then_some((2, major, 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn crd(versions: &Value) -> Object {
        let spec = json!({"group": "x.io", "scope": "Cluster", "names": {"kind": "Box", "plural": "boxen"}, "versions": versions});
        Object::from_path("apiextensions.k8s.io/v1", "CustomResourceDefinition", "a", json!({"spec": spec}))
    }

    #[test]
    fn a_namespace_is_federated_inside_itself() {
        let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a", "labels": {}, "uid": "u"},
            "spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"}});
        let made = wrap_object(&Object::from_path("v1", "Namespace", "a", body));
        assert_eq!(made["metadata"], json!({"name": "a", "namespace": "a"}));
        assert_eq!(made["spec"]["template"], json!({"spec": {}}));
        assert_eq!(made["kind"], "FederatedNamespace");
    }

    #[test]
    fn a_service_gives_up_addresses_and_node_ports() {
        let spec = json!({"clusterIP": "None", "clusterIPs": ["None"], "healthCheckNodePort": 1,
            "ports": [{"port": 80, "nodePort": 30000}, 7]});
        let made = wrap_object(&Object::from_path("v1", "Service", "a", json!({"spec": spec})));
        assert_eq!(
            made["spec"]["template"]["spec"],
            json!({"healthCheckNodePort": 1, "ports": [{"port": 80}, 7]})
        );
    }

    #[test]
    fn the_preferred_version_is_enabled() {
        let order = ["foo10", "foo1", "v11alpha2", "v12alpha1", "v3beta1", "v10beta3", "v1", "v2", "v10"];
        assert!(order.is_sorted_by(|a, b| compare_versions(a, b) == Ordering::Less || a == b), "{order:?}");
        let versions = json!([{"name": "v1beta1", "served": true}, {"name": "v1", "served": true}, {"name": "v2", "served": false}]);
        let made = type_config_for(&crd(&versions)).unwrap();
        assert_eq!(made["spec"]["targetType"]["version"], "v1");
        assert_eq!(made["metadata"], json!({"name": "boxen.x.io"}));
        assert_eq!(type_config_for(&crd(&json!([]))).unwrap_err().pointer, "/spec/versions");
    }

    #[test]
    fn only_types_can_be_enabled() {
        let pod = Object::from_path("v1", "Pod", "a", json!({}));
        assert_eq!(type_config_for(&pod).unwrap_err().code, "not-a-type");
        let mut broken = crd(&json!([{"name": "v1"}]));
        broken.body["spec"]["names"]["plural"] = json!(7);
        assert_eq!(type_config_for(&broken).unwrap_err().pointer, "/spec/names/plural");
    }
}
