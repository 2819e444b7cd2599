//! Which release of Karmada decides: a version, resolved once to named behaviours.
//!
//! Facts: `docs/semantics/karmada-versions.md`; the numbers below are the rows of its table, and a rule's text
//! is in the section named. Releases before the oldest known one differ in more than is listed.

use std::fmt;
use std::str::FromStr;

use serde_json::Value;

use federate_kubernetes::{Finding, Object};
use federate_repo::Repo;

/// The key below `dialects.karmada` in `federate.yaml`.
pub(super) const SETTING: &str = "version";

/// The newest patch known of each minor version, oldest first; the last one is what is not released yet.
const NEWEST: [(u16, u16); 6] = [(14, 10), (15, 9), (16, 8), (17, 5), (18, 2), (19, 0)];

/// A release: minor version and patch. The major version is 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version(u16, u16);

impl Version {
    /// The newest that is known.
    pub const LATEST: Self = Self(NEWEST[NEWEST.len() - 1].0, NEWEST[NEWEST.len() - 1].1);

    /// Whether the release has a change that is listed with the patches it was first in, one for each minor
    /// version that got it, in ascending order; every later minor version has it.
    fn has(self, since: &[(u16, u16)]) -> bool {
        match since.iter().find(|(minor, _)| *minor == self.0) {
            Some((_, patch)) => self.1 >= *patch,
            None => since.last().is_some_and(|(minor, _)| self.0 > *minor),
        }
    }
}

impl Default for Version {
    fn default() -> Self {
        Self::LATEST
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "1.{}.{}", self.0, self.1)
    }
}

impl FromStr for Version {
    type Err = String;

    /// Reads `1.16`, which is its newest patch, `1.16.2` or `v1.16.2`.
    fn from_str(text: &str) -> Result<Self, String> {
        let mut parts = text.strip_prefix('v').unwrap_or(text).splitn(3, '.');
        let major = parts.next().unwrap_or_default();
        let minor = parts.next().and_then(|part| part.parse().ok());
        let newest = NEWEST.into_iter().find(|(known, _)| major == "1" && Some(*known) == minor);
        let patch = match (parts.next(), newest) {
            (None, Some((_, newest))) => Some(newest),
            (Some(patch), Some((_, newest))) => patch.parse().ok().filter(|patch| *patch <= newest),
            (_, None) => None,
        };
        newest.zip(patch).map(|((minor, _), patch)| Self(minor, patch)).ok_or_else(|| unknown(text))
    }
}

fn unknown(text: &str) -> String {
    let known = NEWEST.map(|(minor, patch)| match patch {
        0 => format!("1.{minor}"),
        _ => format!("1.{minor} (to 1.{minor}.{patch})"),
    });
    format!("there is no rule for Karmada `{text}`; known are {}", known.join(", "))
}

/// How replicas are divided by weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Division {
    /// Shares are rounded down, and the remainder goes to the largest weights.
    LargestRemainder,
    /// Seat by seat, by Webster's method.
    Webster,
}

/// How room is estimated in a cluster that reports counted node models.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ModelEstimate {
    /// From the first grade that fits the request on, count times what its minimum holds.
    ByGrade,
    /// First-fit on nodes of the grades' minimums, at most 110 pods each.
    ByNode,
}

/// What a workload with 0 replicas is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ZeroReplicas {
    /// Not a workload: it goes to every selected cluster.
    Everywhere,
    /// A workload of which there is nothing to place.
    Nowhere,
}

/// What `zone In` of a field selector asks of a cluster's zones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Zones {
    /// All are listed.
    All,
    /// One is listed.
    #[default]
    Any,
}

/// Whose replicas are the weights when a dynamic division scales down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ScaleDown {
    /// Those of every previous cluster, chosen again or not, in the inventory or not.
    AllPrevious,
    /// Those of the previous clusters that are chosen again.
    Chosen,
}

/// When a cluster that holds the object already passes the check that it serves the API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HeldApi {
    /// If it serves it, or does not say that it has listed all that it serves.
    ServedOrIncomplete,
    /// Always.
    Passes,
}

/// Whether ordered affinities have overflow affinities.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Overflow {
    /// The field is not there, and is ignored.
    Ignored,
    /// They are tiers.
    Tiers,
}

/// At which of the ordered affinities a fresh scheduling starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reschedule {
    /// The one observed last.
    FromObserved,
    /// The first.
    FromFirst,
}

/// The reason that is reported where the chosen clusters have too little room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoRoom {
    SchedulerError,
    Unschedulable,
}

/// What admission adds to the tolerations of a policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tolerations {
    /// `not-ready` and `unreachable` for 300 seconds.
    NotReadyAndUnreachable,
    /// Nothing.
    AsWritten,
}

/// What a release computes, rule by rule.
#[derive(Clone, Copy, Debug)]
pub(super) struct Behaviour {
    pub(super) version: Version,
    pub(super) division: Division,
    pub(super) model_estimate: ModelEstimate,
    pub(super) zero_replicas: ZeroReplicas,
    pub(super) zones: Zones,
    pub(super) scale_down: ScaleDown,
    pub(super) held_api: HeldApi,
    pub(super) overflow: Overflow,
    pub(super) reschedule: Reschedule,
    pub(super) no_room: NoRoom,
    pub(super) tolerations: Tolerations,
}

impl Behaviour {
    /// That of the release that `federate.yaml` names, or of the newest; and what is wrong there.
    pub(super) fn chosen(repo: &Repo, dialect: &str) -> (Self, Option<Finding>) {
        let setting = repo.config.dialects.get(dialect).and_then(|settings| settings.get(SETTING));
        let read = setting.map(|value| match value.as_str() {
            Some(text) => text.parse(),
            None => Err("a version is a text: write it in quotes, such as \"1.16\"".to_owned()),
        });
        let pointer = format!("/dialects/{dialect}/{SETTING}");
        match read.transpose() {
            Ok(version) => (Self::of(version.unwrap_or_default()), None),
            Err(why) => (Self::of(Version::LATEST), Some(repo.invalid_config(&pointer, why))),
        }
    }

    /// The table: for each rule the releases that it changed in, what came before, what since.
    pub(super) fn of(version: Version) -> Self {
        fn pick<T>(version: Version, since: &[(u16, u16)], before: T, after: T) -> T {
            if version.has(since) { after } else { before }
        }
        let v = version;
        let room_fixed = [(15, 8), (16, 5), (17, 2), (18, 0)];
        Self {
            version,
            // Row 1, §2.1
            division: pick(v, &[(16, 0)], Division::LargestRemainder, Division::Webster),
            // Row 2, §2.2
            model_estimate: pick(v, &[(18, 0)], ModelEstimate::ByGrade, ModelEstimate::ByNode),
            // Row 3, §2.6
            zero_replicas: pick(v, &[(16, 0)], ZeroReplicas::Everywhere, ZeroReplicas::Nowhere),
            // Row 4
            zones: pick(v, &[(18, 0)], Zones::All, Zones::Any),
            // Row 5, §2.3
            scale_down: pick(v, &[(17, 0)], ScaleDown::AllPrevious, ScaleDown::Chosen),
            // Row 6
            held_api: pick(v, &[(15, 0)], HeldApi::ServedOrIncomplete, HeldApi::Passes),
            // Row 7
            overflow: pick(v, &[(18, 0)], Overflow::Ignored, Overflow::Tiers),
            // Row 8, §2.5
            reschedule: pick(v, &[(19, 0)], Reschedule::FromObserved, Reschedule::FromFirst),
            // Row 9
            no_room: pick(v, &room_fixed, NoRoom::SchedulerError, NoRoom::Unschedulable),
            // Row 14
            tolerations: pick(v, &[(15, 0)], Tolerations::NotReadyAndUnreachable, Tolerations::AsWritten),
        }
    }

    /// The fields of a policy that the release does not have.
    pub(super) fn ignored(&self, policy: &Object) -> Vec<Finding> {
        let ordered = policy.at(&["spec", "placement", "clusterAffinities"]).and_then(Value::as_array);
        let ordered = ordered.into_iter().flatten().enumerate();
        let overflows = ordered.filter(|(_, term)| term.get("overflowAffinities").is_some());
        let finding = |(at, _)| {
            let message =
                format!("Karmada {} ignores `overflowAffinities`: it is a field since 1.18", self.version);
            Finding::warning("ignored-field", policy, message)
                .at(format!("/spec/placement/clusterAffinities/{at}/overflowAffinities"))
                .help("write the overflow clusters as another entry of `clusterAffinities`, or take the field out")
        };
        overflows.filter(|_| self.overflow == Overflow::Ignored).map(finding).collect()
    }

    /// Whether the release has an interpreter for a kind that is known today (rows 10 and 11, §3); to one
    /// without, its objects are like any other.
    pub(super) fn interprets(&self, api_version: &str, kind: &str) -> bool {
        let since = match (api_version, kind) {
            ("apps.kruise.io/v1alpha1", "SidecarSet" | "UnitedDeployment") => (15, 0),
            ("apps/v1", "ReplicaSet")
            | ("batch.volcano.sh/v1alpha1", "Job")
            | ("ray.io/v1", "RayCluster" | "RayJob")
            | ("sparkoperator.k8s.io/v1beta2", "SparkApplication")
            | ("kubeflow.org/v1", "PyTorchJob" | "TFJob" | "Notebook")
            | ("kubeflow.org/v2beta1", "MPIJob") => (16, 0),
            ("ray.io/v1", "RayService") => (17, 0),
            _ => return true,
        };
        self.version.has(&[since])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(text: &str) -> Version {
        text.parse().unwrap()
    }

    #[test]
    fn a_minor_version_is_its_newest_patch() {
        assert_eq!(version("1.16"), Version(16, 8));
        assert_eq!(version("1.16.2"), Version(16, 2));
        assert_eq!(version("v1.16.2"), Version(16, 2));
        assert_eq!(version("1.19"), Version::LATEST);
    }

    #[test]
    fn what_is_not_known_is_refused_with_what_is() {
        for text in ["", "1", "1.13", "1.20", "2.16", "1.16.9", "1.16.x", "1.16.2.1", "main", "v1"] {
            let message = text.parse::<Version>().unwrap_err();
            assert!(message.contains("1.14 (to 1.14.10), ") && message.ends_with(", 1.19"), "{message}");
        }
    }

    #[test]
    fn backports_are_told_by_their_patch() {
        let since = [(15, 8), (16, 5), (17, 2), (18, 0)];
        for (text, has) in [
            ("1.14.10", false),
            ("1.15.7", false),
            ("1.15.8", true),
            ("1.16.4", false),
            ("1.16", true),
            ("1.17.1", false),
            ("1.17.2", true),
            ("1.18.0", true),
            ("1.19", true),
        ] {
            assert_eq!(version(text).has(&since), has, "{text}");
        }
    }
}
