//! From templates to placements: merges the decisions of all dialects.

use std::collections::{BTreeMap, BTreeSet};

use rayon::prelude::*;

use super::alike::Groups;
use super::check::{Defined, Unplaced as Unselected};
use super::work_limit::{Limited, TOO_MUCH_WORK, WorkLimit, decision_cost};
use super::{Decisions, Engine, conflict};
use federate_dialect::{ControlPlane, Decided, Explanation, Placement, Plan, Reads, Subject};
use federate_kubernetes::{Finding, Object, ObjectRef, Severity};
use federate_repo::Role;
use federate_repo::config::Unplaced;

/// The comparisons of templates that no policy places with selectors, to find out which policy nearly selects them.
const MAX_COMPARISONS: usize = 2_000_000;

/// A plan, with the findings of planning.
#[derive(Clone, Debug)]
pub struct Planned {
    /// The plan, without objects that the policies of two dialects place.
    pub plan: Plan,
    /// Errors and warnings about policies and placements, without those from reading the repo.
    pub findings: Vec<Finding>,
}

/// A template that no policy places.
struct NotPlaced<'e> {
    object: &'e Object,
    /// Why.
    finding: Finding,
    /// Whether a policy is responsible for it, or what looks like one is misspelt.
    claimed: bool,
    /// Whether a policy nearly selects it.
    near: bool,
}

impl Engine<'_> {
    /// Places every template.
    pub fn plan(&self) -> Planned {
        self.plan_with(None)
    }

    /// Places every template. Reuses the decisions in `kept`, which must still be valid, and adds new ones to it.
    pub fn plan_again(&self, kept: &mut Decisions) -> Planned {
        self.plan_with(Some(kept))
    }

    fn plan_with(&self, mut kept: Option<&mut Decisions>) -> Planned {
        let Planned { plan, mut findings } =
            self.merged(|dialect, plane| self.decisions(dialect, plane, kept.as_deref_mut()));
        // Of a run that was stopped it is not known what no policy places.
        let stopped = findings.iter().any(|finding| finding.code == TOO_MUCH_WORK);
        if self.repo.config.unplaced != Unplaced::Everywhere && !stopped {
            let why = self.why_unmatched(&plan, &findings);
            findings.extend(why.into_iter().map(|unplaced| unplaced.finding));
        }
        findings.extend(self.unknown_own_kinds());
        Planned { plan, findings }
    }

    /// Places every template, and says nothing about it.
    pub fn placements(&self) -> Plan {
        self.merged(|dialect, plane| self.decisions(dialect, plane, None)).plan
    }

    /// Merges the decisions of all control planes. There are no findings about templates that no policy
    /// places, unless these go everywhere.
    pub(crate) fn merged(
        &self,
        mut decisions: impl FnMut(&'static str, &dyn ControlPlane) -> Decided,
    ) -> Planned {
        let mut placements: Vec<Placement> = Vec::new();
        let mut findings: Vec<Finding> = Vec::new();
        let (mut shared, mut versions) = (BTreeMap::new(), BTreeMap::new());
        findings.extend(super::unknown_settings(self.dialects, self.repo));
        for (dialect, plane) in self.planes.iter() {
            findings.extend(plane.check());
            findings.extend(self.other_release(dialect, plane.as_ref()));
            let decided = decisions(dialect, plane.as_ref());
            let stopped = decided.findings.iter().any(|finding| finding.code == TOO_MUCH_WORK);
            // What follows from decisions is not known of a run that was stopped.
            let mut all = if stopped { decided } else { plane.complete(decided, self.previous) };
            all.placements.par_iter_mut().for_each(|row| self.share(row));
            if let Some(release) = plane.release().filter(|_| !all.placements.is_empty()) {
                versions.insert((*dialect).to_owned(), release.to_string());
            }
            placements.extend(all.placements);
            findings.extend(all.findings);
            shared.extend(all.shared);
        }
        // The sort is stable: rows of one object stay in the order of the dialects.
        placements.par_sort_by(|a, b| a.object.cmp(&b.object));
        placements.par_iter_mut().for_each(|row| self.leave_out_clusters(row));
        let (mut placements, clashes) = conflict::two_claims(self.repo, placements);
        findings.extend(clashes);
        let mut unmatched = self.unmatched(&placements, &findings);
        let kept = self.kept_rows(&unmatched, &findings);
        if !kept.is_empty() {
            unmatched.retain(|id| kept.binary_search_by(|row| row.object.cmp(id)).is_err());
            placements.retain(|row| kept.binary_search_by(|one| one.object.cmp(&row.object)).is_err());
            placements.extend(kept);
            placements.sort_by(|a, b| a.object.cmp(&b.object));
        }
        let plan = Plan { versions, placements, unmatched, shared, ..Plan::default() };
        let mut planned = Planned { plan, findings };
        if self.repo.config.unplaced == Unplaced::Everywhere {
            self.place_everywhere(&mut planned);
        }
        planned
    }

    /// Places the templates everywhere that no policy places, and adds the findings about the others.
    fn place_everywhere(&self, planned: &mut Planned) {
        let Planned { plan, findings } = planned;
        let why = self.why_unmatched(plan, findings);
        let (rows, placed) = self.everywhere(&why);
        let is_placed = |id: &ObjectRef| rows.binary_search_by(|row| row.object.cmp(id)).is_ok();
        plan.unmatched.retain(|id| !is_placed(id));
        plan.placements.retain(|row| !is_placed(&row.object));
        plan.placements.extend(rows);
        plan.placements.sort_by(|a, b| a.object.cmp(&b.object));
        findings.extend(placed);
    }

    /// Warns that the previous plan was made with the rules of another release.
    fn other_release(&self, dialect: &str, plane: &dyn ControlPlane) -> Option<Finding> {
        let before = self.previous.version(dialect)?;
        let now = plane.release().map(|release| release.to_string()).filter(|now| now != before)?;
        let rules = plane.differences(before);
        let differ = match rules.as_slice() {
            [] => "no known rule differs between the two releases".to_owned(),
            rules => format!("rescheduling then follows different rules: {}", rules.join(", ")),
        };
        let message = format!(
            "the earlier placements were decided by {dialect} {before}, and this run uses the rules of {now}: \
             placements stay until an object is rescheduled; {differ}"
        );
        let mut finding = Finding::of_run(Severity::Warning, "other-release", message);
        finding.help = Some(format!(
            "if the control plane runs {before}, write `dialects: {{{dialect}: {{version: \"{before}\"}}}}` into \
             federate.yaml; if it is upgraded, `federate diff --from-version {dialect}={before} --to-version \
             {dialect}={now}` shows what that moves"
        ));
        Some(finding)
    }

    /// The decisions of one control plane about all its subjects together.
    fn decisions(
        &self,
        dialect: &'static str,
        plane: &dyn ControlPlane,
        kept: Option<&mut Decisions>,
    ) -> Decided {
        let subjects = plane.subjects();
        let known = |subject: &Subject| kept.as_deref()?.get(dialect, &subject.object);
        let groups = Groups::new(self, plane, &subjects, |subject| known(subject).is_none());
        let decide = |(at, subject): (usize, &Subject)| {
            if let Some(decided) = known(subject) {
                return (decided.clone(), false);
            }
            let group = groups.get(at).map(|decision| decision.of(&subject.object));
            (group.unwrap_or_else(|| self.decided(plane, subject)), subject.reads == Reads::Subject)
        };
        let limit = WorkLimit::of(self.repo);
        if let Some(object) = &groups.stopped_at {
            let stopped = limit.exceeded("deciding where objects go", object);
            return Decided { findings: vec![stopped], ..Decided::default() };
        }
        let cost = |(decided, _): &(Decided, bool)| decision_cost(decided);
        let Limited { results: decided, stopped_at } =
            limit.run(&subjects, |at, subject| decide((at, subject)), cost);
        let mut all = Decided::default();
        let stopped = stopped_at.and_then(|at| subjects.get(at));
        all.findings
            .extend(stopped.map(|subject| limit.exceeded("deciding where objects go", &subject.object)));
        all.placements.reserve(decided.iter().map(|(decided, _)| decided.placements.len()).sum());
        let mut kept = kept;
        for (subject, (decided, keep)) in subjects.into_iter().zip(decided) {
            if let Some(kept) = kept.as_mut().filter(|_| keep) {
                kept.keep(dialect, subject.object, decided.clone());
            }
            all.extend(decided);
        }
        all
    }

    /// Decides about one subject. Rows with equal cluster lists share them.
    pub(crate) fn decided(&self, plane: &dyn ControlPlane, subject: &Subject) -> Decided {
        let mut decided = plane.decide(&subject.object, self.previous);
        decided.placements.iter_mut().for_each(|row| self.share(row));
        decided
    }

    /// Leaves out the clusters for which a chart or a kustomization does not build the object.
    fn leave_out_clusters(&self, row: &mut Placement) {
        let template = self.repo.template(&row.object);
        let Some(bodies) = template.and_then(|template| template.per_cluster.as_ref()) else { return };
        let is_built =
            |name: &str| bodies.contains_key(name) || self.clusters.iter().all(|one| *one.name != *name);
        if !row.clusters.iter().all(|placed| is_built(&placed.name)) {
            row.clusters = row.clusters.iter().filter(|placed| is_built(&placed.name)).cloned().collect();
            self.share(row);
        }
    }

    fn share(&self, row: &mut Placement) {
        row.clusters = self.lists.share_placed(&row.clusters);
    }

    /// Returns the templates that no policy places. Templates with an error are not among them.
    fn unmatched(&self, placements: &[Placement], findings: &[Finding]) -> Vec<ObjectRef> {
        let in_error: BTreeSet<&ObjectRef> = findings.iter().filter_map(|f| f.object.as_ref()).collect();
        let mut placed = placements.iter().filter(|p| !p.is_unmatched()).map(|p| &p.object).peekable();
        // Rows and templates are sorted by object.
        let is_placed = |id: &ObjectRef| {
            while placed.next_if(|placed| *placed < id).is_some() {}
            placed.peek() == Some(&id)
        };
        let ids = self.repo.templates.iter().map(|t| &t.object.id);
        let not_placed = ids.scan(is_placed, |is_placed, id| Some((!is_placed(id)).then_some(id)));
        not_placed.flatten().filter(|id| !in_error.contains(id)).cloned().collect()
    }

    /// Says of each template that no policy places, why. The result is in the order of `unmatched`.
    fn why_unmatched<'s>(&'s self, plan: &Plan, findings: &[Finding]) -> Vec<NotPlaced<'s>> {
        let unmatched = plan.unmatched.as_slice();
        if unmatched.is_empty() {
            return Vec::new();
        }
        let planes = self.planes.iter();
        let unfollowed =
            planes.flat_map(|(_, plane)| plane.unfollowed(unmatched, &plan.placements)).collect();
        let everywhere = self.repo.config.unplaced == Unplaced::Everywhere;
        // Where it decides nothing, what is near is searched among as many selectors as can be compared with all of them.
        let max_selectors =
            if everywhere { usize::MAX } else { (MAX_COMPARISONS / unmatched.len()).max(100) };
        let unplaced = Unselected::new(self, findings, unfollowed, max_selectors);
        let defined = Defined::new(self.repo);
        let templates = unmatched.par_iter().filter_map(|id| self.repo.template(id));
        let why = |object| {
            if let Some(finding) = self.misspelt(&defined, object) {
                return NotPlaced { object, finding, claimed: true, near: false };
            }
            let reason = unplaced.reason(object);
            let finding = reason.finding(object, everywhere && reason.near);
            NotPlaced { object, finding, claimed: reason.claimed, near: reason.near }
        };
        templates.map(|template| why(&template.object)).collect()
    }

    /// Places the templates everywhere for which no policy is responsible. Returns the rows, sorted by object, and the
    /// findings about all templates.
    fn everywhere(&self, unplaced: &[NotPlaced<'_>]) -> (Vec<Placement>, Vec<Finding>) {
        let (mut rows, mut findings) = (Vec::new(), Vec::new());
        for one in unplaced {
            let planes = self.planes.iter().filter(|_| !one.claimed);
            let decided = planes.map(|(_, plane)| plane.everywhere(one.object));
            let decided = decided.into_iter().find(|decided| !decided.placements.is_empty());
            if decided.is_none() || one.near {
                findings.push(one.finding.clone());
            }
            let mut decided = decided.unwrap_or_default();
            decided.placements.iter_mut().for_each(|row| self.share(row));
            rows.extend(decided.placements);
            findings.extend(decided.findings);
        }
        (rows, findings)
    }

    /// Explains the placement of an object: by the dialect that placed it, or by the first dialect that can say
    /// why the object is not placed.
    pub fn explain(&self, object: &ObjectRef, plan: &Plan) -> Option<Explanation> {
        match plan.placements.iter().find(|p| p.object == *object) {
            Some(placed) => self.plane(&placed.dialect)?.explain(object, self.previous, Some(placed)),
            None => self.planes.iter().find_map(|(_, plane)| plane.explain(object, self.previous, None)),
        }
    }

    /// Reports placement policies that place no object.
    pub fn unused_policies(&self, plan: &Plan) -> Vec<Finding> {
        let used: BTreeSet<&ObjectRef> = plan.placements.iter().filter_map(|p| p.policy.as_ref()).collect();
        let policies = self.repo.claimed.iter().filter(|c| c.role == Role::Placement);
        policies
            .filter(|c| !used.contains(&c.object.id))
            .map(|c| {
                let message = format!("{} places no object of the repo", c.object.id);
                Finding::warning("unused-policy", &c.object, message).help(
                    "its selectors match no template, or other policies take precedence for all of them",
                )
            })
            .collect()
    }
}
