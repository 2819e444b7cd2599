//! Sorts objects into a repo: finds duplicates, and separates objects of dialects from templates.

use std::collections::BTreeMap;

use rayon::prelude::*;

use super::duplicates::{Duplicate, objects_differ, separate_duplicates};
use super::exclusion::{ExcludedObject, Exclusion};
use super::{ClaimedObject, Claims, DeclaredKind, Role, Template};
use federate_kubernetes::{Finding, Object, ObjectRef, names};

/// The kinds that dialects claim in a repo: their own, and those that the repo's objects declare.
#[derive(Clone)]
pub(crate) struct ClaimTable<'a> {
    pub(crate) claims: &'a dyn Claims,
    declared: BTreeMap<(String, String), (&'static str, Role)>,
}

impl<'a> ClaimTable<'a> {
    /// Reads the declarations in `objects`; the first declaration of a kind counts.
    pub(crate) fn new<'o>(claims: &'a dyn Claims, objects: impl Iterator<Item = &'o Object>) -> Self {
        let mut declared = BTreeMap::new();
        for (dialect, DeclaredKind { group, kind, role, .. }) in
            objects.filter_map(|o| claims.declared_kind(o))
        {
            declared.entry((group, kind)).or_insert((dialect, role));
        }
        Self { claims, declared }
    }

    /// The dialect that claims an object, with the object's role.
    pub(crate) fn role_of_object(&self, object: &Object) -> Option<(&'static str, Role)> {
        self.role_of(&object.id)
    }

    /// The same for an identity.
    pub(crate) fn role_of(&self, id: &ObjectRef) -> Option<(&'static str, Role)> {
        let group = id.group();
        let of_kind = self.claims.role_of_kind(&id.api_version, &id.kind);
        of_kind
            .or_else(|| self.declared.get(&(group.to_owned(), id.kind.clone())).copied())
            .or_else(|| self.claims.control_plane(group).map(|dialect| (dialect, Role::ControlPlane)))
    }
}

/// The objects of a repo by what they are for.
#[derive(Default)]
pub(crate) struct ClassifiedObjects {
    /// Those that dialects claim, sorted.
    pub(crate) claimed: Vec<ClaimedObject>,
    /// The templates, sorted.
    pub(crate) templates: Vec<Template>,
    /// Objects that several documents define.
    pub(crate) duplicates: Vec<Duplicate>,
    /// Hooks and local objects.
    pub(crate) excluded: Vec<ExcludedObject>,
    pub(crate) findings: Vec<Finding>,
}

/// Separates objects, with scopes applied, into those that dialects claim and templates.
pub(crate) fn classify_objects(objects: Vec<Object>, claims: &ClaimTable<'_>) -> ClassifiedObjects {
    let mut sorted = ClassifiedObjects::default();
    let mut objects = objects;
    objects
        .extract_if(.., |object| {
            let exclusion =
                Exclusion::from_object(object).filter(|_| claims.role_of_object(object).is_none());
            let Some(exclusion) = exclusion else { return false };
            let never = exclusion.is_never_placed();
            sorted.excluded.push(ExcludedObject::new(object, exclusion));
            never
        })
        .for_each(drop);
    let (objects, duplicates) = separate_duplicates(objects, |object| object, objects_differ);
    for duplicate in duplicates {
        let of_dialect = !duplicate.different.is_empty() && claims.role_of(&duplicate.id).is_some();
        if of_dialect {
            sorted.findings.push(duplicate.to_finding());
        } else {
            sorted.duplicates.push(duplicate);
        }
    }
    sorted.templates.reserve(objects.len());
    for object in objects {
        match claims.role_of_object(&object) {
            Some((dialect, role)) => match unsafe_inventory(&object, role) {
                Some(finding) => sorted.findings.push(finding),
                None => sorted.claimed.push(ClaimedObject { dialect, role, object }),
            },
            None => sorted.templates.push(Template::new(object)),
        }
    }
    sorted.claimed.par_sort_unstable_by(|a, b| a.object.id.cmp(&b.object.id));
    sorted.templates.par_sort_unstable_by(|a, b| a.object.id.cmp(&b.object.id));
    sorted
}

/// The name of a cluster becomes a folder of the output.
fn unsafe_inventory(object: &Object, role: Role) -> Option<Finding> {
    let why = (role == Role::Inventory).then(|| names::safe_cluster(&object.id.name).err()).flatten()?;
    let message = format!("the cluster name {:?} is refused: {why}", object.id.name);
    Some(Finding::error("invalid-name", object, message).with_pointer("/metadata/name"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn object(api_version: &str, kind: &str, namespace: Option<&str>, name: &str, line: u32) -> Object {
        let body = json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name, "namespace": namespace}});
        let mut object = Object::from_manifest(body, "a.yaml");
        (object.origin.document, object.origin.line) = (line, line);
        object
    }

    #[test]
    fn two_versions_of_one_object_are_a_duplicate_and_both_places_are_named() {
        let objects = vec![
            object("batch/v1beta1", "CronJob", Some("a"), "n", 9),
            object("batch/v1", "CronJob", Some("a"), "n", 4),
            object("batch/v1", "CronJob", Some("b"), "n", 5),
        ];
        let ClassifiedObjects { claimed, templates, duplicates, .. } =
            classify_objects(objects, &ClaimTable::new(&|_: &str, _: &str| None, [].iter()));
        assert!(claimed.is_empty());
        assert_eq!(templates.iter().map(|t| t.object.origin.line).collect::<Vec<_>>(), [4, 5]);
        let [duplicate] = duplicates.as_slice() else { panic!("{duplicates:?}") };
        let finding = duplicate.to_finding();
        assert_eq!(finding.code, "duplicate-object");
        assert_eq!(finding.message, "CronJob a/n is defined twice: in a.yaml:4 and in a.yaml:9");
    }

    #[test]
    fn clusters_must_be_able_to_be_folders() {
        let cluster = object("x/v1", "Cluster", None, "placements.yaml", 1);
        let claims = |_: &str, _: &str| Some(("x", Role::Inventory));
        let ClassifiedObjects { claimed, findings, .. } =
            classify_objects(vec![cluster], &ClaimTable::new(&claims, [].iter()));
        assert!(claimed.is_empty());
        assert_eq!(findings.iter().map(|f| f.code).collect::<Vec<_>>(), ["invalid-name"]);
    }

    proptest! {
        #[test]
        fn the_order_of_objects_does_not_matter(
            names in prop::collection::vec(("[ab]", "[cd]", "(v1|apps/v1|apps/v2)"), 0..12),
            seed in any::<u64>(),
        ) {
            let objects: Vec<_> = (1..)
                .zip(&names)
                .map(|(line, (name, namespace, version))| object(version, "Deployment", Some(namespace), name, line))
                .collect();
            let mut other = objects.clone();
            other.sort_by_key(|o| seed.rotate_left(o.origin.line * 7) ^ u64::from(o.origin.line));
            let show = |objects| {
                let claims = |v: &str, _: &str| (v == "v1").then_some(("x", Role::Other));
                let ClassifiedObjects { claimed, templates, duplicates, mut findings, .. } =
                    classify_objects(objects, &ClaimTable::new(&claims, [].iter()));
                findings.sort();
                format!("{claimed:?}{templates:?}{duplicates:?}{findings:?}")
            };
            prop_assert_eq!(show(objects), show(other));
        }
    }
}
