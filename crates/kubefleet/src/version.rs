//! The releases of `KubeFleet`: a release is resolved once to named behaviours.
//!
//! Facts: `docs/semantics/kubefleet-versions.md`; the numbers below are the rows of its table. `main` is the
//! unreleased code; `azure` is what Azure Kubernetes Fleet Manager runs, which is nearly the same.

use std::borrow::Cow;

use serde_json::Value;

use crate::api::{NAME, PLACEMENT_GROUP};
use federate_dialect::release::{
    self, FirstPatches, NamedRelease, NamedState, Release, ReleaseCatalog, UnknownRelease,
};
use federate_dialect::stages::StageRules;
use federate_kubernetes::{Finding, Object};
use federate_repo::{Config, Repo};

/// The releases that are known.
pub static RELEASES: ReleaseCatalog = ReleaseCatalog {
    product: "KubeFleet",
    major: 0,
    newest: &[(1, 2), (2, 2), (3, 1)],
    named: &[
        NamedState { name: "azure", recorded: "2026-06-29", number: (4, 0) },
        NamedState { name: "main", recorded: "2026-08-20, after 0.3.1", number: (4, 1) },
    ],
};

/// The setting in `federate.yaml`, which is called like the value of the hub agent's Helm chart.
pub(super) const WEBHOOK_SETTING: &str = "enableWebhook";

/// Changes after the newest release that Azure has.
const AZURE: FirstPatches = &[(4, 0)];

/// Changes after the newest release that Azure does not have yet.
const MAIN: FirstPatches = &[(4, 1)];

/// The release that runs, by the image tags of the hub agent. A tag that is not a known release is an error.
pub(super) fn installed_release(objects: &[&Object]) -> Option<Result<NamedRelease, UnknownRelease>> {
    let [tags] = release::image_tags(objects, ["hub-agent"]);
    Some(RELEASES.parse_named(tags.first()?))
}

/// Which object the overrides of an envelope change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EnvelopeOverrides {
    /// The envelope itself, before it is opened.
    Envelope,
    /// Each object in it.
    Content,
}

/// Which `PersistentVolumeClaims` stay on the hub although they are selected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum VolumeClaims {
    /// None.
    Stay,
    /// All.
    Leave,
}

/// What `spec.state` of an update run does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RunState {
    /// Nothing: a run starts at once. The values are `NotStarted`, `Started`, `Stopped`, `Abandoned`.
    IgnoredStarted,
    /// Nothing: a run starts at once. The values are Initialize, Execute, Pause, Abandon.
    IgnoredExecute,
    /// It is obeyed. The values are Initialize, Run, Stop.
    Obeyed,
}

/// Who takes the resource snapshots of a placement that update runs roll out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ResourceSnapshots {
    /// The placement, whenever its resources change. A run that names no index takes the latest one.
    ByPlacement,
    /// The run that names no index, when it initializes.
    ByRun,
}

/// Which `waitTime` of a stage's task the custom resource definition accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WaitTimes {
    /// Text that starts with `0`, or that ends in a duration.
    Partly,
    /// Durations in hours, minutes and seconds.
    Durations,
}

/// How approval requests are named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ApprovalNames {
    /// `<run>-<stage>`
    Stage,
    /// `<run>-before-<stage>` and `<run>-after-<stage>`
    BeforeOrAfterStage,
}

/// What admission does with requirements on one property that no cluster can meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Contradictions {
    /// They select no cluster.
    Accepted,
    /// They are refused.
    Refused,
}

/// What admission does with operators of property requirements that the scheduler does not know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UnknownOperators {
    /// They are admitted, with any number of values. The scheduler fails when it evaluates one.
    Admitted,
    /// They are refused.
    Refused,
}

/// The rules of a release.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a rule that a release has or has not")]
pub struct KubeFleetBehaviour {
    /// The release.
    pub release: Release,
    /// Whether the hub agent serves its validating webhooks, without which only the schemas refuse objects.
    pub(crate) has_webhooks: bool,
    pub(crate) envelope_overrides: EnvelopeOverrides,
    pub(crate) run_state: RunState,
    pub(crate) max_concurrency: bool,
    pub(crate) max_concurrency_starts_at_one: bool,
    pub(crate) before_stage_tasks: bool,
    pub(crate) empty_stages_are_skipped: bool,
    pub(crate) resource_snapshots: ResourceSnapshots,
    pub(crate) namespace_affinity: bool,
    pub(crate) scope_of_selectors: bool,
    pub(crate) scope_of_selectors_in_v1: bool,
    pub(crate) v1_has_scopes: bool,
    pub(crate) member_name_label: bool,
    pub(crate) volume_claims: VolumeClaims,
    pub(crate) owned_sets_stay: bool,
    pub(crate) update_runs_are_propagated: bool,
    pub(crate) pending_rows_fail: bool,
    pub(crate) empty_pick_fixed: bool,
    pub(crate) contradictions: Contradictions,
    pub(crate) unknown_operators: UnknownOperators,
    pub(crate) unavailable_period_has_minimum: bool,
    pub(crate) wait_times: WaitTimes,
    pub(crate) external_is_final: bool,
    pub(crate) longest_run_name: usize,
    pub(crate) approval_names: ApprovalNames,
    pub(crate) approvals_have_task_type: bool,
}

impl KubeFleetBehaviour {
    /// What the release knows of the stages of update runs.
    pub(crate) fn stage_rules(&self) -> StageRules {
        StageRules { max_concurrency: self.max_concurrency, before_stage_tasks: self.before_stage_tasks }
    }

    /// Resolves a release. The table has for each rule the first releases with a change, and the behaviour
    /// before and since.
    pub fn for_release(release: Release) -> Self {
        let r = release;
        Self {
            release,
            has_webhooks: true,
            // Row 1, §1
            envelope_overrides: r.select_by_change(
                MAIN,
                EnvelopeOverrides::Envelope,
                EnvelopeOverrides::Content,
            ),
            // Row 2
            run_state: r.select_by_change(
                &[(2, 0)],
                r.select_by_change(&[(1, 1)], RunState::IgnoredStarted, RunState::IgnoredExecute),
                RunState::Obeyed,
            ),
            // Row 3
            max_concurrency: r.includes_change(&[(1, 1)]),
            max_concurrency_starts_at_one: r.includes_change(&[(2, 0)]),
            // Row 4
            before_stage_tasks: r.includes_change(&[(1, 2)]),
            // Row 5
            empty_stages_are_skipped: r.includes_change(AZURE),
            // Row 6
            resource_snapshots: r.select_by_change(
                &[(3, 0)],
                ResourceSnapshots::ByPlacement,
                ResourceSnapshots::ByRun,
            ),
            // Row 7
            namespace_affinity: r.includes_change(&[(3, 0)]),
            // Row 8
            scope_of_selectors: r.includes_change(&[(3, 0)]),
            scope_of_selectors_in_v1: r.includes_change(AZURE),
            // §2
            v1_has_scopes: r.includes_change(&[(3, 0)]),
            // Row 9
            member_name_label: r.includes_change(&[(3, 1)]),
            // Row 10
            volume_claims: r.select_by_change(
                &[(2, 0)],
                r.select_by_change(&[(1, 2)], VolumeClaims::Leave, VolumeClaims::Stay),
                VolumeClaims::Leave,
            ),
            // Row 11
            owned_sets_stay: r.includes_change(&[(1, 1)]),
            // Row 12
            update_runs_are_propagated: !r.includes_change(AZURE),
            // Row 13
            pending_rows_fail: !r.includes_change(AZURE),
            // Row 14
            empty_pick_fixed: r.includes_change(AZURE),
            // Row 15
            contradictions: r.select_by_change(AZURE, Contradictions::Accepted, Contradictions::Refused),
            unknown_operators: r.select_by_change(
                AZURE,
                UnknownOperators::Admitted,
                UnknownOperators::Refused,
            ),
            // Row 16
            unavailable_period_has_minimum: r.includes_change(MAIN),
            // Row 17
            wait_times: r.select_by_change(AZURE, WaitTimes::Partly, WaitTimes::Durations),
            // Row 18
            external_is_final: r.includes_change(&[(2, 0)]),
            // Row 19
            longest_run_name: r.select_by_change(&[(2, 0)], 127, 63),
            // Row 20
            approval_names: r.select_by_change(
                &[(1, 2)],
                ApprovalNames::Stage,
                ApprovalNames::BeforeOrAfterStage,
            ),
            // Row 21
            approvals_have_task_type: r.includes_change(&[(2, 0)]),
        }
    }

    /// The rules of the newest release.
    pub fn for_newest() -> Self {
        Self::for_release(RELEASES.find_latest())
    }

    /// The rules of the release that the configuration names, or of the newest.
    pub(crate) fn from_config(config: &Config) -> Self {
        let of_release = Self::for_release(RELEASES.resolve_configured(config, NAME));
        let setting = config.dialects.get(NAME).and_then(|settings| settings.get(WEBHOOK_SETTING));
        Self { has_webhooks: setting.and_then(Value::as_bool).unwrap_or(true), ..of_release }
    }

    /// The same for a repo, with findings about settings that are not known.
    pub(crate) fn from_repo(repo: &Repo) -> (Self, Vec<Finding>) {
        let (release, unknown) = RELEASES.resolve_for_repo(repo, NAME);
        let mut findings = Vec::from_iter(unknown);
        let setting = repo.config.dialects.get(NAME).and_then(|settings| settings.get(WEBHOOK_SETTING));
        if setting.is_some_and(|setting| !setting.is_boolean()) {
            let message = format!("`{WEBHOOK_SETTING}` is true (the default) or false");
            findings.push(repo.invalid_config(&format!("/dialects/{NAME}/{WEBHOOK_SETTING}"), message));
        }
        let has_webhooks = Self::from_config(&repo.config).has_webhooks;
        (Self { has_webhooks, ..Self::for_release(release) }, findings)
    }

    /// The rules in which two releases differ, in words.
    pub(crate) fn find_differences(&self, other: &Self) -> Vec<&'static str> {
        let rules = [
            (self.envelope_overrides != other.envelope_overrides, "overrides of envelopes"),
            (self.run_state != other.run_state, "the state of update runs"),
            (self.max_concurrency != other.max_concurrency, "the concurrency of stages"),
            (self.before_stage_tasks != other.before_stage_tasks, "tasks before stages"),
            (self.empty_stages_are_skipped != other.empty_stages_are_skipped, "stages without clusters"),
            (self.resource_snapshots != other.resource_snapshots, "the resources of update runs"),
            (self.namespace_affinity != other.namespace_affinity, "clusters without the namespace"),
            (self.scope_of_selectors != other.scope_of_selectors, "namespaces whose content is selected"),
            (self.member_name_label != other.member_name_label, "the label `member-name` of clusters"),
            (self.volume_claims != other.volume_claims, "volume claims"),
            (self.owned_sets_stay != other.owned_sets_stay, "objects with owners"),
            (
                self.update_runs_are_propagated != other.update_runs_are_propagated,
                "update runs in selected namespaces",
            ),
            (self.pending_rows_fail != other.pending_rows_fail, "rows that are still becoming available"),
            (self.empty_pick_fixed != other.empty_pick_fixed, "PickFixed without names"),
            (self.wait_times != other.wait_times, "the wait times of stages"),
            (self.external_is_final != other.external_is_final, "a change back from strategy External"),
            (self.approval_names != other.approval_names, "the names of approval requests"),
        ];
        rules.into_iter().filter(|(differ, _)| *differ).map(|(_, words)| words).collect()
    }

    /// The versions in which the API server of the release serves a kind, the preferred one first; `None` for kinds that
    /// all releases serve alike.
    fn served_versions(&self, group: &str, kind: &str) -> Option<Vec<&'static str>> {
        let since = SERVED.iter().find(|served| group == PLACEMENT_GROUP && served.kinds.contains(&kind))?;
        let alpha = ALPHA.contains(&kind).then_some(ALWAYS);
        let versions = [("v1beta1", since.v1beta1), ("v1", since.v1), ("v1alpha1", alpha)];
        let served = versions
            .into_iter()
            .filter(|(_, since)| since.is_some_and(|since| self.release.includes_change(since)));
        Some(served.map(|(name, _)| name).collect())
    }

    /// Whether the API server of the release serves a kind in a version.
    pub(crate) fn serves_version(&self, group: &str, kind: &str, version: &str) -> bool {
        self.served_versions(group, kind).is_none_or(|served| served.contains(&version))
    }

    /// Why the API server of the release does not know an object, if it does not (§2).
    pub(crate) fn not_served(&self, object: &Object) -> Option<Finding> {
        let id = &object.id;
        let (group, version) = id.api_version.split_once('/')?;
        let served = self.served_versions(group, &id.kind)?;
        if served.contains(&version) {
            return None;
        }
        let release = self.release;
        let message = format!("KubeFleet {release} does not serve {} in `{}`", id.kind, id.api_version);
        let help = match served.first() {
            Some(first) => format!("write `apiVersion: {group}/{first}`"),
            None => format!("use a later release, which has {}", id.kind),
        };
        Some(Finding::error("not-served", object, message).with_pointer("/apiVersion").with_help(help))
    }
}

/// The fields of a placement that the API server drops, because its version of the API does not have them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DroppedFields {
    /// `selectionScope` of selectors and `statusReportingScope`. Where they are dropped, there is no strategy
    /// `External` either.
    pub(crate) selection_scope: bool,
    /// `deleteStrategy` and `reportBackStrategy`.
    pub(crate) deletion_strategy: bool,
}

impl DroppedFields {
    /// Returns the fields that the release drops from this placement.
    pub(crate) fn for_placement(placement: &Object, behaviour: &KubeFleetBehaviour) -> Self {
        let is_v1 = placement.id.api_version.ends_with("/v1");
        Self { selection_scope: is_v1 && !behaviour.v1_has_scopes, deletion_strategy: is_v1 }
    }

    /// Returns the placement as the API server stores it.
    pub(crate) fn drop_from(self, placement: &Object) -> Cow<'_, Object> {
        let mut stored = Cow::Borrowed(placement);
        for (is_dropped, path, key) in [
            (self.selection_scope, "/spec", "statusReportingScope"),
            (self.deletion_strategy, "/spec/strategy", "deleteStrategy"),
            (self.deletion_strategy, "/spec/strategy", "reportBackStrategy"),
        ] {
            let parent = placement.body.pointer(path);
            if is_dropped && parent.is_some_and(|parent| parent.get(key).is_some()) {
                let parent = stored.to_mut().body.pointer_mut(path).and_then(Value::as_object_mut);
                parent.and_then(|parent| parent.shift_remove(key));
            }
        }
        let selectors = placement.body.pointer("/spec/resourceSelectors").and_then(Value::as_array);
        let is_scoped =
            selectors.into_iter().flatten().any(|selector| selector.get("selectionScope").is_some());
        if self.selection_scope && is_scoped {
            let selectors = stored.to_mut().body.pointer_mut("/spec/resourceSelectors");
            for selector in selectors.and_then(Value::as_array_mut).into_iter().flatten() {
                if let Some(selector) = selector.as_object_mut() {
                    selector.shift_remove("selectionScope");
                }
            }
        }
        stored
    }
}

/// Kinds with the first releases that serve them, by version.
struct Served {
    kinds: &'static [&'static str],
    v1beta1: Option<FirstPatches>,
    v1: Option<FirstPatches>,
}

/// Kinds whose first version is still served.
const ALPHA: [&str; 4] =
    ["ClusterResourceOverride", "ClusterStagedUpdateRun", "ClusterStagedUpdateStrategy", "ResourceOverride"];

/// From the oldest known release on.
const ALWAYS: FirstPatches = &[(1, 0)];

const SERVED: [Served; 4] = [
    Served {
        kinds: &["ClusterResourcePlacement", "ClusterResourceOverride", "ResourceOverride"],
        v1beta1: Some(ALWAYS),
        v1: Some(ALWAYS),
    },
    Served { kinds: &["ResourcePlacement"], v1beta1: Some(ALWAYS), v1: Some(&[(3, 0)]) },
    Served { kinds: &["ClusterResourceEnvelope", "ResourceEnvelope"], v1beta1: Some(ALWAYS), v1: None },
    Served {
        kinds: &[
            "ClusterStagedUpdateRun",
            "ClusterStagedUpdateStrategy",
            "StagedUpdateRun",
            "StagedUpdateStrategy",
        ],
        v1beta1: Some(ALWAYS),
        v1: Some(&[(2, 2)]),
    },
];

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn of(text: &str) -> KubeFleetBehaviour {
        KubeFleetBehaviour::for_release(RELEASES.parse_release(text).unwrap())
    }

    #[test]
    fn the_newest_is_what_is_not_released_yet() {
        assert_eq!(RELEASES.find_latest().to_string(), "main (2026-08-20, after 0.3.1)");
        assert_eq!(of("0.3").release.to_string(), "0.3.1");
        assert!(RELEASES.parse_release("0.0").is_err());
    }

    #[test]
    fn releases_differ_in_what_they_changed() {
        let upgrades: [(&str, &str, &[&str]); 7] = [
            (
                "0.1.0",
                "0.1.1",
                &["the state of update runs", "the concurrency of stages", "objects with owners"],
            ),
            ("0.1.1", "0.1.2", &["tasks before stages", "volume claims", "the names of approval requests"]),
            (
                "0.1.2",
                "0.2",
                &["the state of update runs", "volume claims", "a change back from strategy External"],
            ),
            (
                "0.2",
                "0.3.0",
                &[
                    "the resources of update runs",
                    "clusters without the namespace",
                    "namespaces whose content is selected",
                ],
            ),
            ("0.3.0", "0.3.1", &["the label `member-name` of clusters"]),
            (
                "0.3.1",
                "azure",
                &[
                    "stages without clusters",
                    "update runs in selected namespaces",
                    "rows that are still becoming available",
                    "PickFixed without names",
                    "the wait times of stages",
                ],
            ),
            ("azure", "main", &["overrides of envelopes"]),
        ];
        for (from, to, changes) in upgrades {
            assert_eq!(of(from).find_differences(&of(to)), changes, "{from} to {to}");
        }
    }

    #[test]
    fn versions_that_are_not_served_are_refused() {
        let object = |version: &str, kind: &str| {
            Object::from_path(&format!("{PLACEMENT_GROUP}/{version}"), kind, "a", json!({}))
        };
        for (release, version, kind, served) in [
            ("0.1", "v1", "ClusterResourcePlacement", true),
            ("0.2", "v1", "ResourcePlacement", false),
            ("0.2", "v1beta1", "ResourcePlacement", true),
            ("0.3", "v1", "ResourcePlacement", true),
            ("0.1", "v1", "StagedUpdateRun", false),
            ("0.2.2", "v1", "StagedUpdateRun", true),
            ("main", "v1", "ResourceEnvelope", false),
            ("main", "v1alpha1", "ResourceOverride", true),
            ("main", "v1alpha1", "ClusterResourcePlacement", false),
        ] {
            let refused = of(release).not_served(&object(version, kind));
            assert_eq!(refused.is_none(), served, "{release} {version} {kind}");
            assert!(refused.is_none_or(|f| f.help.is_some_and(|help| help.contains("v1beta1"))));
        }
    }
}
