//! The field managers whose fields federate takes over: the tools of people, and the components of control planes that
//! an object comes from.
//!
//! Facts: `kubectl` names itself `kubectl`, `kubectl-edit`, `kubectl-client-side-apply` and so on. A client that sets no
//! field manager gets the beginning of its user agent, so that consoles in a browser become `Mozilla` where a proxy
//! passes the browser's on. Flux takes over every manager whose name begins with `kubectl`, except entries of a
//! subresource. Rancher's controllers and its console share a name; the controllers write annotations below `cattle.io`.

use serde_json::Value;

use super::blame::Blame;
use super::ownership::{PART_OF_LABEL, is_of_another_tool, is_own, managed_field_entries};
use super::{FIELD_MANAGER, FieldDiff};
use federate_apiserver_model::fields::{FieldSet, PathElement};
use federate_apiserver_model::managed_fields::ManagerEntry;
use federate_apiserver_model::typed::collect_fields;
use federate_apiserver_model::values::{list_at, text_below};
use federate_apiserver_model::{TransferScope, WriteOptions, field_set, transfer_ownership};
use federate_dialect::Dialects;

/// The field managers of people's tools; `*` at the end stands for any ending.
pub const PERSON_MANAGERS: [&str; 15] = [
    "kubectl*",
    "oc",
    "k9s",
    "Mozilla",
    "dashboard",
    "kubernetes-dashboard",
    "headlamp",
    "headlamp-server",
    "Lens",
    "OpenLens",
    "Freelens",
    "rancher",
    "octant",
    "aptakube",
    "seabird",
];

/// Annotations of people's tools that ask for something to be done once, and of controllers that share their names.
const REQUEST_ANNOTATIONS: [&str; 1] = ["kubectl.kubernetes.io/restartedAt"];
const CONTROLLER_DOMAIN: &str = "cattle.io";

/// The maps with keys that stay with their managers.
const METADATA_MAPS: [&[&str]; 3] =
    [&["metadata", "annotations"], &["metadata", "labels"], &["spec", "template", "metadata", "annotations"]];

/// The field managers whose fields federate takes over.
#[derive(Clone, Debug)]
pub struct FieldManagers {
    /// The patterns of people's tools.
    people: Vec<String>,
    /// Whether fields are taken over from people.
    takes_over: bool,
    /// The control planes that an object may come from.
    dialects: Dialects,
}

/// A person's tool, a controller, the API server or federate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Writer {
    /// A tool that people use, such as `kubectl`.
    Person,
    /// Another client.
    Controller,
    /// federate.
    Federate,
    /// The API server, which fills in defaults and allocates values.
    Server,
}

/// From whom an apply takes fields over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TransferFrom {
    /// No field manager.
    NoManager,
    /// People who have changed a managed object.
    People,
    /// The clients that an object is adopted from: people, tools and control planes.
    FormerOwners,
}

impl FieldManagers {
    /// Takes over from these tools of people (the `PERSON_MANAGERS` where `None`), if it `takes_over`.
    pub fn new(people: Option<&[String]>, takes_over: bool, dialects: Dialects) -> Self {
        let people = match people {
            Some(people) => people.to_vec(),
            None => PERSON_MANAGERS.iter().map(|name| (*name).to_owned()).collect(),
        };
        Self { people, takes_over, dialects }
    }

    /// Whether a manager is a tool of people.
    pub fn is_person(&self, manager: &str) -> bool {
        self.people.iter().any(|pattern| match pattern.strip_suffix('*') {
            Some(start) => manager.starts_with(start),
            None => pattern.eq_ignore_ascii_case(manager),
        })
    }

    /// Who wrote a field last, given its manager; `None` where that is not known.
    pub(super) fn classify_writer(&self, manager: Option<&str>, is_live: bool) -> Option<Writer> {
        match manager {
            Some(FIELD_MANAGER) => Some(Writer::Federate),
            Some(manager) if self.is_person(manager) => Some(Writer::Person),
            Some(_) => Some(Writer::Controller),
            None => is_live.then_some(Writer::Server),
        }
    }

    /// Whether an entry of `managedFields` of this manager may have fields that are taken over from people.
    pub(super) fn takes_from(&self, manager: &str, subresource: &str) -> bool {
        self.takes_over && subresource.is_empty() && self.is_person(manager)
    }

    /// Whether people may have changed a live object.
    pub(super) fn may_have_changed(&self, live: &Value) -> bool {
        managed_field_entries(live)
            .any(|entry| self.takes_from(text_below(entry, "manager"), text_below(entry, "subresource")))
    }

    /// Whether an entry gives its fields.
    fn gives_fields(&self, transfer: TransferFrom, entry: &ManagerEntry, live: &Value) -> bool {
        let from_people = self.takes_over && self.is_person(&entry.manager);
        match transfer {
            TransferFrom::NoManager => false,
            TransferFrom::People => from_people,
            TransferFrom::FormerOwners => {
                from_people || is_of_another_tool(entry) || self.is_of_control_plane(&entry.manager, live)
            }
        }
    }

    /// Whether a manager is a component of a control plane that has sent the object.
    fn is_of_control_plane(&self, manager: &str, live: &Value) -> bool {
        let all = self.dialects.iter().flat_map(|dialect| dialect.members().member_managers());
        let labels = live.pointer("/metadata/labels");
        all.filter(|known| known.has_name(manager))
            .any(|known| known.label.is_none_or(|label| labels.is_some_and(|all| all.get(label).is_some())))
    }

    /// Whether a control plane marks objects by keys of this domain.
    fn is_mark(&self, key: &str) -> bool {
        key.split_once('/').is_some_and(|(domain, _)| self.dialects.is_of_control_plane(domain))
    }

    /// The live object after the transfer; `None` where nothing is transferred. Where there is a `target`, only fields are
    /// transferred that it lacks. `body` is the one that is applied.
    pub(super) fn transfer_ownership(
        &self,
        transfer: TransferFrom,
        live: &Value,
        body: &Value,
        target: Option<&Value>,
        write: &WriteOptions<'_>,
    ) -> Option<Value> {
        if transfer == TransferFrom::NoManager
            || (transfer == TransferFrom::People && !self.may_have_changed(live))
        {
            return None;
        }
        let former = transfer == TransferFrom::FormerOwners;
        let named = if former { self.control_plane_marks(live, body) } else { FieldSet::default() };
        let mut stay = staying_fields(live, body);
        if target.is_some() {
            // An apply takes the fields in its body by itself.
            stay = stay.union(collect_fields(&write.kind.schema, body));
        }
        transfer_ownership(
            live,
            &TransferScope {
                gives: &|entry| self.gives_fields(transfer, entry, live),
                stay: &stay,
                named: &named,
                target,
            },
            write,
        )
    }

    /// The marks of control planes on a live object that are not rendered: labels, annotations, finalizers and owners.
    fn control_plane_marks(&self, live: &Value, body: &Value) -> FieldSet {
        let mut marks = Vec::new();
        for map in ["labels", "annotations"] {
            let rendered = body.pointer(&format!("/metadata/{map}"));
            for key in map_keys(live, &["metadata", map]) {
                if self.is_mark(key) && rendered.is_none_or(|map| map.get(key).is_none()) {
                    marks.push(["metadata", map, key].map(PathElement::field).to_vec());
                }
            }
        }
        for finalizer in list_at(live, "/metadata/finalizers") {
            if finalizer.as_str().is_some_and(|name| self.is_mark(name)) {
                let field = ["metadata", "finalizers"].map(PathElement::field);
                marks.push(field.into_iter().chain([PathElement::Item(finalizer.clone())]).collect());
            }
        }
        for owner in list_at(live, "/metadata/ownerReferences") {
            if owner.get("apiVersion").and_then(Value::as_str).is_some_and(|version| self.is_mark(version)) {
                let uid = owner.get("uid").cloned().unwrap_or_default();
                let field = ["metadata", "ownerReferences"].map(PathElement::field);
                marks.push(
                    field.into_iter().chain([PathElement::Key(vec![("uid".to_owned(), uid)])]).collect(),
                );
            }
        }
        field_set(marks.into_iter())
    }

    /// Whether a control plane has added an item of a field of the metadata. `key` is its key in a map.
    fn is_marked_item(&self, field: &str, key: &str, value: &Value) -> bool {
        match field {
            "labels" | "annotations" => self.is_mark(key),
            "finalizers" => value.as_str().is_some_and(|name| self.is_mark(name)),
            _ => value.get("apiVersion").and_then(Value::as_str).is_some_and(|version| self.is_mark(version)),
        }
    }

    /// A difference without the marks of a control plane, which may still send the object; `None` where nothing else differs.
    pub(super) fn without_marks(&self, mut diff: FieldDiff) -> Option<FieldDiff> {
        if diff.desired.is_some() {
            return Some(diff);
        }
        let path = diff.path.clone();
        let Some(below) = path.strip_prefix("/metadata/") else { return Some(diff) };
        let (field, rest) = below.split_at(below.find(['/', '[']).unwrap_or(below.len()));
        if !["labels", "annotations", "finalizers", "ownerReferences"].contains(&field) {
            return Some(diff);
        }
        if !rest.is_empty() {
            let key = rest.strip_prefix('/').unwrap_or_default().replace("~1", "/").replace("~0", "~");
            let live = diff.live.as_ref().unwrap_or(&Value::Null);
            return (!self.is_marked_item(field, &key, live)).then_some(diff);
        }
        match &mut diff.live {
            Some(Value::Object(map)) => map.retain(|key, value| !self.is_marked_item(field, key, value)),
            Some(Value::Array(items)) => items.retain(|item| !self.is_marked_item(field, "", item)),
            _ => {}
        }
        let is_empty = match &diff.live {
            Some(Value::Object(map)) => map.is_empty(),
            Some(Value::Array(items)) => items.is_empty(),
            _ => false,
        };
        (!is_empty).then_some(diff)
    }

    /// Whether a person's tool has changed the label of the `ApplySet` on an object that federate has applied.
    pub(super) fn is_relabelled(&self, live: &Value) -> bool {
        let path = format!("/metadata/labels/{}", federate_kubernetes::pointer::escape(PART_OF_LABEL));
        self.takes_over
            && managed_field_entries(live).any(is_own)
            && Blame::from_live(live).field_owners(&path).iter().any(|owner| self.is_person(&owner.manager))
    }
}

/// Whether a label or an annotation is a request to do something once.
fn stays_with_manager(key: &str) -> bool {
    let domain = key.split_once('/').map_or("", |(domain, _)| domain);
    let rest = domain.strip_suffix(CONTROLLER_DOMAIN);
    REQUEST_ANNOTATIONS.contains(&key) || rest.is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
}

/// The fields that stay with their managers: requests to do something once, and the replicas that git leaves to others.
fn staying_fields(live: &Value, body: &Value) -> FieldSet {
    let mut fields = Vec::new();
    for map in METADATA_MAPS {
        for key in map_keys(live, map).filter(|key| stays_with_manager(key)) {
            fields.push(map.iter().copied().chain([key]).map(PathElement::field).collect());
        }
    }
    if body.pointer("/spec/replicas").is_none() {
        fields.push(["spec", "replicas"].map(PathElement::field).to_vec());
    }
    field_set(fields.into_iter())
}

fn map_keys<'v>(object: &'v Value, path: &[&str]) -> impl Iterator<Item = &'v str> {
    federate_kubernetes::object::value_at(object, path)
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
        .map(|(key, _)| key.as_str())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use federate_apiserver_model::ResourceKind;

    fn entry(manager: &str, subresource: &str, field: &str) -> Value {
        json!({"manager": manager, "operation": "Update", "apiVersion": "v1", "subresource": subresource,
            "fieldsType": "FieldsV1", "fieldsV1": {"f:data": {field: {}}}})
    }

    #[test]
    fn people_are_known_by_their_tools() {
        let known = FieldManagers::new(None, true, Dialects::default());
        for person in
            ["kubectl", "kubectl-edit", "kubectl-client-side-apply", "Mozilla", "openlens", "k9s", "oc"]
        {
            assert!(known.is_person(person), "{person}");
        }
        for other in ["kube-controller-manager", "kubelet", "occ", "helm", "federate", "mozilla-operator"] {
            assert!(!known.is_person(other), "{other}");
        }
        let own =
            FieldManagers::new(Some(&["deploy*".to_owned(), "Ops".to_owned()]), true, Dialects::default());
        assert!(own.is_person("deployer") && own.is_person("ops") && !own.is_person("kubectl"));
        assert_eq!(known.classify_writer(None, true), Some(Writer::Server));
        assert_eq!(known.classify_writer(None, false), None, "no manager is recorded for a removed field");
    }

    #[test]
    fn what_is_taken_over_depends_on_who_transfers_it() {
        let live = json!({"metadata": {"managedFields": [entry("kubectl-client-side-apply", "", "f:a"),
            entry("kubectl-edit", "", "f:b"), entry("kubectl", "scale", "f:c"), entry("operator", "", "f:d")]}});
        let kind = ResourceKind::find_builtin("v1", "ConfigMap").unwrap();
        let write = WriteOptions {
            kind,
            manager: FIELD_MANAGER,
            subresource: None,
            force: true,
            now: "2026-01-01T00:00:00Z",
        };
        let left = |managers: &FieldManagers, transfer: TransferFrom| {
            let transferred = managers.transfer_ownership(transfer, &live, &json!({}), None, &write);
            let object = transferred.unwrap_or_else(|| live.clone());
            let names =
                managed_field_entries(&object).map(|entry| entry["manager"].as_str().unwrap().to_owned());
            names.collect::<std::collections::BTreeSet<_>>().into_iter().collect::<Vec<_>>().join(" ")
        };
        let takes = FieldManagers::new(None, true, Dialects::default());
        let keeps = FieldManagers::new(None, false, Dialects::default());
        assert_eq!(
            left(&takes, TransferFrom::NoManager),
            "kubectl kubectl-client-side-apply kubectl-edit operator"
        );
        assert_eq!(left(&takes, TransferFrom::People), "federate kubectl operator");
        assert_eq!(left(&takes, TransferFrom::FormerOwners), "federate kubectl operator");
        assert_eq!(
            left(&keeps, TransferFrom::People),
            "kubectl kubectl-client-side-apply kubectl-edit operator"
        );
        // What `kubectl apply` owned is transferred by every adoption.
        assert_eq!(left(&keeps, TransferFrom::FormerOwners), "federate kubectl kubectl-edit operator");
        assert!(takes.may_have_changed(&live) && !keeps.may_have_changed(&live));
    }
}
