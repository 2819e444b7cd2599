//! Whether the clusters are as the steps of a switch expect, by a snapshot.
//!
//! At every step, the objects must be where both sides have them, with as many replicas, and taking over must change no
//! pod template. A step is done if what it leads to is seen: recorded clusters, registered clusters, placements of the
//! new control plane, its marks on objects, no marks of the old one.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use anstyle::AnsiColor;
use schemars::JsonSchema;
use serde::Serialize;

use federate_dialect::plan::API_VERSION;
use federate_dialect::{Dialect, Placed, Placement, Plan};
use federate_engine::change::DigestKey;
use federate_engine::replicas::read_replicas;
use federate_engine::snapshot::StoredSnapshot;
use federate_kubernetes::display_text::escape_text;
use federate_kubernetes::{ClusterName, ConnectionError, LiveObjects, Object, ObjectRef};
use federate_reconcile::ownership::PART_OF_LABEL;
use federate_reconcile::{AdoptionMode, ApplySet};
use federate_report::table::TextStyle;
use federate_session::{Purpose, ReconcileOptions, Reconciler, Session};

use super::SwitchStep;
use super::facts::{describe_new_plane, describe_old_plane};
use crate::{ProofSides, Target};

/// The most names of objects that a finding has.
const MAX_NAMES: usize = 5;

/// Whether the clusters are as the steps of a switch expect, for scripts.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorldCheck {
    /// `federate.dev/v1alpha1`.
    pub api_version: &'static str,
    /// `MigrationCheck`.
    pub kind: &'static str,
    /// Whether the next step can begin: all that holds at every step does.
    pub ready: bool,
    /// The next step; absent after the last one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<&'static str>,
    /// What must hold at every step.
    pub always: Vec<StepExpectation>,
    /// The steps, in order.
    pub steps: Vec<StepCheck>,
}

/// What is known about a step.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StepCheck {
    /// The name of the step.
    pub step: &'static str,
    /// Its state.
    pub state: StepState,
    /// What holds after it.
    pub expectations: Vec<StepExpectation>,
}

/// The state of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum StepState {
    /// Its result is seen.
    Done,
    /// It is the next one.
    Next,
    /// It comes later.
    Later,
}

/// What is expected, and what was found.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StepExpectation {
    /// What is expected.
    pub expected: String,
    /// What was found.
    pub found: String,
    /// Whether it holds; absent if the snapshot does not tell.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub holds: Option<bool>,
}

/// What a snapshot is compared with.
struct ExpectedWorld<'w> {
    sides: ProofSides<'w>,
    target: Target,
    stored: &'w StoredSnapshot,
    /// The names of the old control planes.
    from: &'w BTreeSet<&'static str>,
    /// Every object and cluster that the new side places.
    placed: Vec<PlacedObject<'w>>,
}

/// An object that the new side places on a cluster.
struct PlacedObject<'w> {
    object: &'w ObjectRef,
    cluster: &'w ClusterName,
    replicas: Option<i64>,
    /// What the old side places there.
    old: Option<&'w Placed>,
    live: Option<&'w Object>,
}

/// Compares a snapshot with what the steps of the switch expect. `checked` is the new side with the objects of the snapshot
/// as those that run.
pub fn check_world(
    sides: ProofSides<'_>,
    target: Target,
    from: &BTreeSet<&'static str>,
    stored: &StoredSnapshot,
    checked: &Session,
) -> WorldCheck {
    let [before, after] = [sides.old, sides.new].map(Session::plan_with_replicas);
    let placed = list_placed(&before, &after, &stored.observed);
    let world = ExpectedWorld { sides, target, stored, from, placed };
    let always = vec![world.expect_presence(), world.expect_replicas(), expect_pods(checked)];
    let ready = always.iter().all(|expectation| expectation.holds == Some(true));
    let mut steps = Vec::new();
    for step in world.list_steps() {
        let expectations = world.expect_step(step);
        steps.push(StepCheck { step: step.name(), state: StepState::Later, expectations });
    }
    let done = count_done(&steps);
    for (at, step) in steps.iter_mut().enumerate() {
        step.state = match at.cmp(&done) {
            std::cmp::Ordering::Less => StepState::Done,
            std::cmp::Ordering::Equal => StepState::Next,
            std::cmp::Ordering::Greater => StepState::Later,
        };
    }
    let next = steps.get(done).map(|step| step.step);
    WorldCheck { api_version: API_VERSION, kind: "MigrationCheck", ready, next, always, steps }
}

/// Whether the result of a step is seen.
fn is_seen(step: &StepCheck) -> bool {
    step.expectations.iter().all(|one| one.holds == Some(true))
}

/// The number of steps that are done. What a snapshot does not show was done if a later step is.
fn count_done(steps: &[StepCheck]) -> usize {
    let takes_over = steps.iter().position(|step| step.step == SwitchStep::TakeOver.name());
    if let Some(at) = takes_over.filter(|at| steps.get(*at).is_some_and(is_seen)) {
        return at + 1 + steps.iter().skip(at + 1).take_while(|step| is_seen(step)).count();
    }
    let before = steps.get(..takes_over.unwrap_or(0)).unwrap_or_default();
    before.iter().rposition(is_seen).map_or(0, |at| at + 1)
}

/// The identity of an object in a member, whatever its version.
type MemberIdentity<'o> = (&'o str, &'o str, Option<&'o str>, &'o str);

fn identify_object(object: &ObjectRef) -> MemberIdentity<'_> {
    (object.group(), &object.kind, object.namespace.as_deref(), &object.name)
}

/// Whether a row is that of a policy, which members do not receive.
fn is_policy(row: &Placement) -> bool {
    row.policy.as_ref() == Some(&row.object)
}

/// Every object and cluster of the new plan, with what the old plan places there and the live object.
fn list_placed<'w>(before: &'w Plan, after: &'w Plan, live: &'w LiveObjects) -> Vec<PlacedObject<'w>> {
    let rows = before.placements.iter();
    let before: BTreeMap<MemberIdentity<'_>, &Placement> =
        rows.map(|row| (identify_object(&row.object), row)).collect();
    let mut all = Vec::new();
    for Placement { object, clusters, .. } in after.placements.iter().filter(|row| !is_policy(row)) {
        let identity = identify_object(object);
        let old = before.get(&identity);
        for placed in clusters.iter().filter(|placed| live.knows_cluster(&placed.name)) {
            let (cluster, replicas) = (&placed.name, placed.replicas);
            let old = old.and_then(|row| row.clusters.find_cluster(cluster));
            let (group, kind, namespace, name) = identity;
            let live = live.get(cluster, group, kind, namespace, name);
            all.push(PlacedObject { object, cluster, replicas, old, live });
        }
    }
    all
}

/// Whether an object has the mark that a control plane gives the objects that it manages.
fn is_marked(dialect: &dyn Dialect, live: &Object) -> bool {
    let mut marked = live.clone();
    dialect.members().mark_as_managed(&mut marked);
    marked.body == live.body
}

/// Whether an inventory object comes from the control plane, and not from the repo: it says how its cluster is reached or,
/// where it never does, when it was created.
fn is_registered(dialect: &dyn Dialect, cluster: &Object) -> bool {
    match dialect.hub().read_connection(cluster) {
        Err(ConnectionError::MissingField { .. }) => false,
        Err(ConnectionError::NoDetails(_)) => cluster.value_at(&["metadata", "creationTimestamp"]).is_some(),
        _ => true,
    }
}

/// The first names of some objects in clusters.
fn name_first(objects: &[&PlacedObject<'_>]) -> String {
    let names: Vec<String> = objects
        .iter()
        .take(MAX_NAMES)
        .map(|placed| format!("{} on {}", placed.object, placed.cluster))
        .collect();
    let more = match objects.len().saturating_sub(MAX_NAMES) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!("{}{more}", names.join(", "))
}

/// Whether taking over replaces pods.
fn expect_pods(checked: &Session) -> StepExpectation {
    let inventory = ApplySet { namespace: "default".to_owned(), name: "federate".to_owned() };
    let key = DigestKey::from_random(&[0]);
    let purpose = Purpose::Apply { adopt: Some(AdoptionMode::Always), force: true, replace: false };
    let options = ReconcileOptions::new(purpose, &inventory, &key);
    let actions = Reconciler::new(checked, &options).decide_observed().actions;
    let restarted: Vec<String> = actions
        .iter()
        .filter(|action| action.restarts_pods)
        .take(MAX_NAMES)
        .map(|action| format!("{} on {}", action.object, action.cluster))
        .collect();
    let found = if restarted.is_empty() {
        "none".to_owned()
    } else {
        format!("another pod template: {}", restarted.join(", "))
    };
    let expected = "the new side restarts no pod".to_owned();
    StepExpectation { expected, found, holds: Some(restarted.is_empty()) }
}

impl ExpectedWorld<'_> {
    fn list_steps(&self) -> Vec<SwitchStep> {
        let has_new = describe_new_plane(self.target).is_some();
        let has_old = self.from.iter().any(|dialect| describe_old_plane(dialect).is_some());
        let mut steps = SwitchStep::ALL.to_vec();
        steps.retain(|step| match step {
            SwitchStep::Register | SwitchStep::Load => has_new,
            SwitchStep::Stop | SwitchStep::Clean => has_old,
            SwitchStep::Record | SwitchStep::TakeOver => true,
        });
        steps
    }

    fn expect_presence(&self) -> StepExpectation {
        let shared: Vec<&PlacedObject<'_>> =
            self.placed.iter().filter(|placed| placed.old.is_some()).collect();
        let missing: Vec<&PlacedObject<'_>> =
            shared.iter().copied().filter(|placed| placed.live.is_none()).collect();
        let (all, there) = (shared.len(), shared.len() - missing.len());
        let found = match missing.as_slice() {
            [] => format!("{there} of {all}"),
            missing => format!("{there} of {all}; missing: {}", name_first(missing)),
        };
        StepExpectation {
            expected: "every object is in the clusters where both sides place it".to_owned(),
            found,
            holds: Some(missing.is_empty() && all > 0),
        }
    }

    fn expect_replicas(&self) -> StepExpectation {
        let counted = self.placed.iter().filter(|placed| placed.replicas.is_some());
        let other: Vec<&PlacedObject<'_>> = counted
            .filter(|placed| {
                let live = placed.live.and_then(|live| read_replicas(&live.id, &live.body));
                let old = placed.old.and_then(|old| old.replicas);
                live.is_some() && live != placed.replicas && live != old
            })
            .collect();
        let found = match other.as_slice() {
            [] => "the same".to_owned(),
            other => format!("other replicas: {}", name_first(other)),
        };
        StepExpectation {
            expected: "every cluster has the replicas that one of the sides gives it".to_owned(),
            found,
            holds: Some(other.is_empty()),
        }
    }

    /// What holds after a step.
    fn expect_step(&self, step: SwitchStep) -> Vec<StepExpectation> {
        match step {
            SwitchStep::Record => vec![self.expect_records()],
            SwitchStep::Register => vec![self.expect_clusters()],
            SwitchStep::Load => vec![self.expect_placements()],
            SwitchStep::Stop => vec![StepExpectation {
                expected: "the old controllers have 0 replicas".to_owned(),
                found: "a snapshot does not show it".to_owned(),
                holds: None,
            }],
            SwitchStep::TakeOver => vec![self.expect_new_marks()],
            SwitchStep::Clean => vec![self.expect_no_old_marks()],
        }
    }

    fn expect_records(&self) -> StepExpectation {
        let known: BTreeSet<&str> = self.stored.observed.clusters().map(AsRef::as_ref).collect();
        let names = self.sides.new.clusters().iter().map(|cluster| cluster.name.as_ref());
        let unknown: Vec<&str> = names.filter(|name| !known.contains(name)).collect();
        let found = if unknown.is_empty() {
            "all of them".to_owned()
        } else {
            format!("not {}", federate_kubernetes::finding::join_names(&unknown, MAX_NAMES))
        };
        let expected = "the snapshot has the objects of every cluster".to_owned();
        StepExpectation { expected, found, holds: Some(unknown.is_empty()) }
    }

    fn expect_clusters(&self) -> StepExpectation {
        let target = self.target.name();
        let dialect = self.sides.new.dialects().get(target);
        let registered = self.stored.clusters.iter().filter(|claimed| {
            claimed.dialect == target && dialect.is_none_or(|dialect| is_registered(dialect, &claimed.object))
        });
        let registered: BTreeSet<&str> = registered.map(|claimed| claimed.object.id.name.as_str()).collect();
        let names = self.sides.new.clusters().iter().map(|cluster| cluster.name.as_ref());
        let missing: Vec<&str> = names.filter(|name| !registered.contains(name)).collect();
        let found = if missing.is_empty() {
            "all of them".to_owned()
        } else {
            format!("not {}", federate_kubernetes::finding::join_names(&missing, MAX_NAMES))
        };
        let expected = format!("every cluster has joined {}", self.target.title());
        StepExpectation { expected, found, holds: Some(missing.is_empty()) }
    }

    /// Whether the new control plane has placed the objects as it is rendered.
    fn expect_placements(&self) -> StepExpectation {
        let target = self.target.name();
        let recorded = self.stored.plan.placements.iter().filter(|row| row.dialect == target);
        let recorded: BTreeMap<&ObjectRef, &Placement> = recorded.map(|row| (&row.object, row)).collect();
        let plan = self.sides.new.plan();
        let mut placed: Vec<&Placement> =
            plan.placements.iter().filter(|row| row.dialect == target && row.policy.is_some()).collect();
        // A control plane that places what policies select together records the policies.
        if placed.iter().any(|row| is_policy(row)) {
            placed.retain(|row| is_policy(row));
        }
        let mut other: Vec<String> = Vec::new();
        let mut all = 0;
        for row in placed.into_iter().filter(|row| !row.clusters.is_empty()) {
            all += 1;
            if recorded.get(&row.object).is_none_or(|known| known.clusters != row.clusters) {
                other.push(row.object.to_string());
            }
        }
        let same = all - other.len();
        let found = if other.is_empty() {
            format!("{same} of {all}")
        } else {
            let names: Vec<&str> = other.iter().map(String::as_str).collect();
            let names = federate_kubernetes::finding::join_names(&names, MAX_NAMES);
            format!("{same} of {all}; not, or otherwise: {names}")
        };
        let expected = format!("{} has placed the objects as rendered", self.target.title());
        StepExpectation { expected, found, holds: Some(other.is_empty() && all > 0) }
    }

    fn expect_new_marks(&self) -> StepExpectation {
        let dialect = self.sides.new.dialects().get(self.target.name());
        let live = self.placed.iter().filter_map(|placed| placed.live);
        let taken = live.filter(|live| match dialect {
            Some(dialect) => is_marked(dialect, live),
            None => live.label(PART_OF_LABEL).is_some(),
        });
        let (taken, all) = (taken.count(), self.placed.len());
        let owner = if dialect.is_some() { self.target.title() } else { "federate" };
        StepExpectation {
            expected: format!("every object has the mark of {owner}"),
            found: format!("{taken} of {all}"),
            holds: Some(taken == all && all > 0),
        }
    }

    fn expect_no_old_marks(&self) -> StepExpectation {
        let dialects = self.sides.old.dialects();
        let old: Vec<&dyn Dialect> = self.from.iter().filter_map(|name| dialects.get(name)).collect();
        let live = self.placed.iter().filter_map(|placed| placed.live);
        let marked = live.filter(|live| old.iter().any(|dialect| is_marked(*dialect, live))).count();
        StepExpectation {
            expected: "no object has a mark of the old control plane".to_owned(),
            found: format!("{marked} have one"),
            holds: Some(marked == 0),
        }
    }
}

impl WorldCheck {
    /// The check for a terminal.
    pub fn format_text(&self, style: TextStyle) -> String {
        let (color, summary) = match (self.ready, self.next) {
            (true, Some(next)) => (AnsiColor::Green, format!("The next step is `{next}`, and it can begin.")),
            (true, None) => (AnsiColor::Green, "The switch is done.".to_owned()),
            (false, Some(next)) => (
                AnsiColor::Red,
                format!("Do not begin the step `{next}`: the clusters are not as every step requires."),
            ),
            (false, None) => {
                (AnsiColor::Red, "All steps are done, but the clusters are not as they must be.".to_owned())
            }
        };
        let mut out = format!("{}\n\n", style.paint_text(color, &summary));
        let _ = writeln!(out, "{}", style.paint_bold("At every step"));
        write_expectations(&mut out, &self.always, style);
        for step in &self.steps {
            let state = match step.state {
                StepState::Done => "done",
                StepState::Next => "next",
                StepState::Later => "later",
            };
            let _ = writeln!(out, "\n{}", style.paint_bold(&format!("{}: {state}", step.step)));
            write_expectations(&mut out, &step.expectations, style);
        }
        out
    }

    /// The check as Markdown.
    pub fn format_markdown(&self) -> String {
        let style = TextStyle { width: None, color: false, full: true, quiet: false };
        let text = self.format_text(style).replace("```", "` ` `");
        format!("**Migration check**\n\n```text\n{text}```\n")
    }
}

fn write_expectations(out: &mut String, expectations: &[StepExpectation], style: TextStyle) {
    for StepExpectation { expected, found, holds } in expectations {
        let (sign, color) = match holds {
            Some(true) => ("✓", AnsiColor::Green),
            Some(false) => ("✗", AnsiColor::Red),
            None => ("?", AnsiColor::Yellow),
        };
        let line = escape_text(&format!("{expected}: {found}"));
        let _ = writeln!(out, "  {} {line}", style.paint_text(color, sign));
    }
}
