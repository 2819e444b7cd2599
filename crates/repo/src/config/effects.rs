//! What each setting of `federate.yaml` acts on, so that no change of one is without a place in a comparison of revisions.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Map, Value};

use super::{ApplyConfig, Config, DriftConfig, UnplacedTemplates};

/// What a setting acts on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SettingEffect {
    /// What is rendered: the comparison of two renderings shows what a change of the setting does.
    Renderings,
    /// What is done with what is rendered: no rendering shows a change of the setting. The text says what it decides.
    Runs(&'static str),
    /// What messages and reports say.
    Reports,
}

/// The effects of settings, by their keys in the notation of the documentation. A key stands for all keys below it that have
/// no row of their own.
const EFFECTS: [(&str, SettingEffect); 24] = [
    ("apiVersion", SettingEffect::Reports),
    ("apply.healthChecks", SettingEffect::Runs("when objects are healthy, for `--wait` and rollouts")),
    ("apply.noTakeOver", SettingEffect::Runs("whether `apply` leaves fields that people have added")),
    ("apply.resetIgnored", SettingEffect::Runs("whether `apply` sets the fields that `drift.ignore` names")),
    ("apply.rolling", SettingEffect::Reports),
    ("argocd", SettingEffect::Renderings),
    ("autoscaledReplicas", SettingEffect::Renderings),
    ("clusterProfiles", SettingEffect::Renderings),
    ("clusterValues", SettingEffect::Renderings),
    ("clusters", SettingEffect::Renderings),
    ("contexts", SettingEffect::Runs("which context of the kubeconfig reaches the cluster")),
    ("dialects", SettingEffect::Runs("by which rules control planes decide, and `apply` and drift compare")),
    (
        "drift.ignore",
        SettingEffect::Runs("which differences are no drift, and which fields `apply` leaves as they are"),
    ),
    ("drift.people", SettingEffect::Runs("whose changes are drift where nothing is rendered")),
    ("exclude", SettingEffect::Renderings),
    ("flux", SettingEffect::Renderings),
    ("kind", SettingEffect::Reports),
    ("kubernetesVersion", SettingEffect::Reports),
    ("output", SettingEffect::Renderings),
    ("paths", SettingEffect::Renderings),
    ("repositories", SettingEffect::Renderings),
    ("sources", SettingEffect::Renderings),
    ("unplaced", SettingEffect::Runs("whether a template that no policy places is an error")),
    ("values", SettingEffect::Renderings),
];

/// What the setting at a JSON pointer, or at a path of a difference, acts on; `None` if there is no such setting.
pub fn find_setting_effect(pointer: &str) -> Option<SettingEffect> {
    let mut names = pointer.split(['/', '[']).filter(|name| !name.is_empty());
    let first = names.next()?;
    let second = names.next().map(|second| format!("{first}.{second}"));
    let find = |key: &str| EFFECTS.iter().find(|(known, _)| *known == key).map(|(_, effect)| *effect);
    second.and_then(|key| find(&key)).or_else(|| find(first))
}

/// The settings that act on more than what is rendered, with their defaults.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct RunSettings<'c> {
    apply: &'c ApplyConfig,
    contexts: &'c BTreeMap<String, String>,
    dialects: &'c BTreeMap<String, Map<String, Value>>,
    drift: &'c DriftConfig,
    unplaced: UnplacedTemplates,
}

impl Config {
    /// The settings that act on more than what is rendered, with their defaults, to be compared.
    pub fn run_settings(&self) -> Value {
        let Self { apply, contexts, dialects, drift, unplaced, .. } = self;
        let settings = RunSettings { apply, contexts, dialects, drift, unplaced: *unplaced };
        serde_json::to_value(settings).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// The keys below a schema, in the notation of the documentation, without those of items of lists.
    fn list_keys(schema: &Value, root: &Value, prefix: &str, keys: &mut BTreeSet<String>) {
        let target = schema["$ref"].as_str().and_then(|target| target.strip_prefix("#/$defs/"));
        let schema = target.map_or(schema, |name| &root["$defs"][name]);
        for (name, below) in schema["properties"].as_object().into_iter().flatten() {
            let key = if prefix.is_empty() { name.clone() } else { format!("{prefix}.{name}") };
            let before = keys.len();
            list_keys(below, root, &key, keys);
            if keys.len() == before {
                keys.insert(key);
            }
        }
    }

    fn keys_of_schema() -> BTreeSet<String> {
        let schema = serde_json::to_value(schemars::schema_for!(Config)).unwrap();
        let mut keys = BTreeSet::new();
        list_keys(&schema, &schema, "", &mut keys);
        keys
    }

    #[test]
    fn every_setting_has_a_place_where_its_change_is_seen() {
        let keys = keys_of_schema();
        assert!(keys.contains("apply.healthChecks") && keys.contains("contexts"), "{keys:?}");
        for key in &keys {
            let pointer = format!("/{}", key.replace('.', "/"));
            assert!(
                find_setting_effect(&pointer).is_some(),
                "`{key}`: say in EFFECTS what it acts on, so that its change is seen in `diff`"
            );
        }
        for (known, _) in EFFECTS {
            let is_key = keys.iter().any(|key| key == known || key.starts_with(&format!("{known}.")));
            assert!(is_key, "`{known}` is no setting");
        }
    }

    #[test]
    fn every_setting_that_acts_on_more_than_renderings_is_compared() {
        let mut config = Config::default();
        // What has no default is left out.
        config.drift.people = Some(Vec::new());
        let compared = config.run_settings();
        let mut keys = BTreeSet::new();
        for (name, value) in compared.as_object().unwrap() {
            match value.as_object() {
                Some(group) if !group.is_empty() => {
                    keys.extend(group.keys().map(|below| format!("{name}.{below}")));
                }
                _ => {
                    keys.insert(name.clone());
                }
            }
        }
        for (key, effect) in EFFECTS {
            if matches!(effect, SettingEffect::Runs(_)) {
                assert!(keys.contains(key), "`{key}` is not compared");
            }
        }
    }
}
