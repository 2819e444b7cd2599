//! `-o html`: results as a page, in a file or from `federate serve`.

use std::collections::BTreeMap;

use super::CommandError;
use federate_dialect::{Placement, Plan};
use federate_engine::change::{DigestKey, RenderingChanges};
use federate_kubernetes::{ClusterName, ObjectRef};
use federate_migrate::{MigrationPage, MigrationReport};
use federate_reconcile::Actions;
use federate_report::clusters::ClusterRow;
use federate_report::diff::Diff;
use federate_report::findings::{FindingRow, QuotedFinding};
use federate_report::page::{self, CheckPage, DriftPage, PageContent, PageDocument, PageHost, PageSide};
use federate_report::whatif::{ScenarioEffect, WhatIf, WhatIfEach};
use federate_session::{RenderedState, RevisionComparison, ScenarioOutcome, Session, UnitOutcome};

/// The page of a comparison; `plans` are those of both sides, with what is shown.
pub(super) fn format_diff_page(
    report: &Diff<'_>,
    comparison: &RevisionComparison<'_>,
    plans: &[Plan; 2],
    host: PageHost,
) -> Result<String, CommandError> {
    let unmet = [comparison.from, comparison.to].map(Session::unmet_replicas);
    let [before, after] = plans;
    let before = PageSide { plan: before, wanted: &unmet[0] };
    let after = PageSide { plan: after, wanted: &unmet[1] };
    let mut page = PageDocument::from_diff(report, before, after);
    explain_objects(&mut page, comparison.to);
    format_page(&page, host)
}

/// The effect of a scenario as a document. `words` are its events.
pub(super) fn describe_effect<'o>(words: &'o [String], outcome: &'o ScenarioOutcome) -> WhatIf<'o> {
    WhatIf::new(
        words,
        ScenarioEffect {
            timeline: &outcome.stages,
            capacity: &outcome.tightest,
            changes: &outcome.changes,
            losses: &outcome.losses,
            unmoved: outcome.unmoved.as_ref(),
        },
    )
}

/// What all scenarios of a session start from.
pub(super) struct ScenarioStart {
    /// The plan with replicas.
    plan: Plan,
    inventory: Vec<ClusterRow>,
}

impl ScenarioStart {
    pub(super) fn from_session(session: &Session) -> Self {
        Self { plan: session.plan_with_replicas(), inventory: session.cluster_rows() }
    }
}

/// The page of a scenario: what its placements become. `words` are its events.
pub(super) fn format_scenario_page(
    before: &ScenarioStart,
    outcome: &ScenarioOutcome,
    words: &[String],
    host: PageHost,
) -> Result<String, CommandError> {
    let mut after = before.plan.clone();
    for change in &outcome.changes.placements {
        let known = after.placements.binary_search_by(|row| row.object.cmp(&change.object));
        let at = known.unwrap_or_else(|at| {
            after.placements.insert(at, Placement::new(&change.dialect, change.object.clone(), None));
            at
        });
        if let Some(row) = after.placements.get_mut(at) {
            row.clusters = change.apply_to(&row.clusters);
            row.policy.clone_from(&change.policy.to);
            row.unschedulable.clone_from(&change.unschedulable.to);
        }
    }
    let name = words.join(", ");
    let effect = describe_effect(words, outcome);
    let mut report = Diff::new("now", &name, &outcome.changes);
    report.inventory.clone_from(&before.inventory);
    report.verdict.sentence = effect.format_headline(&report.verdict.sentence);
    let none = BTreeMap::new();
    let sides = [&before.plan, &after].map(|plan| PageSide { plan, wanted: &none });
    format_page(&PageDocument::from_scenario(&report, sides, &effect, &outcome.lost), host)
}

/// The page of a plan, with what is shown of it.
pub(super) fn format_plan_page(
    name: &str,
    session: &Session,
    plan: &Plan,
    findings: &[FindingRow],
    host: PageHost,
) -> Result<String, CommandError> {
    let unmet = session.unmet_replicas();
    let changes = compare_with_itself(session);
    let comparison = RevisionComparison { from: session, to: session };
    let side = PageSide { plan, wanted: &unmet };
    let mut page = PageDocument::from_plan(name, &session.cluster_rows(), &changes, side, findings);
    page.capacity = comparison.compute_capacity();
    // A served page asks for the explanation of an object when it is opened.
    if host == PageHost::File {
        explain_objects(&mut page, session);
    }
    format_page(&page, host)
}

/// The page of the losses of all units.
pub(super) fn format_losses_page(
    session: &Session,
    report: &WhatIfEach<'_>,
    outcomes: &[UnitOutcome],
) -> Result<String, CommandError> {
    let (plan, unmet) = (session.plan_with_replicas(), session.unmet_replicas());
    let none = compare_with_itself(session);
    let changes = outcomes.iter().map(|unit| &unit.outcome.changes);
    let now = PageSide { plan: &plan, wanted: &unmet };
    let page = PageDocument::from_losses(report, &session.cluster_rows(), &none, now, changes);
    format_page(&page, PageHost::File)
}

/// The changes between a state and itself: none, with the totals of the plan on both sides.
fn compare_with_itself(session: &Session) -> RenderingChanges {
    let state = RenderedState::from_session(session, None);
    state.compare_with(&state, &DigestKey::from_random(&[0; 32]))
}

/// The page of drift.
pub(super) fn format_drift_page(
    name: &str,
    drifted: &Actions,
    regions: &BTreeMap<ClusterName, String>,
    host: PageHost,
) -> Result<String, CommandError> {
    format_page(&DriftPage::new(name, drifted, regions), host)
}

/// The page of findings. `summary` is the sentence for all of them.
pub(super) fn format_check_page(
    name: &str,
    summary: &str,
    findings: &[QuotedFinding],
    host: PageHost,
) -> Result<String, CommandError> {
    format_page(&CheckPage::new(name, summary, findings), host)
}

/// The page of a migration.
pub(super) fn format_migration_page(
    name: &str,
    report: &MigrationReport,
    runbook: &str,
) -> Result<String, CommandError> {
    format_page(&MigrationPage::new(name, report, runbook), PageHost::File)
}

fn format_page(page: &impl PageContent, host: PageHost) -> Result<String, CommandError> {
    page::format_page(page, host)
        .map_err(|error| CommandError::Failed(format!("cannot write the page: {error}")))
}

fn explain_objects(page: &mut PageDocument<'_>, session: &Session) {
    let objects: Vec<ObjectRef> = page.objects_to_explain().into_iter().cloned().collect();
    for (object, explained) in objects.iter().zip(session.explain_decisions(&objects)) {
        if let Some(explained) = explained {
            page.add_explanation(object, &explained);
        }
    }
}
