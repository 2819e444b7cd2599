//! A shape with one field of each type, and objects that violate it.

use serde_json::{Value, json};

use super::*;
use crate::Severity;

const ITEM: Shape = Shape::Object(&[&[
    Field::required("name", Shape::Filled),
    Field::optional("size", Shape::Integer(1, 10)),
    Field::optional("mode", Shape::OneOf(&["Fast", "Slow"])),
    Field::optional("labels", Shape::Map(&Shape::Text)),
    Field::optional("memory", Shape::Quantity),
    Field::optional("on", Shape::Bool),
]]);
const SHAPE: Shape = Shape::Object(&[
    &[Field::required("items", Shape::List(1, &ITEM))],
    &[Field::optional("any", Shape::Any)],
]);

fn findings(body: Value) -> Vec<Finding> {
    check_shape(&Object::from_path("v1", "Box", "a", body), &SHAPE, "invalid-box")
}

fn one(body: Value) -> Finding {
    let mut all = findings(body);
    assert_eq!(all.len(), 1, "{all:?}");
    all.remove(0)
}

#[test]
fn a_good_object_has_nothing_to_say() {
    let item =
        json!({"name": "x", "size": 10, "mode": "", "labels": {"a/b": "c"}, "memory": "1Gi", "on": false});
    assert_eq!(findings(json!({"any": [null], "items": [item]})), []);
    let nulls = json!({"name": "x", "size": null, "mode": null, "labels": null, "memory": null, "on": null});
    assert_eq!(findings(json!({"any": null, "items": [nulls]})), []);
}

#[test]
fn errors_point_at_the_field_or_what_lacks_it() {
    for (item, pointer, words) in [
        (json!({}), "/items/0", "is missing the required field `name`"),
        (json!({"name": null}), "/items/0", "`items[0]` is missing"),
        (json!({"name": ""}), "/items/0/name", "must not be empty"),
        (json!({"name": 1}), "/items/0/name", "must be text, but is a number"),
        (json!({"name": "x", "size": 0}), "/items/0/size", "must be 1 or more"),
        (json!({"name": "x", "size": 11}), "/items/0/size", "must be 10 or less"),
        (json!({"name": "x", "size": 1.5}), "/items/0/size", "must be a whole number"),
        (json!({"name": "x", "size": "2"}), "/items/0/size", "but is text"),
        (
            json!({"name": "x", "labels": {"a/b": true}}),
            "/items/0/labels/a~1b",
            "`items[0].labels.a/b` must be text",
        ),
        (json!({"name": "x", "labels": {"a": null}}), "/items/0/labels/a", "but is null"),
        (json!({"name": "x", "memory": "much"}), "/items/0/memory", "is not a quantity"),
        (json!({"name": "x", "on": "yes"}), "/items/0/on", "must be true or false"),
        (json!(null), "/items/0", "must be a mapping, but is null"),
    ] {
        let found = one(json!({"items": [item]}));
        assert_eq!(
            (found.pointer.as_str(), found.severity, found.code),
            (pointer, Severity::Error, "invalid-box")
        );
        assert!(found.message.contains(words), "{}", found.message);
    }
    assert_eq!(one(json!({"items": []})).pointer, "/items");
    assert_eq!(one(json!({"items": {}})).pointer, "/items");
    assert_eq!(one(json!({})).message, "the object is missing the required field `items`");
}

#[test]
fn a_typo_is_a_warning_with_a_suggestion() {
    let found = one(json!({"items": [{"name": "x", "lables": {}}]}));
    assert_eq!(
        (found.severity, found.code, found.pointer.as_str()),
        (Severity::Warning, "unknown-field", "/items/0/lables")
    );
    assert_eq!(found.help.as_deref(), Some("did you mean `labels`?"));
    let found = one(json!({"items": [{"name": "x", "mode": "fast"}]}));
    assert_eq!(found.help.as_deref(), Some("did you mean `Fast`?"));
}

#[test]
fn all_errors_are_reported_at_once() {
    let pointers: Vec<String> = findings(json!({"item": 1, "items": [{"name": "x", "size": 0}, {"on": 1}]}))
        .into_iter()
        .map(|f| f.pointer)
        .collect();
    assert_eq!(pointers, ["/item", "/items/0/size", "/items/1/on", "/items/1"]);
}
