//! The library `kube`.
//!
//! Facts: sums have the notation of the first amount that is not zero; the requirements of a pod are amounts
//! of cpu in thousandths, of memory, ephemeral storage and huge pages in binary units, of anything else in
//! decimal ones; without requirements or references the answer is nil.

use federate_apiserver_model::normalization;
use federate_apiserver_model::schema::Type;
use federate_kubernetes::pods::{self, PodReferences};
use federate_kubernetes::quantity::Quantity;
use mlua::{Lua, Value as LuaValue};
use serde_json::{Map, Value, json};

use super::arguments::{HostArguments, HostResult, as_number, create_string};
use super::host::HostFunction;
use super::{EmptyTable, PathStyle, check_type, conversion, numbers, repair_empty_tables};

/// The functions by name.
pub(crate) const FUNCTIONS: [(&str, HostFunction); 4] = [
    ("resourceAdd", resource_add),
    ("getResourceQuantity", resource_quantity),
    ("accuratePodRequirements", pod_requirements_of),
    ("getPodDependencies", pod_dependencies),
];

/// A quantity, and whether its notation is binary; nil is zero.
fn read_quantity(arguments: &HostArguments<'_>, at: usize) -> Result<(Quantity, bool), String> {
    match arguments.get(at) {
        LuaValue::Nil => Ok((Quantity::default(), false)),
        LuaValue::String(_) => {
            let text = String::from_utf8_lossy(&arguments.read_bytes(at)?).into_owned();
            let amount = Quantity::parse(&text)
                .ok_or_else(|| format!("cannot parse '{text}': it is not a quantity"))?;
            Ok((amount, text.ends_with('i')))
        }
        _ => arguments.refuse_argument(at, "string"),
    }
}

fn resource_add(lua: &Lua, arguments: &HostArguments<'_>) -> HostResult {
    let (mut sum, mut binary) = (Quantity::default(), false);
    for at in 0..arguments.argument_count() {
        let (amount, is_binary) = read_quantity(arguments, at)?;
        if sum.is_zero() {
            binary = is_binary;
        }
        sum = sum + amount;
    }
    Ok(vec![create_string(lua, arguments.budget, normalization::format_amount(sum.as_nanos(), binary))?])
}

fn resource_quantity(_: &Lua, arguments: &HostArguments<'_>) -> HostResult {
    if arguments.argument_count() != 1 {
        return Err("getResourceQuantity only accepts one argument".to_owned());
    }
    let (amount, _) = read_quantity(arguments, 0)?;
    if amount < Quantity::default() {
        return Err("the quantity is negative".to_owned());
    }
    Ok(vec![LuaValue::Number(amount.as_approximate_f64())])
}

/// The pod template in the first argument.
fn pod_template(lua: &Lua, arguments: &HostArguments<'_>) -> Result<Value, String> {
    let LuaValue::Table(table) = arguments.get(0) else { return arguments.refuse_argument(0, "table") };
    let (mut template, size) = conversion::from_table(lua, table)?;
    arguments.charge_each(size)?;
    repair_empty_tables(&mut template, EmptyTable::Map, &[], PathStyle::Escaped)
        .map_err(|failure| failure.to_string())?;
    check_type(&Type::Named("PodTemplateSpec"), &template)?;
    Ok(template)
}

fn pod_requirements_of(lua: &Lua, arguments: &HostArguments<'_>) -> HostResult {
    if arguments.argument_count() != 1 {
        return Err("accuratePodRequirements only accepts one argument".to_owned());
    }
    let template = pod_template(lua, arguments)?;
    match pod_requirements(template.get("spec").unwrap_or(&Value::Null)) {
        Some(requirements) => return_value(lua, &requirements),
        None => Ok(vec![LuaValue::Nil]),
    }
}

/// The requirements of a pod as Karmada's `ReplicaRequirements`, if there are any.
pub fn pod_requirements(spec: &Value) -> Option<Value> {
    let requests = pods::compute_requests(spec);
    let claims = pods::claims_nodes(spec);
    if requests.is_empty() && !claims {
        return None;
    }
    let mut requirements = Map::new();
    if claims {
        requirements.insert("nodeClaim".to_owned(), Value::Object(node_claim(spec)));
    }
    if !requests.is_empty() {
        let amounts = requests.into_iter().map(|(name, amount)| {
            let binary =
                matches!(name.as_str(), "memory" | "ephemeral-storage") || name.starts_with("hugepages-");
            let text = normalization::format_amount(amount.as_nanos(), binary);
            (name, Value::String(text))
        });
        requirements.insert("resourceRequest".to_owned(), Value::Object(amounts.collect()));
    }
    Some(Value::Object(requirements))
}

/// The node claim of a pod.
fn node_claim(spec: &Value) -> Map<String, Value> {
    const REQUIRED: &str = "/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution";
    let mut claim = Map::new();
    if let Some(required) = spec.pointer(REQUIRED).filter(|value| !value.is_null()) {
        claim.insert("hardNodeAffinity".to_owned(), required.clone());
    }
    for key in ["nodeSelector", "tolerations"] {
        let value = spec.get(key).filter(|value| !value.is_null());
        if let Some(value) = value.filter(|value| **value != json!([]) && **value != json!({})) {
            claim.insert(key.to_owned(), value.clone());
        }
    }
    claim
}

fn pod_dependencies(lua: &Lua, arguments: &HostArguments<'_>) -> HostResult {
    if arguments.argument_count() != 2 {
        return Err("getPodDependencies only accepts two arguments".to_owned());
    }
    let template = pod_template(lua, arguments)?;
    let namespace = match arguments.get(1) {
        LuaValue::Nil => "default".to_owned(),
        LuaValue::String(text) => text.to_string_lossy(),
        other => match as_number(other) {
            Some(number) => numbers::format_number(number),
            None => return arguments.refuse_argument(1, "string"),
        },
    };
    let mut references = PodReferences::default();
    references.add_pod(template.get("spec").unwrap_or(&Value::Null));
    let mut all = Vec::new();
    for (kind, names) in [
        ("ConfigMap", references.config_maps),
        ("Secret", references.secrets),
        ("ServiceAccount", references.service_accounts),
        ("PersistentVolumeClaim", references.claims),
    ] {
        for name in names {
            let mut reference = json!({"apiVersion": "v1", "kind": kind, "name": name});
            if !namespace.is_empty() {
                reference["namespace"] = Value::from(namespace.as_str());
            }
            all.push(reference);
        }
    }
    if all.is_empty() { Ok(vec![LuaValue::Nil]) } else { return_value(lua, &Value::Array(all)) }
}

fn return_value(lua: &Lua, value: &Value) -> HostResult {
    let value = conversion::to_lua(lua, value).map_err(|error| super::machine::error_message(&error))?;
    Ok(vec![value])
}
