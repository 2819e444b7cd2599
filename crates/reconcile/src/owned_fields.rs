//! Whether an object is as federate applied it last, by `managedFields` alone.
//!
//! This needs no schema: the API server has recorded the fields that federate owns, and the keys of list items.
//!
//! Facts: the format `FieldsV1`: `f:NAME` is a field, `k:KEYS` an item of a list by its keys, `v:VALUE` an item of a
//! set, `.` the value itself.

use serde_json::{Map, Value};

use super::autoscaled_fields::may_be_scaled;
use super::decision_input::{DecisionInput, control_plane_hold, retain_live_values};
use super::live_object::is_deleting;
use super::ownership::{is_own, managed_field_entries};
use super::settings::DecisionSettings;
use federate_apiserver_model::managed_fields::fields_of;

pub(super) type FieldsV1 = Map<String, Value>;

/// Whether a managed object is as federate applied it last, by what was read alone. Most objects of most runs are;
/// `false` where an apply must be computed to know it.
pub(super) fn is_as_applied(
    input: &DecisionInput<'_>,
    live: &Value,
    settings: &DecisionSettings<'_>,
) -> bool {
    // Reports of all fields, and of resulting objects, need the defaults that a dump may lack.
    if settings.full
        || settings.results
        || is_deleting(live)
        || may_be_scaled(input.autoscalers, input.object, live)
    {
        return false;
    }
    // What people have added to it is not in the fields that federate owns.
    if settings.managers.may_have_changed(live) {
        return false;
    }
    if !has_applied_fields(
        live,
        input.body,
        Some(input.cached_create.labelled_metadata(input.body, settings)),
    ) {
        return false;
    }
    input.keeps_applied || {
        let action = input.control_plane.action_for_managed();
        control_plane_hold(action.as_ref()).is_none()
            && retain_live_values(input, action.as_ref(), live) == *input.body
    }
}

/// Whether an apply of `body` would leave `live` unchanged: federate owns the fields of `body` and no others, and
/// they have the same values. `false` also where that is not known. `metadata` is applied in place of that of `body`:
/// with the label of the `ApplySet`.
pub(super) fn has_applied_fields(live: &Value, body: &Value, metadata: Option<&Value>) -> bool {
    let fields = own_entry(live, body).map(fields_of);
    let fields = fields.as_deref().and_then(Value::as_object);
    let all = fields.zip(live.as_object()).zip(body.as_object());
    all.is_some_and(|((fields, live), body)| {
        same_object(fields, body, metadata, |key, fields, body| {
            live.get(key).is_some_and(|live| same_field(key, fields, live, body))
        })
    })
}

/// The entry of `managedFields` of federate's applies, if it is about the version of `body`.
fn own_entry<'l>(live: &'l Value, body: &Value) -> Option<&'l Value> {
    managed_field_entries(live)
        .find(|entry| is_own(entry) && entry.get("subresource").is_none_or(|name| name == ""))
        .filter(|entry| entry.get("apiVersion") == body.get("apiVersion"))
}

/// The same for an object, whose type and name no manager owns; `same` compares its fields.
pub(super) fn same_object(
    fields: &FieldsV1,
    body: &Map<String, Value>,
    metadata: Option<&Value>,
    same: impl Fn(&str, &FieldsV1, &Value) -> bool,
) -> bool {
    same_fields(fields, body, &["apiVersion", "kind"], |key, fields, body| {
        same(key, fields, metadata.filter(|_| key == "metadata").unwrap_or(body))
    })
}

/// The same for a field of an object.
fn same_field(key: &str, fields: &FieldsV1, live: &Value, body: &Value) -> bool {
    match (live, body) {
        (Value::Object(live), Value::Object(body)) if key == "metadata" && !fields.is_empty() => {
            same_map(fields, live, body, &["name", "namespace"])
        }
        _ => is_same_value(fields, live, body),
    }
}

/// The same for a value below it.
pub(super) fn is_same_value(fields: &FieldsV1, live: &Value, body: &Value) -> bool {
    if owned_entries(fields).next().is_none() {
        return live == body;
    }
    match (live, body) {
        (Value::Object(live), Value::Object(body)) => same_map(fields, live, body, &[]),
        (Value::Array(live), Value::Array(body)) => {
            owned_entries(fields).count() == body.len()
                && owned_entries(fields).all(|(key, below)| {
                    let (Some(item), Some(below)) = (Item::parse_key(key), below.as_object()) else {
                        return false;
                    };
                    let both = live.iter().find(|value| item.matches_item(value));
                    let both = both.zip(body.iter().find(|value| item.is_of_body(value, below)));
                    both.is_some_and(|(live, body)| is_same_value(below, live, body))
                })
        }
        _ => false,
    }
}

/// Whether `fields` are those of `body` except `unowned`, and `live` has the same value of each.
fn same_map(
    fields: &FieldsV1,
    live: &Map<String, Value>,
    body: &Map<String, Value>,
    unowned: &[&str],
) -> bool {
    same_fields(fields, body, unowned, |key, fields, body| {
        live.get(key).is_some_and(|live| is_same_value(fields, live, body))
    })
}

/// Whether `fields` are those of `body` except `unowned`, and each is the `same`.
pub(super) fn same_fields(
    fields: &FieldsV1,
    body: &Map<String, Value>,
    unowned: &[&str],
    same: impl Fn(&str, &FieldsV1, &Value) -> bool,
) -> bool {
    let others = unowned.iter().filter(|key| body.contains_key(**key)).count();
    owned_entries(fields).count() + others == body.len()
        && owned_entries(fields).all(|(field, below)| {
            let key = field.strip_prefix("f:").filter(|key| !unowned.contains(key));
            let both = key.and_then(|key| Some((key, below.as_object()?, body.get(key)?)));
            both.is_some_and(|(key, below, body)| same(key, below, body))
        })
}

/// The owned fields below a value; `.` is the value itself.
fn owned_entries(fields: &FieldsV1) -> impl Iterator<Item = (&String, &Value)> {
    fields.iter().filter(|(key, _)| *key != ".")
}

/// How an item of a list is identified.
enum Item {
    Keys(Map<String, Value>),
    Value(Value),
}

impl Item {
    fn parse_key(key: &str) -> Option<Self> {
        let (sort, rest) = key.split_once(':')?;
        match (sort, serde_json::from_str(rest).ok()?) {
            ("k", Value::Object(keys)) => Some(Self::Keys(keys)),
            ("v", value) => Some(Self::Value(value)),
            _ => None,
        }
    }

    /// Whether an item of the body is the one that was applied. A key that it lacks, such as the protocol of a port,
    /// had its default then, if `fields` do not have it either.
    fn is_of_body(&self, item: &Value, fields: &FieldsV1) -> bool {
        let Self::Keys(keys) = self else { return self.matches_item(item) };
        keys.iter().all(|(key, value)| match item.get(key) {
            Some(found) => found == value,
            None => !fields.contains_key(&format!("f:{key}")),
        })
    }

    fn matches_item(&self, item: &Value) -> bool {
        match self {
            Self::Keys(keys) => keys.iter().all(|(key, value)| item.get(key) == Some(value)),
            Self::Value(value) => item == value,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use federate_apiserver_model::{ResourceKind, WriteOptions, apply_object, update_managers};
    use federate_kubernetes::pointer::escape;
    use federate_kubernetes::{ClusterName, Object};

    use super::super::cached_create::CachedCreate;
    use super::super::comparison;
    use super::super::decision::decide_object;
    use super::super::decision_input::NoControlPlane;
    use super::super::desired_objects::DesiredObject;
    use super::super::listed_object::ListedObject;
    use super::super::{ActionKind, ApplySet, DryRunStrategy, FIELD_MANAGER, FieldManagers};
    use super::*;
    use federate_dialect::Dialects;
    use federate_engine::autoscalers::Autoscalers;
    use federate_engine::change::DigestKey;

    fn live() -> Value {
        json!({"apiVersion": "v2", "kind": "Thing", "metadata": {"name": "a", "uid": "u", "labels": {"x": "1", "y": "2"},
            "managedFields": [{"manager": FIELD_MANAGER, "operation": "Apply", "apiVersion": "v2", "fieldsV1": {
                "f:metadata": {"f:labels": {"f:x": {}}},
                "f:spec": {"f:new": {}, "f:list": {"k:{\"name\":\"p\"}": {".": {}, "f:name": {}, "f:port": {}}},
                    "f:set": {"v:\"s\"": {}}}}}]},
            "spec": {"new": {"deep": [1]}, "list": [{"name": "o"}, {"name": "p", "port": 1, "default": true}],
                "set": ["r", "s"], "default": 1}})
    }

    fn body() -> Value {
        json!({"apiVersion": "v2", "kind": "Thing", "metadata": {"name": "a", "labels": {"x": "1"}},
            "spec": {"new": {"deep": [1]}, "list": [{"name": "p", "port": 1}], "set": ["s"]}})
    }

    #[test]
    fn an_applied_object_is_unchanged_until_a_value_or_a_field_differs() {
        assert!(has_applied_fields(&live(), &body(), None));
        let with = |pointer: &str, value: Value| {
            let mut body = body();
            *body.pointer_mut(pointer).unwrap() = value;
            has_applied_fields(&live(), &body, None)
        };
        assert!(!with("/apiVersion", json!("v1")), "another version may have other fields");
        assert!(!with("/spec/new", json!({"deep": [2]})));
        assert!(!with("/spec/list", json!([{"name": "p"}])), "a field that is no longer rendered");
        assert!(!with("/spec/list", json!([])));
        assert!(!with("/spec/set", json!(["t"])));
        assert!(!with("/metadata/labels", json!({"x": "1", "y": "2"})), "one that federate does not own yet");
        assert!(
            !has_applied_fields(&json!({"apiVersion": "v2"}), &body(), None),
            "without managedFields nothing is known"
        );
    }

    /// Whether an object is unchanged by what was read alone, and the decision about it by a computed apply.
    fn decided(body: &Value, live: &Value) -> (bool, ActionKind) {
        let text = |pointer: &str| body.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let input = DecisionInput {
            cluster: &ClusterName::from("m1"),
            object: &Object::from_manifest(body.clone(), "a.yaml").id,
            body,
            kind: ResourceKind::find_builtin(text("/apiVersion"), text("/kind")).unwrap(),
            cached_create: &CachedCreate::default(),
            autoscalers: &Autoscalers::default(),
            live: None,
            control_plane: &NoControlPlane,
            keeps_applied: true,
        };
        let key = DigestKey::new(b"k");
        let decided = |live: &Value| {
            let input = DecisionInput { live: Some(live), ..input };
            let computed = decide_object(&input, &rules(&key, true)).action.action;
            (is_as_applied(&input, live, &rules(&key, false)), computed)
        };
        let unread = decided(&unread(live));
        assert_eq!(decided(live), unread, "with field sets as text");
        let write = WriteOptions {
            kind: input.kind,
            manager: FIELD_MANAGER,
            subresource: None,
            force: true,
            now: "2026-01-01T00:00:00Z",
        };
        let created = apply_object(None, &set().with_label(body), &write).ok();
        for seen in [None, created.as_ref(), Some(live)] {
            let desired = DesiredObject {
                object: input.object.clone(),
                clusters: ["m1", "m2"].map(ClusterName::from).to_vec().into(),
                body: body.clone().into(),
                text: "".into(),
                plain: None,
                cached_create: CachedCreate::default(),
            };
            let same = |live: &Value| is_same_text(&desired, live, &rules(&key, false));
            seen.map(same);
            assert!(same(live).is_none_or(|same| same == unread.0), "as text, after {seen:?}: {live}");
        }
        unread
    }

    /// Whether an object is unchanged by its text; `None` where the text is not as an API server returns it.
    fn is_same_text(desired: &DesiredObject, live: &Value, settings: &DecisionSettings<'_>) -> Option<bool> {
        let text = live.to_string();
        let listed = ListedObject::from_json(text.as_bytes()).ok()?;
        let is_deleting = listed.metadata.deletion_timestamp.is_some();
        Some(!is_deleting && comparison::is_listed_as_applied(&listed, desired, settings))
    }

    /// The object as it is read from a list: field sets are text.
    fn unread(live: &Value) -> Value {
        let mut live = live.clone();
        let entries = live.pointer_mut("/metadata/managedFields").and_then(Value::as_array_mut);
        for entry in entries.into_iter().flatten() {
            entry["fieldsV1"] = entry["fieldsV1"].to_string().into();
        }
        live
    }

    fn set() -> &'static ApplySet {
        static SET: std::sync::OnceLock<ApplySet> = std::sync::OnceLock::new();
        SET.get_or_init(|| ApplySet { namespace: "default".to_owned(), name: "set".to_owned() })
    }

    static NO_OBJECTS: std::collections::BTreeSet<federate_kubernetes::ObjectRef> =
        std::collections::BTreeSet::new();

    fn rules(key: &DigestKey, results: bool) -> DecisionSettings<'_> {
        DecisionSettings {
            adopt: None,
            force: false,
            replace: false,
            full: false,
            results,
            apply_set: set(),
            rolling: &[],
            key,
            now: "2026-01-02T00:00:00Z",
            dry_run: DryRunStrategy::None,
            moved_from: None,
            managers: FieldManagers::new(None, true, Dialects::default()),
            ignored: Vec::new(),
            encrypted: &NO_OBJECTS,
        }
    }

    /// The pointers of all scalars.
    fn scalars(value: &Value, at: &str, all: &mut Vec<String>) {
        match value {
            Value::Object(map) => {
                map.iter().for_each(|(key, value)| scalars(value, &format!("{at}/{}", escape(key)), all));
            }
            Value::Array(list) => {
                list.iter().enumerate().for_each(|(n, value)| scalars(value, &format!("{at}/{n}"), all));
            }
            _ => all.push(at.to_owned()),
        }
    }

    fn is_server_owned(place: &str) -> bool {
        place.starts_with("/metadata/managedFields") || place == "/metadata/generation"
    }

    #[test]
    fn what_is_read_never_hides_what_an_apply_would_change() {
        let metadata =
            json!({"name": "a", "namespace": "shop", "labels": {"app": "a"}, "annotations": {"x/y": "1"}});
        let containers = json!([
            {"name": "c", "image": "i", "args": ["a", "b"], "env": [{"name": "E", "value": "v"}],
             "ports": [{"containerPort": 80}, {"containerPort": 53, "protocol": "UDP"}, {"containerPort": 53}], "resources": {"requests": {"cpu": "250m"}}},
            {"name": "d", "image": "i", "volumeMounts": [{"name": "v", "mountPath": "/v"}]}]);
        let template = json!({"metadata": {"labels": {"app": "a"}}, "spec": {"containers": containers,
            "volumes": [{"name": "v", "emptyDir": {}}]}});
        let bodies = [
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"k": "v", "l": "w"}}),
            json!({"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": {"selector": {"app": "a"},
                "ports": [{"name": "http", "port": 80}, {"name": "dns", "port": 53, "protocol": "UDP"}]}}),
            json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": {"replicas": 2,
                "selector": {"matchLabels": {"app": "a"}}, "template": template}}),
        ];
        let mut unchanged = 0;
        for body in bodies {
            let kind = ResourceKind::find_builtin(
                body["apiVersion"].as_str().unwrap(),
                body["kind"].as_str().unwrap(),
            )
            .unwrap();
            let write = |manager| WriteOptions {
                kind,
                manager,
                subresource: None,
                force: true,
                now: "2026-01-01T00:00:00Z",
            };
            let live = apply_object(None, &set().with_label(&body), &write(FIELD_MANAGER)).unwrap();
            assert_eq!(decided(&body, &live), (true, ActionKind::Unchanged), "{live}");
            let mut places = Vec::new();
            scalars(&live, "", &mut places);
            for place in places.iter().filter(|place| !is_server_owned(place)) {
                let other =
                    if live.pointer(place).is_some_and(Value::is_string) { json!("z") } else { json!(7) };
                for value in [other, Value::Null] {
                    let changed = |object: &Value| {
                        let mut object = object.clone();
                        if let Some(at) = object.pointer_mut(place) {
                            *at = value.clone();
                        }
                        object
                    };
                    let edited = update_managers(Some(&live), &changed(&live), &write("kubectl-edit"));
                    for (body, live) in
                        [(&body, &edited), (&changed(&body), &live), (&changed(&body), &edited)]
                    {
                        let same_name = ["apiVersion", "kind", "metadata"].iter().all(|key| match *key {
                            "metadata" => {
                                body["metadata"]["name"] == live["metadata"]["name"]
                                    && body["metadata"]["namespace"] == live["metadata"]["namespace"]
                            }
                            key => body[key] == live[key],
                        });
                        if !same_name {
                            continue;
                        }
                        let (is_unchanged, computed) = decided(body, live);
                        unchanged += usize::from(is_unchanged);
                        assert!(
                            !is_unchanged || computed == ActionKind::Unchanged,
                            "{place} = {value}: {body} {live}"
                        );
                    }
                }
            }
        }
        assert!(unchanged > 50, "{unchanged}");
    }
}
