//! `KubeFleet`'s cases of the status that members report.

use federate_kubefleet::capacity::AgentObservation;
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::diff::compare;
use crate::models::member_agent::costs::Prices;
use crate::models::member_agent::{AzureConfig, AzureProvider, MemberAgent, ProviderStart};

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn time(value: &Value) -> Timestamp {
    value.as_str().and_then(|text| text.parse().ok()).expect("a time")
}

/// Removes null values.
fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(map) => {
            map.into_iter().filter(|(_, v)| !v.is_null()).map(|(k, v)| (k, without_nulls(v))).collect()
        }
        Value::Array(items) => items.into_iter().map(without_nulls).collect(),
        other => other,
    }
}

/// Verifies the reports of a member, run after run.
pub(crate) fn status(case: &Value) -> Result<(), String> {
    let mut member = MemberAgent::new(provider(&case["agent"]));
    let mut steps = Vec::new();
    for step in list(&case["steps"]) {
        if let (Some(azure), Some(prices)) = (&mut member.provider, prices(step)) {
            azure.set_prices(prices);
        }
        let seen = AgentObservation {
            now: time(&step["at"]),
            nodes: list(&step["nodes"]),
            pods: list(&step["pods"]),
            ready_status: step["probe"].as_u64().and_then(|code| u16::try_from(code).ok()).expect("a code"),
            version: step["version"].as_str().unwrap_or_default(),
        };
        let outcome = member.run_once(&seen, list(&step["namespaces"]), step["joinError"].as_str());
        let mut status = json!(outcome.status);
        status["namespaces"] = json!(member.namespaces.as_ref().filter(|all| !all.is_empty()));
        steps
            .push(without_nulls(json!({"status": status, "error": outcome.error, "endedAt": outcome.ended})));
    }
    compare(&case["expect"], &json!({"steps": steps}))
}

fn prices(value: &Value) -> Option<Prices> {
    let hourly = value.get("prices").map(|prices| Deserialize::deserialize(prices).expect("prices"))?;
    Some(Prices { hourly, updated: time(&value["pricesUpdated"]) })
}

fn provider(agent: &Value) -> Option<AzureProvider> {
    if agent["provider"] != "azure" {
        return None;
    }
    let none = || Prices { hourly: Default::default(), updated: Timestamp::UNIX_EPOCH };
    Some(AzureProvider::new(AzureConfig {
        starting: match agent["start"].as_str() {
            Some("slow") => ProviderStart::Slow,
            Some("error") => ProviderStart::Fails("no nodes found with the region label".to_owned()),
            _ => ProviderStart::Starts,
        },
        prices: (agent["costProperties"] == true).then(|| prices(agent).unwrap_or_else(none)),
        available: agent["availableResourceProperties"] == true,
        namespace_collection: agent["namespaceCollection"] == true,
        certificate_authority: agent["certificateAuthority"].as_str().map(str::to_owned),
    }))
}
