//! Karmada's cases of customizations: the interpreter's answer to each operation.

use federate_karmada::interpreter::{CustomizationRule, Interpreter, OperationInput};
use federate_kubernetes::Object;
use federate_kubernetes::quantity::Quantity;
use serde_json::{Map, Value, json};

use crate::diff::compare;
use crate::run::observed;

/// The operations, by their names in the cases.
const OPERATIONS: [(&str, CustomizationRule); 8] = [
    ("replicas", CustomizationRule::Replicas),
    ("components", CustomizationRule::Components),
    ("revise", CustomizationRule::Revision),
    ("retain", CustomizationRule::Retention),
    ("health", CustomizationRule::Health),
    ("dependencies", CustomizationRule::Dependencies),
    ("status", CustomizationRule::StatusReflection),
    ("aggregate", CustomizationRule::StatusAggregation),
];

pub(crate) fn verify(case: &Value) -> Result<(), String> {
    let files: Vec<Object> = case["files"].as_array().expect("a list").iter().map(observed).collect();
    let (customizations, objects): (Vec<&Object>, Vec<&Object>) =
        files.iter().partition(|file| file.id.kind == "ResourceInterpreterCustomization");
    let interpreter = Interpreter::for_newest_release(customizations.into_iter(), None);
    let live = case.get("observed").map(observed);
    let asked = OperationInput {
        live: live.as_ref(),
        replicas: case["replicas"].as_i64().unwrap_or_default(),
        items: case.get("statusItems").filter(|items| !items.is_null()),
    };
    let mut got = Map::new();
    for (name, rule) in OPERATIONS {
        if case["expect"].get(name).is_some() {
            let answer = interpreter.answer_operation(rule, objects[0], &asked);
            let answer =
                answer.map(|answer| answer.unwrap_or_else(|failed| json!({"error": failed.category})));
            got.insert(name.to_owned(), answer.unwrap_or(Value::Null));
        }
    }
    compare(&comparable(case["expect"].clone()), &comparable(Value::Object(got)))
}

/// Amounts by value, integers as the floats that scripts see.
fn comparable(mut value: Value) -> Value {
    fn amounts(value: &mut Value) {
        match value {
            Value::Object(map) => {
                for (key, value) in map {
                    match value {
                        Value::Object(request) if key == "resourceRequest" => {
                            for amount in request.values_mut() {
                                if let Some(quantity) = Quantity::from_json(amount) {
                                    *amount = Value::from(quantity.as_nanos().to_string());
                                }
                            }
                        }
                        value => amounts(value),
                    }
                }
            }
            Value::Array(items) => items.iter_mut().for_each(amounts),
            Value::Number(number) => *value = json!(number.as_f64()),
            _ => {}
        }
    }
    amounts(&mut value);
    // Built-in interpreters return dependencies in another order.
    if let Some(references) = value.get_mut("dependencies").and_then(Value::as_array_mut) {
        references.sort_by_key(|one| crate::diff::normal(one).to_string());
    }
    value
}
