//! What the scheduler says of each cluster.

use federate_kubefleet::schedule::{Ineligibility, Rejection, Scores};
use jiff::SignedDuration;

use super::snapshot::{ClusterDecision, ClusterScore};

/// A cluster that the policy names and the fleet does not have.
pub(super) fn cluster_not_found(cluster: &str) -> ClusterDecision {
    unselected_decision(cluster, format!("Specified cluster \"{cluster}\" is not found"))
}

/// A cluster that the policy names and that is not eligible.
pub(super) fn not_eligible(cluster: &str, rejection: &Rejection) -> ClusterDecision {
    let Rejection::Ineligible(why) = rejection else { panic!("a filter runs for PickFixed: {rejection:?}") };
    let why = describe_ineligibility(why);
    unselected_decision(
        cluster,
        format!("Cluster \"{cluster}\" is not eligible for resource placement yet: {why}"),
    )
}

fn unselected_decision(cluster: &str, reason: String) -> ClusterDecision {
    ClusterDecision { cluster_name: cluster.to_owned(), selected: false, score: None, reason }
}

fn describe_scores(scores: Scores) -> (ClusterScore, String) {
    let Scores { topology, affinity } = scores;
    let words = format!("(affinity score: {affinity}, topology spread score: {topology})");
    (ClusterScore { affinity, topology }, words)
}

pub(super) fn picked_by_policy(cluster: &str, scores: Option<Scores>) -> ClusterDecision {
    let (score, words) = scores.map(describe_scores).unzip();
    let words = words.map(|words| format!(" {words}")).unwrap_or_default();
    let reason = format!(
        "Successfully scheduled resources for placement in \"{cluster}\"{words}: picked by scheduling policy"
    );
    ClusterDecision { cluster_name: cluster.to_owned(), selected: true, score, reason }
}

pub(super) fn not_enough_score(cluster: &str, scores: Scores) -> ClusterDecision {
    let (score, words) = describe_scores(scores);
    let reason = format!("Cluster \"{cluster}\" does not score high enough {words}");
    ClusterDecision { score: Some(score), ..unselected_decision(cluster, reason) }
}

/// The message of the filter that refuses a cluster; `None` where no filter does.
pub(super) fn refused_by(cluster: &str, rejection: &Rejection) -> Option<ClusterDecision> {
    let why = match rejection {
        Rejection::Score(_) => return None,
        Rejection::Affinity => {
            "cluster does not match with any of the required cluster affinity terms".to_owned()
        }
        Rejection::Ineligible(why) => describe_ineligibility(why),
        Rejection::Namespace(namespace) => format!("cluster does not have the namespace \"{namespace}\""),
        Rejection::Taint(taint) => format!(
            "taint &{{Key:{} Value:{} Effect:{}}} cannot be tolerated",
            taint.key, taint.value, taint.effect
        ),
        Rejection::Spread(by) => {
            let first = by.first()?;
            format!(
                "violated doNotSchedule topology spread constraint \"{}\" (max skew {})",
                first.key, first.max_skew
            )
        }
    };
    Some(unselected_decision(cluster, format!("ClusterUnschedulable, {why}")))
}

/// Why a cluster is not eligible for placements.
fn describe_ineligibility(why: &Ineligibility) -> String {
    let offline = match why {
        Ineligibility::Leaving => return "cluster has left the fleet".to_owned(),
        Ineligibility::Offline => "member agent not online yet".to_owned(),
        Ineligibility::NotJoined => "member agent not joined yet".to_owned(),
        Ineligibility::Silent(age) => describe_silence(*age),
        Ineligibility::NeverHeard => describe_silence(MAX_GO_DURATION),
        Ineligibility::Unhealthy(None) => "health condition not available".to_owned(),
        Ineligibility::Unhealthy(Some(age)) => format!(
            "unhealthy for a prolonged period of time (last transitioned {:.2} minutes ago)",
            minutes_of(*age)
        ),
    };
    format!("cluster is not connected to the fleet: {offline}")
}

/// The longest duration that Go has.
const MAX_GO_DURATION: SignedDuration = SignedDuration::from_nanos(i64::MAX);

/// A duration in minutes, as Go computes it.
fn minutes_of(age: SignedDuration) -> f64 {
    age.min(MAX_GO_DURATION).as_secs_f64() / 60.0
}

fn describe_silence(age: SignedDuration) -> String {
    format!("no recent heartbeat signals (last received {:.2} minutes ago)", minutes_of(age))
}
