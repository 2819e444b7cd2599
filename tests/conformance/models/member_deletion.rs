//! The deletion of a `MemberCluster`, until it is gone.
//!
//! Facts: the hub asks the agent to leave and waits. The agent releases its Works, whose objects stay in the
//! member, and reports that. Then the hub removes the Works and the namespace. Without an answer it does so
//! once the wait since the deletion is over, but it checks only a full wait after its last check, or on an
//! event.

use federate_kubefleet::membership::{self, AgentStatus};
use federate_kubernetes::condition::{self, Condition};
use jiff::{SignedDuration, Timestamp};

/// How long the deletion of a namespace may take before it is an error.
const NAMESPACE_DELETION_TIMEOUT: SignedDuration = SignedDuration::from_mins(15);

/// The namespace of a member on the hub.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MemberNamespace {
    /// It exists.
    Present,
    /// It has been terminating since then.
    Terminating(Timestamp),
    /// It is gone.
    Gone,
}

/// A member that is leaving.
#[derive(Clone, Debug)]
pub(crate) struct LeavingMember {
    /// The name of its `MemberCluster`.
    pub(crate) name: String,
    /// When the `MemberCluster` was deleted.
    pub(crate) deleted: Timestamp,
    /// Its conditions.
    pub(crate) conditions: Vec<Condition>,
    /// The status of the agent.
    pub(crate) agent_status: Option<AgentStatus>,
    /// Whether it is gone.
    pub(crate) gone: bool,
    /// Its namespace.
    pub(crate) namespace: MemberNamespace,
    /// The report of the agent. The internal object that holds it is in the namespace.
    pub(crate) reported: Option<AgentStatus>,
    /// Whether the agent was requested to leave.
    pub(crate) requested: bool,
    /// The number of Works in the namespace.
    pub(crate) works: usize,
    /// The number of Works with the agent's finalizer.
    pub(crate) held_works: usize,
}

/// How long it takes until a deleted member is gone whose agent answers at once, or never, if the hub waits this long
/// for an answer.
pub(crate) fn time_until_gone(reachable: bool, force_delete_wait: SignedDuration) -> SignedDuration {
    let deleted = Timestamp::UNIX_EPOCH;
    let mut member = LeavingMember::new("", 1, true, deleted);
    let mut waited = SignedDuration::ZERO;
    while !member.gone {
        let now = deleted.saturating_add(waited).unwrap_or(Timestamp::MAX);
        match member.reconcile_hub(force_delete_wait, now) {
            // The Works and the namespace go as soon as nothing holds them.
            _ if matches!(member.namespace, MemberNamespace::Terminating(_)) => member.remove_namespace(),
            // The report of the agent is an event.
            _ if reachable => member.run_agent(None, now),
            LeaveRequeue::After(wait) => waited = waited.saturating_add(wait),
            LeaveRequeue::Event | LeaveRequeue::Error(_) => break,
        }
    }
    waited
}

/// When the hub reconciles again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LeaveRequeue {
    /// On an event.
    Event,
    /// After this time.
    After(SignedDuration),
    /// After an error, with back-off.
    Error(String),
}

impl LeavingMember {
    /// Returns a healthy member that joined and was deleted at that time. `reporting` tells whether its agent
    /// ever reported.
    pub(crate) fn new(name: &str, works: usize, reporting: bool, deleted: Timestamp) -> Self {
        let mut agent = AgentStatus::member_agent();
        agent.report_health(None, deleted);
        agent.mark_joined(deleted);
        agent.last_received_heartbeat = Some(deleted);
        let reported = reporting.then_some(agent);
        let mut conditions = Vec::new();
        membership::mark_ready_to_join(&mut conditions, deleted);
        membership::aggregate_joined(&mut conditions, reported.as_ref(), deleted);
        Self {
            name: name.to_owned(),
            deleted,
            conditions,
            agent_status: reported.clone(),
            gone: false,
            namespace: MemberNamespace::Present,
            reported,
            requested: false,
            works,
            held_works: works,
        }
    }

    /// Lets the agent leave, or fail to leave because of `failure`.
    pub(crate) fn run_agent(&mut self, failure: Option<&str>, now: Timestamp) {
        let here = self.namespace != MemberNamespace::Gone;
        if !(self.requested && here) {
            return;
        }
        let agent = self.reported.get_or_insert_with(AgentStatus::member_agent);
        let condition = if let Some(why) = failure {
            Condition::new("Joined", "Unknown", "InternalMemberClusterFailedToLeave", why)
        } else {
            self.held_works = 0;
            Condition::new("Joined", "False", "InternalMemberClusterLeft", "")
        };
        agent.set_condition(condition, now);
    }

    /// Removes the namespace with everything in it.
    pub(crate) fn remove_namespace(&mut self) {
        self.namespace = MemberNamespace::Gone;
        self.reported = None;
        self.works = 0;
        self.held_works = 0;
    }

    /// Reconciles the hub once.
    pub(crate) fn reconcile_hub(
        &mut self,
        force_delete_wait: SignedDuration,
        now: Timestamp,
    ) -> LeaveRequeue {
        match self.namespace {
            MemberNamespace::Gone => {
                self.gone = true;
                return LeaveRequeue::Event;
            }
            MemberNamespace::Terminating(since) if now.duration_since(since) > NAMESPACE_DELETION_TIMEOUT => {
                return LeaveRequeue::Error(format!(
                    "unexpected behavior which cannot be handled by the controller: failed to delete the member \
                     cluster namespace fleet-member-{}, it has been deleting since {since}",
                    self.name
                ));
            }
            MemberNamespace::Terminating(_) => return LeaveRequeue::After(SignedDuration::from_secs(1)),
            MemberNamespace::Present => {}
        }
        let left =
            self.reported.as_ref().and_then(|agent| condition::find_condition(&agent.conditions, "Joined"));
        if left.is_some_and(Condition::is_false) {
            self.garbage_collect(now);
            self.copy_status(now);
            return LeaveRequeue::After(SignedDuration::ZERO);
        }
        if self.requested && now.duration_since(self.deleted) >= force_delete_wait {
            self.garbage_collect(now);
            return LeaveRequeue::After(SignedDuration::ZERO);
        }
        self.requested = true;
        self.copy_status(now);
        LeaveRequeue::After(force_delete_wait)
    }

    fn copy_status(&mut self, now: Timestamp) {
        self.agent_status.clone_from(&self.reported);
        membership::aggregate_joined(&mut self.conditions, self.reported.as_ref(), now);
    }

    /// Removes the Works and the namespace.
    fn garbage_collect(&mut self, now: Timestamp) {
        self.held_works = 0;
        self.namespace = MemberNamespace::Terminating(now);
    }
}
