//! Scheduling profiles: which plugins filter, score and select.
//!
//! Facts: at each of the three points, the default plugins stay in their order without the disabled ones (`*`
//! disables all), and the enabled ones come after them. A plugin that occurs twice, is unknown, or does not
//! belong to the point makes the profile invalid.

use federate_kubernetes::{Object, schema};

use super::api::{PluginSet, ProfileSpec};

/// A plugin that refuses clusters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FilterPlugin {
    ApiResources,
    TaintToleration,
    Placement,
    Affinity,
    Ready,
    Terminating,
    Evicted,
    ResourcesFit,
}

/// A plugin that scores clusters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ScorePlugin {
    TaintToleration,
    Balanced,
    Least,
    Affinity,
    Most,
}

/// A plugin that selects among scored clusters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SelectPlugin {
    Priority,
    MaxCluster,
}

/// The plugins of one decision, in the order they run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Plugins {
    pub(super) filters: Vec<FilterPlugin>,
    pub(super) scores: Vec<ScorePlugin>,
    pub(super) selects: Vec<SelectPlugin>,
}

impl Default for Plugins {
    fn default() -> Self {
        Self {
            filters: vec![
                FilterPlugin::ApiResources,
                FilterPlugin::TaintToleration,
                FilterPlugin::Placement,
                FilterPlugin::Affinity,
                FilterPlugin::Ready,
                FilterPlugin::Terminating,
                FilterPlugin::Evicted,
            ],
            scores: vec![
                ScorePlugin::TaintToleration,
                ScorePlugin::Balanced,
                ScorePlugin::Least,
                ScorePlugin::Affinity,
            ],
            selects: vec![SelectPlugin::Priority, SelectPlugin::MaxCluster],
        }
    }
}

impl FilterPlugin {
    pub(super) const ALL: [Self; 8] = [
        Self::ApiResources,
        Self::TaintToleration,
        Self::Placement,
        Self::Affinity,
        Self::Ready,
        Self::Terminating,
        Self::Evicted,
        Self::ResourcesFit,
    ];

    /// The plugin's name in profiles and explanations.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::ApiResources => "APIResources",
            Self::TaintToleration => "TaintToleration",
            Self::Placement => "PlacementFilter",
            Self::Affinity => "ClusterAffinity",
            Self::Ready => "ClusterReady",
            Self::Terminating => "ClusterTerminating",
            Self::Evicted => "ClusterEvicted",
            Self::ResourcesFit => "ClusterResourcesFit",
        }
    }
}

impl ScorePlugin {
    pub(super) const ALL: [Self; 5] =
        [Self::TaintToleration, Self::Balanced, Self::Least, Self::Affinity, Self::Most];

    /// The plugin's name in profiles.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::TaintToleration => "TaintToleration",
            Self::Balanced => "ClusterResourcesBalancedAllocation",
            Self::Least => "ClusterResourcesLeastAllocated",
            Self::Affinity => "ClusterAffinity",
            Self::Most => "ClusterResourcesMostAllocated",
        }
    }
}

impl SelectPlugin {
    pub(super) const ALL: [Self; 2] = [Self::Priority, Self::MaxCluster];

    /// The plugin's name in profiles.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Priority => "PrioritySort",
            Self::MaxCluster => "MaxCluster",
        }
    }
}

impl Plugins {
    /// The plugins of a `SchedulingProfile`, or why it cannot be used.
    pub(super) fn from_profile(profile: &Object) -> Result<Self, String> {
        let default = Self::default();
        let spec: ProfileSpec =
            schema::read_field(profile, "spec", "invalid-policy").map_err(|e| e.message)?;
        let points = spec.plugins;
        Ok(Self {
            filters: configure_plugins("filter", default.filters, &points.filter, |name| {
                FilterPlugin::ALL.into_iter().find(|f| f.name() == name)
            })?,
            scores: configure_plugins("score", default.scores, &points.score, |name| {
                ScorePlugin::ALL.into_iter().find(|s| s.name() == name)
            })?,
            selects: configure_plugins("select", default.selects, &points.select, |name| {
                SelectPlugin::ALL.into_iter().find(|s| s.name() == name)
            })?,
        })
    }
}

fn configure_plugins<P: Copy + PartialEq>(
    point: &str,
    default: Vec<P>,
    settings: &PluginSet,
    find: impl Fn(&str) -> Option<P>,
) -> Result<Vec<P>, String> {
    let mut plugins = default;
    plugins.retain(|plugin| {
        !settings
            .disabled
            .iter()
            .any(|disabled| disabled.name == "*" || find(&disabled.name) == Some(*plugin))
    });
    for name in settings.enabled.iter().map(|enabled| enabled.name.as_str()) {
        let Some(plugin) = find(name) else {
            return Err(format!("`{name}` is not a {point} plugin"));
        };
        if plugins.contains(&plugin) {
            return Err(format!("the {point} plugin `{name}` is enabled twice"));
        }
        plugins.push(plugin);
    }
    Ok(plugins)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn plugins(spec: &Value) -> Result<Plugins, String> {
        let body = json!({"spec": {"plugins": spec}});
        Plugins::from_profile(&Object::from_path(
            "core.kubeadmiral.io/v1alpha1",
            "SchedulingProfile",
            "p",
            body,
        ))
    }

    #[test]
    fn an_empty_profile_is_the_default() {
        assert_eq!(plugins(&json!({})), Ok(Plugins::default()));
    }

    #[test]
    fn disabled_ones_go_and_enabled_ones_come_last() {
        let got = plugins(
            &json!({"score": {"disabled": [{"name": "*"}], "enabled": [{"name": "ClusterResourcesMostAllocated"}]},
            "filter": {"disabled": [{"name": "APIResources"}], "enabled": [{"name": "ClusterResourcesFit"}, {"name": "APIResources"}]}}),
        );
        let got = got.unwrap();
        assert_eq!(got.scores, [ScorePlugin::Most]);
        assert_eq!(got.filters.last(), Some(&FilterPlugin::ApiResources));
        assert_eq!(got.filters.len(), 8);
    }

    #[test]
    fn twice_unknown_and_misplaced_are_refused() {
        for (point, name) in [("filter", "ClusterReady"), ("score", "Nope"), ("select", "ClusterReady")] {
            assert!(plugins(&json!({point: {"enabled": [{"name": name}]}})).is_err(), "{name}");
        }
    }
}
