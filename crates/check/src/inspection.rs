//! What the manifests of a plan show: mistakes that overrides make. The manifests are looked at one by one, and neither
//! written nor kept.

use std::collections::{BTreeMap, BTreeSet};

use federate_apiserver_model::served_versions::Minor;
use federate_dialect::{ManifestVariant, NotSent, OverrideChange, Placement, Plan};
use federate_kubernetes::{Finding, ObjectRef, work};
use federate_repo::Role;

use super::releases::ClusterReleases;
use super::{overrides, templates, workloads};
use federate_engine::work_limit::{LimitedResults, variants_cost};
use federate_engine::{Engine, TemplateIndex};

/// The result of [`inspect_manifests`].
#[derive(Clone, Debug, Default)]
pub struct Inspection {
    /// Errors and warnings of the control planes about the manifests, as in
    /// [`Rendering::findings`](federate_engine::Rendering::findings), in the order of the plan.
    pub findings: Vec<Finding>,
    /// Fields and values with which overrides make manifests that API servers drop or refuse, and Jobs that run again.
    pub mistakes: BTreeSet<Finding>,
    /// The override policies that apply to a manifest, and whether they change any.
    overrides: BTreeMap<ObjectRef, bool>,
}

impl Inspection {
    /// Remembers what an override did.
    fn record_override(&mut self, change: &OverrideChange) {
        let changes = !change.paths.is_empty();
        match self.overrides.get_mut(&change.policy) {
            Some(known) => *known |= changes,
            None => drop(self.overrides.insert(change.policy.clone(), changes)),
        }
    }

    /// The inspection of a plan from those of its rows.
    pub fn merge_rows(rows: Vec<Self>) -> Self {
        rows.into_iter().fold(Self::default(), Self::merge_with)
    }

    /// This inspection, and that of later placements.
    fn merge_with(mut self, later: Self) -> Self {
        self.findings.extend(later.findings);
        self.mistakes.extend(later.mistakes);
        for (policy, changes) in later.overrides {
            *self.overrides.entry(policy).or_default() |= changes;
        }
        self
    }
}

/// Inspects the manifests of a plan, row by row.
pub struct ManifestInspector<'e> {
    engine: &'e Engine<'e>,
    index: TemplateIndex<'e>,
    kinds: templates::RepoKinds,
    releases: ClusterReleases<'e>,
}

impl<'e> ManifestInspector<'e> {
    /// Prepares for a plan. `kubernetes` is the release to check for, in place of those of the clusters.
    pub fn new(engine: &'e Engine<'e>, plan: &'e Plan, kubernetes: Option<Minor>) -> Self {
        Self {
            engine,
            index: engine.index_templates(),
            kinds: templates::RepoKinds::new(engine.repo()),
            releases: ClusterReleases::new(engine, plan, kubernetes),
        }
    }

    /// Inspects what clusters receive of an object.
    pub fn inspect_variants(&self, object: &ObjectRef, variants: &[ManifestVariant]) -> Inspection {
        let Self { index, kinds, releases, .. } = self;
        let repo = self.engine.repo();
        let mut all = Inspection::default();
        for variant in variants {
            let rendered = match &variant.rendered {
                Ok(rendered) => rendered,
                Err(NotSent { finding, .. }) => {
                    all.findings.extend(finding.clone());
                    continue;
                }
            };
            let mistakes = &mut all.mistakes;
            mistakes.extend(overrides::find_broken(repo, kinds, index, object, rendered));
            let clusters = &variant.clusters;
            mistakes.extend(overrides::find_unserved(repo, kinds, releases, object, clusters, rendered));
            mistakes.extend(workloads::runs_again(repo, index, object, &rendered.body));
            rendered.changes.iter().for_each(|change| all.record_override(change));
        }
        all
    }
}

/// Inspects the manifests of a plan. `kubernetes` is the release to check for, in place of those of the clusters.
pub fn inspect_manifests(engine: &Engine<'_>, plan: &Plan, kubernetes: Option<Minor>) -> Inspection {
    let inspector = ManifestInspector::new(engine, plan, kubernetes);
    let LimitedResults { results, stopped_at } = engine.work_limit().run_items(
        &plan.placements,
        |_, placement: &Placement| {
            let variants = engine.render_variants(placement);
            work::charge_steps(variants_cost(&variants));
            inspector.inspect_variants(&placement.object, &variants)
        },
        |_| 0,
    );
    let stopped = stopped_at.and_then(|at| plan.placements.get(at));
    let exceeded = stopped.map(|row| engine.work_limit().exceeded_finding("checking manifests", &row.object));
    let mut all = Inspection::merge_rows(results);
    all.findings.extend(exceeded);
    all
}

/// Reports override policies that change no manifest.
pub fn find_unused_overrides(engine: &Engine<'_>, inspection: &Inspection) -> Vec<Finding> {
    let failed: Vec<&Finding> =
        inspection.findings.iter().filter(|finding| finding.code == "override-failed").collect();
    let has_failed: BTreeSet<String> =
        failed.iter().filter_map(|finding| finding.origin.as_ref()).map(ToString::to_string).collect();
    let namespaces: BTreeSet<Option<&str>> = failed
        .iter()
        .filter_map(|finding| finding.object.as_ref())
        .map(|object| object.namespace.as_deref())
        .collect();
    // Where an override fails, the others of the same object are not counted.
    let all = engine.repo().claimed.iter().filter(|claimed| claimed.role == Role::Override);
    let all = all.filter(|claimed| {
        let known = inspection.overrides.contains_key(&claimed.object.id);
        let may_apply_there = match claimed.object.id.namespace.as_deref() {
            None => !failed.is_empty(),
            namespace => namespaces.contains(&namespace),
        };
        !has_failed.contains(&claimed.object.origin.to_string()) && (known || !may_apply_there)
    });
    let unused = all.filter_map(|claimed| {
        let (why, help) = match inspection.overrides.get(&claimed.object.id) {
            Some(true) => return None,
            Some(false) => {
                ("the manifests have its values already", "correct its values and paths, or remove it")
            }
            None => (
                "no cluster that its rules select receives an object that it selects",
                "`federate plan` shows which clusters receive the objects",
            ),
        };
        let message = format!("{} changes no manifest: {why}", claimed.object.id);
        Some(Finding::warning("unused-override", &claimed.object, message).with_help(help))
    });
    unused.collect()
}
