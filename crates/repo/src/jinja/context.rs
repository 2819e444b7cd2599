//! The context of templates: the cluster, and its values in `federate.yaml`.

use minijinja::value::Value as Jinja;
use serde_json::Value;

use crate::Config;
use federate_kubernetes::Cluster;

/// The context for a cluster.
pub(super) fn build_context(cluster: &Cluster, config: &Config) -> Jinja {
    let zones: Vec<Jinja> = cluster.zones.iter().map(|zone| Jinja::from(&**zone)).collect();
    let [labels, properties] = [&cluster.labels, &cluster.properties]
        .map(|entries| Jinja::from_pairs(entries.iter().map(|(k, v)| (k.clone(), Jinja::from(v.as_str())))));
    let of_cluster = [
        ("name", Jinja::from(&*cluster.name)),
        ("labels", labels),
        ("provider", Jinja::from(&*cluster.provider)),
        ("region", Jinja::from(&*cluster.region)),
        ("zone", Jinja::from(cluster.zones.first().map_or("", |zone| zone))),
        ("zones", Jinja::from(zones)),
        ("properties", properties),
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
