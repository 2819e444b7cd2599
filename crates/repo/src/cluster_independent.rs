//! Checks that fields that affect placement are the same for every cluster, because an object is placed only
//! once.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::{Map, Value};

use super::classification::ClaimTable;
use super::sources::BuiltVariant;
use super::{Claims, Template};
use federate_gitops::{is_argo_source, is_flux_source};
use federate_kubernetes::kinds::is_known;
use federate_kubernetes::{ClusterName, Finding, Object, ObjectRef};

/// The objects of a template file for some clusters.
#[derive(Debug)]
pub(crate) struct RenderedVariant {
    /// The clusters: at least one, sorted.
    pub(crate) clusters: Vec<ClusterName>,
    /// The objects, sorted.
    pub(crate) objects: BTreeMap<ObjectRef, Arc<Object>>,
    /// What `kubectl` reads differently than it looks.
    pub(crate) warnings: Vec<Finding>,
}

/// Keys of metadata that affect placement.
const PLACEMENT_METADATA_KEYS: [&str; 6] =
    ["name", "namespace", "uid", "labels", "deletionTimestamp", "ownerReferences"];

/// Keys of metadata that name an object.
const IDENTITY_METADATA_KEYS: [&str; 2] = ["name", "namespace"];

/// What decides where the objects of a repo go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PlacementDecider {
    /// Policies, by what objects say.
    Policies,
    /// Nothing: each goes wherever it is built for.
    Nothing,
}

/// Keys anywhere in a spec that set the number of pods, their requests, and where they may run.
const SCHEDULING_KEYS: [&str; 7] =
    ["replicas", "parallelism", "completions", "resources", "nodeSelector", "tolerations", "affinity"];

/// The parts of a manifest that affect placement: identity, labels, annotations of control planes, replicas,
/// and requests of pods. Everything else may differ between clusters.
fn placement_fields(object: &Object, claims: &dyn Claims) -> Value {
    let body = &object.body;
    let mut facts = identity_fields(body, &PLACEMENT_METADATA_KEYS, claims);
    // An object of Flux or Argo CD has no pods: what its values say of pods is for another program.
    let has_pods = !is_flux_source(object) && !is_argo_source(object);
    let spec = body.get("spec").filter(|_| has_pods).and_then(extract_scheduling_fields);
    facts.extend(spec.map(|spec| ("spec".to_owned(), spec)));
    Value::Object(facts)
}

/// The parts of a manifest that name it, with these keys of its metadata and the annotations of control planes. A value that is
/// empty says the same as one that is missing.
fn identity_fields(body: &Value, metadata_keys: &[&str], claims: &dyn Claims) -> Map<String, Value> {
    let mut facts = Map::new();
    for key in ["apiVersion", "kind"] {
        facts.extend(body.get(key).map(|value| (key.to_owned(), value.clone())));
    }
    let mut metadata = Map::new();
    for (key, value) in body.get("metadata").and_then(Value::as_object).into_iter().flatten() {
        match value {
            value if metadata_keys.contains(&key.as_str()) => {
                metadata.extend(Some((key.clone(), value.clone())).filter(|_| !is_empty_value(value)));
            }
            Value::Object(annotations) if key == "annotations" => {
                let read = annotations.iter().filter(|(key, _)| {
                    key.split_once('/').is_some_and(|(domain, _)| claims.owns_domain(domain))
                });
                let read: Map<_, _> = read.map(|(k, v)| (k.clone(), v.clone())).collect();
                metadata.extend(
                    Some((key.clone(), Value::Object(read))).filter(|(_, read)| !is_empty_value(read)),
                );
            }
            _ => {}
        }
    }
    facts.insert("metadata".to_owned(), Value::Object(metadata));
    facts
}

/// Whether a value is null, or a map or a list with nothing in it.
fn is_empty_value(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(map) => map.is_empty(),
        _ => false,
    }
}

/// The values of keys in [`SCHEDULING_KEYS`] that are not empty, with the keys and indices that lead to them.
fn extract_scheduling_fields(value: &Value) -> Option<Value> {
    let found: Map<String, Value> = match value {
        Value::Object(map) => map
            .iter()
            .filter_map(|(key, value)| {
                if !SCHEDULING_KEYS.contains(&key.as_str()) {
                    return Some((key.clone(), extract_scheduling_fields(value)?));
                }
                (!is_empty_value(value)).then(|| (key.clone(), value.clone()))
            })
            .collect(),
        Value::Array(items) => (0..)
            .zip(items)
            .filter_map(|(index, item): (usize, _)| {
                Some((index.to_string(), extract_scheduling_fields(item)?))
            })
            .collect(),
        _ => return None,
    };
    (!found.is_empty()).then_some(Value::Object(found))
}

/// Combines the objects of a file for all clusters into templates; the variant of the first cluster decides
/// placement. Objects whose placement would differ between clusters are left out and reported.
pub(crate) fn combine_variants(
    variants: &[RenderedVariant],
    claims: &dyn Claims,
) -> (Vec<Template>, Vec<Finding>) {
    let mut findings = Vec::new();
    let mut templates = Vec::new();
    let Some((first, others)) = variants.split_first() else { return (templates, findings) };
    for object in first.objects.values() {
        match per_cluster(object, first, others, claims) {
            Ok(per_cluster) => {
                let per_cluster = Some(per_cluster);
                templates.push(Template { per_cluster, ..Template::new(Object::clone(object)) });
            }
            Err(finding) => findings.push(*finding),
        }
    }
    let mut more = BTreeMap::new();
    for other in others {
        for (id, object) in other.objects.iter().filter(|(id, _)| !first.objects.contains_key(id)) {
            more.entry(id).or_insert_with(|| report_missing(object, other, first));
        }
    }
    findings.extend(more.into_values());
    (templates, findings)
}

fn per_cluster(
    object: &Arc<Object>,
    first: &RenderedVariant,
    others: &[RenderedVariant],
    claims: &dyn Claims,
) -> Result<BTreeMap<ClusterName, Arc<Object>>, Box<Finding>> {
    let facts = placement_fields(object, claims);
    let mut bodies: BTreeMap<_, _> = first.clusters.iter().map(|c| (c.clone(), object.clone())).collect();
    for other in others {
        let Some(own) = other.objects.get(&object.id) else {
            return Err(Box::new(report_missing(object, first, other)));
        };
        if let Some(difference) = find_difference(&facts, &placement_fields(own, claims)) {
            return Err(Box::new(report_difference(
                object,
                first_cluster_name(&first.clusters),
                first_cluster_name(&other.clusters),
                &difference,
            )));
        }
        let own = if own.body == object.body { object } else { own };
        bodies.extend(other.clusters.iter().map(|c| (c.clone(), own.clone())));
    }
    Ok(bodies)
}

/// What was built for each cluster.
#[derive(Default)]
pub(crate) struct CombinedBuilds {
    /// What decides placement, and what is the same for all clusters.
    pub(crate) objects: Vec<Object>,
    /// The templates that differ, or that only some clusters receive.
    pub(crate) per_cluster: Vec<Template>,
    pub(crate) findings: Vec<Finding>,
}

/// The body of an object for some clusters.
type ClusterBody = (Vec<ClusterName>, Arc<Object>);

/// Combines what was built for all clusters. Unlike `*.j2` templates, an object may be missing for some clusters, which do not
/// receive it then; and policies may be among them, if they are the same for all clusters that have them. `is_restricted`: whether
/// other clusters receive nothing of it.
pub(crate) fn combine_built(
    variants: Vec<BuiltVariant>,
    is_restricted: bool,
    decider: PlacementDecider,
    claims: &ClaimTable<'_>,
) -> CombinedBuilds {
    let mut combined = CombinedBuilds::default();
    let count = variants.len();
    let mut bodies: BTreeMap<ObjectRef, Vec<ClusterBody>> = BTreeMap::new();
    let mut receivers: BTreeMap<ObjectRef, BTreeMap<ClusterName, Arc<Object>>> = BTreeMap::new();
    for BuiltVariant { clusters, objects, .. } in variants {
        let mut known = BTreeSet::new();
        for object in objects {
            if known.insert(object.id.clone()) {
                let all = bodies.entry(object.id.clone()).or_default();
                let receiving = receivers.entry(object.id.clone()).or_default();
                let differs = |name: &&ClusterName| {
                    receiving.get(*name).is_some_and(|own: &Arc<Object>| own.body != object.body)
                };
                if let Some(cluster) = clusters.iter().find(differs) {
                    let message =
                        format!("several sources build {} for cluster {cluster}, differently", object.id);
                    let help = "let one of them build it";
                    combined
                        .findings
                        .push(Finding::error("duplicate-object", &object, message).with_help(help));
                    continue;
                }
                let is_new = |name: &&ClusterName| !receiving.contains_key(*name);
                let new: Vec<ClusterName> = clusters.iter().filter(is_new).cloned().collect();
                // What several sources build equally is one object.
                if !new.is_empty() || clusters.is_empty() {
                    let object = Arc::new(object);
                    receiving.extend(new.iter().map(|name| (name.clone(), object.clone())));
                    all.push((new, object));
                }
            } else {
                let message = format!("one build contains {} twice", object.id);
                let help = "remove one of the two from the chart or the kustomization";
                combined.findings.push(Finding::error("duplicate-object", &object, message).with_help(help));
            }
        }
    }
    for mut variants in bodies.into_values() {
        let Some((clusters, object)) = variants.first().cloned() else { continue };
        let is_claimed = claims.role_of_object(&object).is_some();
        let found = variants.iter().find_map(|(others, other)| {
            let [own, others_own] = [&object, other].map(|object| match decider {
                _ if is_claimed => object.body.clone(),
                PlacementDecider::Policies => placement_fields(object, claims.claims),
                PlacementDecider::Nothing => {
                    Value::Object(identity_fields(&object.body, &IDENTITY_METADATA_KEYS, claims.claims))
                }
            });
            let difference = find_difference(&own, &others_own);
            Some((first_cluster_name(others), difference?))
        });
        if let Some((other, found)) = found {
            combined.findings.push(report_difference(&object, first_cluster_name(&clusters), other, &found));
            continue;
        }
        let is_equal = variants.iter().all(|(_, other)| other.body == object.body);
        if is_claimed || (is_equal && variants.len() == count && !is_restricted) {
            combined.objects.push(Object::clone(&object));
            continue;
        }
        // Equal bodies are shared.
        let mut known: BTreeMap<String, Arc<Object>> = BTreeMap::new();
        for (_, own) in &mut variants {
            let same = known.entry(own.body.to_string()).or_insert_with(|| own.clone());
            *own = same.clone();
        }
        let per_cluster = variants.into_iter().flat_map(|(clusters, object)| {
            clusters.into_iter().map(move |cluster| (cluster, object.clone()))
        });
        let per_cluster = Some(per_cluster.collect());
        let template = Template { per_cluster, ..Template::new(Object::clone(&object)) };
        combined.per_cluster.push(Template { has_destination: is_restricted, ..template });
    }
    combined
}

/// A difference of two values.
struct Difference {
    pointer: String,
    a: Option<Value>,
    b: Option<Value>,
}

/// The first difference of two values.
fn find_difference(a: &Value, b: &Value) -> Option<Difference> {
    if a == b {
        return None;
    }
    let (Value::Object(left), Value::Object(right)) = (a, b) else {
        return Some(Difference { pointer: String::new(), a: Some(a.clone()), b: Some(b.clone()) });
    };
    left.keys().chain(right.keys()).find_map(|key| {
        let mut found = match (left.get(key), right.get(key)) {
            (Some(a), Some(b)) => find_difference(a, b)?,
            (a, b) => Difference { pointer: String::new(), a: a.cloned(), b: b.cloned() },
        };
        found.pointer = format!("/{}{}", federate_yaml::pointer::escape(key), found.pointer);
        Some(found)
    })
}

fn first_cluster_name(clusters: &[ClusterName]) -> &str {
    clusters.first().map_or("", |name| name)
}

fn report_difference(object: &Object, a: &str, b: &str, difference: &Difference) -> Finding {
    // Values of unknown kinds could be secret.
    let harmless = is_known(&object.id.kind) && !object.id.kind.contains("Secret");
    let [shown_a, shown_b] =
        [(&difference.a, "one"), (&difference.b, "another")].map(|(value, name)| match value {
            None => "missing".to_owned(),
            Some(value) if harmless => format!("`{value}`"),
            Some(_) => format!("{name} value"),
        });
    let message = format!(
        "`{}` of {} affects its placement and must be the same for every cluster, but it is {shown_a} for cluster {a} \
         and {shown_b} for cluster {b}",
        difference.pointer, object.id,
    );
    Finding::error("template-differs", object, message)
        .with_pointer(difference.pointer.as_str())
        .with_help("use one value, and change it for single clusters with an override policy")
}

fn report_missing(object: &Object, with: &RenderedVariant, without: &RenderedVariant) -> Finding {
    let (with, without) = (first_cluster_name(&with.clusters), first_cluster_name(&without.clusters));
    let message = format!("{} is rendered for cluster {with} but not for cluster {without}", object.id);
    Finding::error("template-differs", object, message)
        .with_help("render it for every cluster, and select the clusters with a placement policy")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::{DeclaredKind, Role};
    use super::*;

    /// A control plane whose annotations are those of `karmada.io`.
    struct Karmada;

    impl Claims for Karmada {
        fn role_of_kind(&self, _: &str, _: &str) -> Option<(&'static str, Role)> {
            None
        }

        fn declared_kind(&self, _: &Object) -> Option<(&'static str, DeclaredKind)> {
            None
        }

        fn owns_domain(&self, domain: &str) -> bool {
            domain == "karmada.io"
        }
    }

    fn variant(cluster: &str, bodies: &[Value]) -> RenderedVariant {
        let object = |body: &Value| {
            let name = body["metadata"]["name"].as_str().unwrap();
            let object = Object::from_path("apps/v1", "Deployment", name, body.clone());
            (object.id.clone(), Arc::new(object))
        };
        RenderedVariant {
            clusters: vec![cluster.into()],
            objects: bodies.iter().map(object).collect(),
            warnings: Vec::new(),
        }
    }

    fn web(change: &[(&str, Value)]) -> Value {
        let mut body = json!({
            "metadata": {"name": "web", "labels": {"a": "1"}, "annotations": {"karmada.io/x": "1", "own": "1"}},
            "spec": {"replicas": 2, "template": {"spec": {"containers": [
                {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}
            ]}}},
        });
        for (pointer, value) in change {
            *body.pointer_mut(pointer).unwrap() = value.clone();
        }
        body
    }

    #[test]
    fn what_decides_placement_must_not_differ_and_anything_else_may() {
        let container = "/spec/template/spec/containers/0";
        for (pointer, value, decides) in [
            ("/spec/replicas", json!(3), true),
            ("/metadata/labels/a", json!("2"), true),
            ("/metadata/annotations/karmada.io~1x", json!("2"), true),
            (&format!("{container}/resources/requests/cpu"), json!("2"), true),
            ("/metadata/annotations/own", json!("2"), false),
            (&format!("{container}/image"), json!("j"), false),
            (&format!("{container}/name"), json!("d"), false),
        ] {
            let changed = web(&[(pointer, value)]);
            let (templates, findings) = combine_variants(
                &[variant("m1", &[web(&[])]), variant("m2", std::slice::from_ref(&changed))],
                &Karmada,
            );
            if decides {
                assert!(templates.is_empty());
                assert_eq!((findings[0].code, findings[0].pointer.as_str()), ("template-differs", pointer));
            } else {
                assert_eq!(findings, []);
                assert_eq!(templates[0].for_cluster("m2").body, changed);
                assert_eq!(templates[0].for_cluster("m1").body, web(&[]));
            }
        }
    }

    #[test]
    fn values_for_other_programs_may_differ() {
        let release = |cpu: &str| {
            json!({"apiVersion": "helm.toolkit.fluxcd.io/v2", "kind": "HelmRelease", "metadata": {"name": "web", "namespace": "shop"},
                "spec": {"values": {"resources": {"limits": {"cpu": cpu}}}}})
        };
        let variants = [("m1", "1"), ("m2", "2")].map(|(cluster, cpu)| {
            let object = Object::from_manifest(release(cpu), "a.yaml");
            RenderedVariant {
                clusters: vec![cluster.into()],
                objects: [(object.id.clone(), Arc::new(object))].into(),
                warnings: Vec::new(),
            }
        });
        let (templates, findings) = combine_variants(&variants, &Karmada);
        assert_eq!(findings, []);
        assert_eq!(templates[0].for_cluster("m2").body, release("2"));
    }

    /// As two Kustomizations of Flux may apply one object that both have in their folders.
    #[test]
    fn what_several_sources_build_equally_is_one_object() {
        let built = |clusters: &[&str], image: &str| BuiltVariant {
            clusters: clusters.iter().map(|name| (*name).into()).collect(),
            namespace: None,
            objects: vec![Object::from_manifest(
                json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "n"}, "data": {"i": image}}),
                "a.yaml",
            )],
            inputs: [].into(),
            record: 0,
        };
        let combine = |variants: Vec<BuiltVariant>| {
            let table = ClaimTable::new(&Karmada, [].iter());
            combine_built(variants, true, PlacementDecider::Nothing, &table)
        };
        let equal = combine(vec![built(&["m1", "m2"], "1"), built(&["m2", "m3"], "1")]);
        assert_eq!(equal.findings, []);
        let [template] = equal.per_cluster.as_slice() else { panic!("{:?}", equal.per_cluster) };
        let clusters: Vec<&str> = template.per_cluster.iter().flatten().map(|(name, _)| &**name).collect();
        assert_eq!(clusters, ["m1", "m2", "m3"]);
        let differing = combine(vec![built(&["m1"], "1"), built(&["m1"], "2")]);
        let [finding] = differing.findings.as_slice() else { panic!("{:?}", differing.findings) };
        assert!(finding.message.ends_with("for cluster m1, differently"), "{}", finding.message);
    }

    #[test]
    fn what_is_empty_says_the_same_as_what_is_missing() {
        let container = "/spec/template/spec/containers/0";
        for (pointer, key, empty) in [
            ("/metadata", "labels", json!({})),
            ("/metadata", "annotations", json!({"own": "1"})),
            ("/metadata", "annotations", json!(null)),
            ("/metadata", "ownerReferences", json!([])),
            (container, "resources", json!({})),
            ("/spec/template/spec", "nodeSelector", json!(null)),
            ("/spec/template/spec", "tolerations", json!([])),
        ] {
            let [mut missing, mut present] = [web(&[]), web(&[])];
            missing.pointer_mut(pointer).unwrap().as_object_mut().unwrap().shift_remove(key);
            present.pointer_mut(pointer).unwrap()[key] = empty;
            for (first, second) in [(&missing, &present), (&present, &missing)] {
                let variants = [first, second].map(std::slice::from_ref);
                let (templates, findings) =
                    combine_variants(&[variant("m1", variants[0]), variant("m2", variants[1])], &Karmada);
                assert_eq!(findings, [], "{pointer}/{key}");
                assert_eq!(templates[0].for_cluster("m2").body, *second);
            }
        }
    }

    #[test]
    fn the_message_shows_both_values_and_clusters() {
        let (_, findings) = combine_variants(
            &[variant("m1", &[web(&[])]), variant("m2", &[web(&[("/spec/replicas", json!(3))])])],
            &Karmada,
        );
        assert_eq!(
            findings[0].message,
            "`/spec/replicas` of Deployment web affects its placement and must be the same for every cluster, \
             but it is `2` for cluster m1 and `3` for cluster m2"
        );
    }

    #[test]
    fn every_cluster_must_get_the_same_objects() {
        let other = json!({"metadata": {"name": "other"}});
        for variants in [
            [variant("m1", &[web(&[]), other.clone()]), variant("m2", &[web(&[])])],
            [variant("m1", &[web(&[])]), variant("m2", &[web(&[]), other.clone()])],
        ] {
            let (templates, findings) = combine_variants(&variants, &Karmada);
            assert_eq!(templates.iter().map(|t| t.object.id.name.as_str()).collect::<Vec<_>>(), ["web"]);
            assert_eq!(findings.len(), 1);
            assert!(findings[0].message.starts_with("Deployment other is rendered for cluster m"));
        }
    }

    #[test]
    fn equal_bodies_are_shared() {
        let (templates, _) =
            combine_variants(&[variant("m1", &[web(&[])]), variant("m2", &[web(&[])])], &Karmada);
        let bodies = templates[0].per_cluster.as_ref().unwrap();
        assert!(Arc::ptr_eq(&bodies["m1"], &bodies["m2"]));
    }
}
