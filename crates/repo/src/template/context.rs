//! The context of templates: the cluster, and its values in `federate.yaml`.

use minijinja::value::Value as Jinja;
use serde_json::Value;

use crate::Config;
use federate_kubernetes::Cluster;

/// The context for a cluster.
pub(super) fn build_context(cluster: &Cluster, config: &Config) -> Jinja {
    let text = |text: &str| Jinja::from(text);
    let zones: Vec<Jinja> = cluster.zones.iter().map(|zone| text(zone)).collect();
    let map = |entries: &std::collections::BTreeMap<String, String>| {
        Jinja::from_pairs(entries.iter().map(|(k, v)| (k.clone(), Jinja::from(v.as_str()))))
    };
    let of_cluster = [
        ("name", text(&cluster.name)),
        ("labels", map(&cluster.labels)),
        ("provider", text(&cluster.provider)),
        ("region", text(&cluster.region)),
        ("zone", text(cluster.zones.first().map_or("", |zone| zone))),
        ("zones", Jinja::from(zones)),
        ("properties", map(&cluster.properties)),
    ];
    let values = Value::Object(config.values_for(&cluster.name));
    Jinja::from_pairs([("cluster", Jinja::from_pairs(of_cluster)), ("values", to_jinja(&values))])
}

fn to_jinja(value: &Value) -> Jinja {
    match value {
        Value::Null => Jinja::from(()),
        Value::Bool(b) => Jinja::from(*b),
        Value::Number(n) => match (n.as_i64(), n.as_u64()) {
            (Some(n), _) => Jinja::from(n),
            (None, Some(n)) => Jinja::from(n),
            (None, None) => Jinja::from(n.as_f64().unwrap_or_default()),
        },
        Value::String(text) => Jinja::from(text.as_str()),
        Value::Array(items) => items.iter().map(to_jinja).collect(),
        Value::Object(map) => Jinja::from_pairs(map.iter().map(|(k, v)| (k.clone(), to_jinja(v)))),
    }
}
