//! From templates to placements: merges the decisions of all dialects.

use std::collections::{BTreeMap, BTreeSet};

use rayon::prelude::*;

use super::decision_groups::DecisionGroups;
use super::misspelt_kinds::DefinedKinds;
use super::unplaced_templates::PlacementSelectors;
use super::work_limit::{LimitedResults, TOO_MUCH_WORK, TooMuchWork, decision_cost, map_charged};
use super::{DecisionCache, Engine, conflict};
use federate_dialect::release::NamedRelease;
use federate_dialect::{
    DecisionSubject, DialectDecisions, Explanation, Placement, Plan, PolicyPlanner, TemplateReads,
};
use federate_kubernetes::{Finding, Object, ObjectRef, Severity};
use federate_repo::config::UnplacedTemplates;
use federate_repo::{Role, Template};

/// The comparisons of templates that no policy places with selectors, to find out which policy nearly selects them.
const MAX_COMPARISONS: usize = 500_000;

/// A plan, with the findings of planning.
#[derive(Clone, Debug)]
pub struct PlanResult {
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
    /// Whether its source says where it goes, or the configuration that it goes everywhere.
    is_placed_by_settings: bool,
}

/// One finding about all templates that neither a source nor a policy places.
fn summarize_unplaced(mut findings: Vec<Finding>) -> Option<Finding> {
    let others = findings.len().checked_sub(1)?;
    let first = findings.swap_remove(0);
    if others == 0 {
        return Some(first);
    }
    let object = first.object.as_ref().map(ToString::to_string).unwrap_or_default();
    let message = format!(
        "{object} and {others} more are built by no source and placed by no policy, so they are rendered for no cluster"
    );
    let help =
        "list their folders in .federateignore, or name what is to be read with `paths` in federate.yaml";
    Some(Finding { message, help: Some(help.to_owned()), ..first })
}

impl Engine<'_> {
    /// Places every template.
    pub fn compute_plan(&self) -> PlanResult {
        self.compute_plan_with(None)
    }

    /// Places every template. Reuses the decisions in `cache`, which must still be valid, and adds new ones to it.
    pub fn compute_plan_with(&self, mut cache: Option<&mut DecisionCache>) -> PlanResult {
        let PlanResult { plan, mut findings } = self
            .assemble_plan(|dialect, planner| self.decide_subjects(dialect, planner, cache.as_deref_mut()));
        // Of a run that was stopped it is not known what no policy places.
        let stopped = findings.iter().any(|finding| finding.code == TOO_MUCH_WORK);
        if !self.places_everything() && !stopped {
            let why = self.why_unmatched(&plan, &mut findings);
            let unplaced = why.into_iter().map(|unplaced| unplaced.finding);
            if self.has_only_destinations() {
                findings.extend(summarize_unplaced(unplaced.collect()));
            } else {
                findings.extend(unplaced);
            }
        }
        findings.extend(self.unknown_own_kinds());
        PlanResult { plan, findings }
    }

    /// Places every template without reporting on those that no policy places.
    pub fn compute_placements(&self) -> Plan {
        self.assemble_plan(|dialect, planner| self.decide_subjects(dialect, planner, None)).plan
    }

    /// Merges the decisions of all control planes. There are no findings about templates that no policy
    /// places, unless these go everywhere.
    pub fn assemble_plan(
        &self,
        mut decisions: impl FnMut(&'static str, &dyn PolicyPlanner) -> DialectDecisions,
    ) -> PlanResult {
        let mut placements: Vec<Placement> = Vec::new();
        let mut findings: Vec<Finding> = Vec::new();
        let (mut shared, mut versions) = (BTreeMap::new(), BTreeMap::new());
        findings.extend(super::unknown_settings(self.dialects, self.repo));
        findings.extend(self.exceeded.clone().map(TooMuchWork::into_finding));
        for (dialect, planner) in self.planners.iter() {
            findings.extend(planner.check_policies());
            findings.extend(self.other_release(dialect, planner.as_ref()));
            let decided = decisions(dialect, planner.as_ref());
            let stopped = decided.findings.iter().any(|finding| finding.code == TOO_MUCH_WORK);
            // What follows from decisions is not known of a run that was stopped.
            let mut all = if stopped { decided } else { self.add_followers(planner.as_ref(), decided) };
            all.placements.par_iter_mut().for_each(|row| self.share_clusters(row));
            if let Some(release) = planner.advice().release().filter(|_| !all.placements.is_empty()) {
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
        let mut unmatched = self.find_unmatched(&placements, &findings);
        let kept = self.kept_rows(&unmatched, &findings);
        if !kept.is_empty() {
            unmatched.retain(|id| kept.binary_search_by(|row| row.object.cmp(id)).is_err());
            placements.retain(|row| kept.binary_search_by(|one| one.object.cmp(&row.object)).is_err());
            placements.extend(kept);
            placements.sort_by(|a, b| a.object.cmp(&b.object));
        }
        let plan = Plan { versions, placements, unmatched, shared, ..Plan::default() };
        let mut planned = PlanResult { plan, findings };
        if self.places_everything() || self.repo.templates.iter().any(|template| template.has_destination) {
            self.place_by_settings(&mut planned);
        }
        planned
    }

    /// Whether the repo has no policies, and sources that say where what they build goes: the rest is of other programs.
    fn has_only_destinations(&self) -> bool {
        self.repo.templates.iter().any(|template| template.has_destination)
            && !self.repo.claimed.iter().any(|claimed| matches!(claimed.role, Role::Placement | Role::Bundle))
    }

    /// Whether every template is placed that no policy places.
    fn places_everything(&self) -> bool {
        self.repo.config.unplaced == UnplacedTemplates::Everywhere
    }

    /// Adds what depends on other placements to the decisions of a control plane.
    fn add_followers(&self, planner: &dyn PolicyPlanner, decided: DialectDecisions) -> DialectDecisions {
        let what = "deciding what follows other objects";
        let followed = self.limit.run_part(what, || planner.add_followers(decided, self.previous));
        followed.unwrap_or_else(|exceeded| DialectDecisions {
            findings: vec![exceeded.into_finding()],
            ..DialectDecisions::default()
        })
    }

    /// Places the templates that no policy places where their sources say, or everywhere if the configuration wants it, and adds
    /// the findings about the others.
    fn place_by_settings(&self, planned: &mut PlanResult) {
        let PlanResult { plan, findings } = planned;
        let mut why = self.why_unmatched(plan, findings);
        why.retain(|one| one.is_placed_by_settings);
        let (rows, placed) = self.place_unmatched(&why);
        let is_placed = |id: &ObjectRef| rows.binary_search_by(|row| row.object.cmp(id)).is_ok();
        plan.unmatched.retain(|id| !is_placed(id));
        plan.placements.retain(|row| !is_placed(&row.object));
        plan.placements.extend(rows);
        plan.placements.sort_by(|a, b| a.object.cmp(&b.object));
        findings.extend(placed);
    }

    /// Warns that the previous plan was made with the rules of another release.
    fn other_release(&self, dialect: &str, planner: &dyn PolicyPlanner) -> Option<Finding> {
        let before = self.previous.version_of(dialect)?;
        let now = planner.advice().release()?;
        let known = self.dialects.get(dialect)?.kinds().releases()?.parse_named(before).ok();
        if known.as_ref().is_some_and(|named| named.release == now) {
            return None;
        }
        let rules = known.as_ref().map(|named| planner.advice().rule_differences(named.release));
        let differ = match rules.as_deref() {
            None => "which rules differ is not known".to_owned(),
            Some([]) => "no known rule differs between the two releases".to_owned(),
            Some(rules) => format!("rescheduling then follows different rules: {}", rules.join(", ")),
        };
        let message = format!(
            "the earlier placements were decided by {dialect} {before}, and this run uses the rules of {now}: \
             placements stay until an object is rescheduled; {differ}"
        );
        let finding = Finding::about_run(Severity::Warning, "other-release", message);
        let Some(NamedRelease { name: before, .. }) = known else { return Some(finding) };
        let now = now.name();
        Some(finding.with_help(format!(
            "if the control plane runs {before}, write `dialects: {{{dialect}: {{version: \"{before}\"}}}}` into \
             federate.yaml; if it is upgraded, `federate diff --from-version {dialect}={before} --to-version \
             {dialect}={now}` shows what that moves"
        )))
    }

    /// The decisions of one control plane about all its subjects together.
    fn decide_subjects(
        &self,
        dialect: &'static str,
        planner: &dyn PolicyPlanner,
        kept: Option<&mut DecisionCache>,
    ) -> DialectDecisions {
        let subjects = planner.decision_subjects();
        let known = |subject: &DecisionSubject| kept.as_deref()?.get(dialect, &subject.object);
        let groups = DecisionGroups::new(self, planner, &subjects, |subject| known(subject).is_none());
        let limit = self.limit;
        if let Some(object) = &groups.stopped_at {
            let stopped = limit.exceeded_finding("deciding where objects go", object);
            return DialectDecisions { findings: vec![stopped], ..DialectDecisions::default() };
        }
        let LimitedResults { results: decided, stopped_at } = limit.run_items(
            &subjects,
            |at, subject| {
                if let Some(decided) = known(subject) {
                    return (decided.clone(), false);
                }
                let group = groups.get(at).map(|decision| decision.for_subject(&subject.object));
                let decided = group.unwrap_or_else(|| self.decide_subject(planner, subject));
                (decided, subject.reads == TemplateReads::Subject)
            },
            |(decided, _)| decision_cost(decided),
        );
        let mut all = DialectDecisions::default();
        let stopped = stopped_at.and_then(|at| subjects.get(at));
        all.findings.extend(
            stopped.map(|subject| limit.exceeded_finding("deciding where objects go", &subject.object)),
        );
        all.placements.reserve(decided.iter().map(|(decided, _)| decided.placements.len()).sum());
        let mut kept = kept;
        for (subject, (decided, keep)) in subjects.into_iter().zip(decided) {
            if let Some(kept) = kept.as_mut().filter(|_| keep) {
                kept.keep_decision(dialect, subject.object, decided.clone());
            }
            all.extend(decided);
        }
        all
    }

    /// Decides about one subject. Rows with equal cluster lists share them.
    pub(crate) fn decide_subject(
        &self,
        planner: &dyn PolicyPlanner,
        subject: &DecisionSubject,
    ) -> DialectDecisions {
        let mut decided = planner.decide_placements(&subject.object, self.previous);
        decided.placements.iter_mut().for_each(|row| self.share_clusters(row));
        decided
    }

    /// Leaves out the clusters for which a chart or a kustomization does not build the object.
    fn leave_out_clusters(&self, row: &mut Placement) {
        let template = self.repo.find_template(&row.object);
        let Some(bodies) = template.and_then(|template| template.per_cluster.as_ref()) else { return };
        let is_built =
            |name: &str| bodies.contains_key(name) || self.clusters.iter().all(|one| *one.name != *name);
        if !row.clusters.iter().all(|placed| is_built(&placed.name)) {
            row.clusters = row.clusters.iter().filter(|placed| is_built(&placed.name)).cloned().collect();
            self.share_clusters(row);
        }
    }

    fn share_clusters(&self, row: &mut Placement) {
        row.clusters = self.lists.share_placed(&row.clusters);
    }

    /// Returns the templates that no policy places. Templates with an error are not among them.
    fn find_unmatched(&self, placements: &[Placement], findings: &[Finding]) -> Vec<ObjectRef> {
        let in_error: BTreeSet<&ObjectRef> = findings.iter().filter_map(|f| f.object.as_ref()).collect();
        // Without any cluster, what goes to every cluster goes to none, and needs no policy anyway.
        let no_inventory = self.clusters.is_empty();
        let placed = placements.iter().filter(|row| no_inventory || !row.is_unmatched());
        let mut placed = placed.map(|p| &p.object).peekable();
        // Rows and templates are sorted by object.
        let is_placed = |id: &ObjectRef| {
            while placed.next_if(|placed| *placed < id).is_some() {}
            placed.peek() == Some(&id)
        };
        let ids = self.repo.templates.iter().map(|t| &t.object.id);
        let not_placed = ids.scan(is_placed, |is_placed, id| Some((!is_placed(id)).then_some(id)));
        not_placed.flatten().filter(|id| !in_error.contains(id)).cloned().collect()
    }

    /// Says of each template that no policy places, why. The result is in the order of `unmatched`; it is empty if that takes
    /// too much work, which is then among the findings.
    fn why_unmatched<'s>(&'s self, plan: &Plan, findings: &mut Vec<Finding>) -> Vec<NotPlaced<'s>> {
        let what = "finding out why no policy places templates";
        self.limit.run_part(what, || self.find_reasons(plan, findings)).unwrap_or_else(|exceeded| {
            findings.push(exceeded.into_finding());
            Vec::new()
        })
    }

    fn find_reasons<'s>(&'s self, plan: &Plan, findings: &[Finding]) -> Vec<NotPlaced<'s>> {
        let unmatched = plan.unmatched.as_slice();
        if unmatched.is_empty() {
            return Vec::new();
        }
        let planners = self.planners.iter();
        let unfollowed = planners
            .flat_map(|(_, planner)| planner.advice().unplaced_followers(unmatched, &plan.placements))
            .collect();
        let everywhere = self.places_everything();
        // Where it decides nothing, what is near is searched among as many selectors as can be compared with all of them.
        let max_selectors =
            if everywhere { usize::MAX } else { (MAX_COMPARISONS / unmatched.len()).max(100) };
        let unplaced = PlacementSelectors::new(self, findings, unfollowed, max_selectors);
        let defined = DefinedKinds::new(self.repo);
        let templates: Vec<&Template> =
            unmatched.iter().filter_map(|id| self.repo.find_template(id)).collect();
        map_charged(&templates, |template| {
            let object = &template.object;
            let is_placed_by_settings = everywhere || template.has_destination;
            if let Some(finding) = self.find_misspelt_kind(&defined, object) {
                return NotPlaced { object, finding, claimed: true, near: false, is_placed_by_settings };
            }
            let reason = unplaced.find_reason(object);
            let finding = reason.to_finding(object, everywhere && reason.near);
            NotPlaced { object, finding, claimed: reason.claimed, near: reason.near, is_placed_by_settings }
        })
    }

    /// Places the templates everywhere for which no policy is responsible. Returns the rows, sorted by object, and the
    /// findings about all templates.
    fn place_unmatched(&self, unplaced: &[NotPlaced<'_>]) -> (Vec<Placement>, Vec<Finding>) {
        let (mut rows, mut findings) = (Vec::new(), Vec::new());
        for one in unplaced {
            let planners = self.planners.iter().filter(|_| !one.claimed);
            let decided = planners.map(|(_, planner)| planner.place_unmatched(one.object));
            let decided = decided.into_iter().find(|decided| !decided.placements.is_empty());
            if decided.is_none() || one.near {
                findings.push(one.finding.clone());
            }
            let mut decided = decided.unwrap_or_default();
            let template = self.repo.find_template(&one.object.id);
            let has_destination = template.is_some_and(|template| template.has_destination);
            for row in &mut decided.placements {
                row.has_destination = has_destination;
                self.share_clusters(row);
                self.leave_out_clusters(row);
            }
            rows.extend(decided.placements);
            findings.extend(decided.findings);
        }
        (rows, findings)
    }

    /// Explains the placement of an object: by the dialect that placed it, or by the first dialect that can say
    /// why the object is not placed.
    pub fn explain_placement(&self, object: &ObjectRef, plan: &Plan) -> Option<Explanation> {
        match plan.find_placement(object) {
            Some(placed) => {
                self.find_planner(&placed.dialect)?.explain_placement(object, self.previous, Some(placed))
            }
            None => self
                .planners
                .iter()
                .find_map(|(_, planner)| planner.explain_placement(object, self.previous, None)),
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
                Finding::warning("unused-policy", &c.object, message).with_help(
                    "its selectors match no template, or other policies take precedence for all of them",
                )
            })
            .collect()
    }
}
