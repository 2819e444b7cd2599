//! The state before scenarios, and what scenarios share: the decisions about objects that they do not touch.
//!
//! Each decision is taken once, with the plan as its own memory, over the inventory as it is. After a change of clusters,
//! a decision is taken again unless it depends only on clusters that stay the same
//! ([`Depends`](federate_dialect::Depends)). Of subjects that are [alike](federate_dialect::ControlPlane::alike), one is
//! decided for all.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rayon::prelude::*;

use super::ScenarioInput;
use super::alike::{Classes, Group, decide, numbered};
use super::variation::{Variation, row};
use crate::{Engine, Settings};
use federate_dialect::{
    ControlPlane, Decided, Depends, Dialects, PlacedClusters, Placement, Plan, Previous, Reads, Subject,
};
use federate_kubernetes::{Cluster, ClusterName, Finding, ObjectRef};
use federate_repo::Repo;

/// A repo with its inventory and its plan, from which scenarios start.
pub struct Baseline<'s> {
    pub(super) dialects: Dialects,
    pub(super) repo: &'s Repo,
    pub(super) clusters: &'s [Cluster],
    pub(super) plan: &'s Plan,
    /// The settings of the plan, with the plan itself as the previous one.
    settings: Settings,
    planes: Vec<KeptPlane>,
    /// The rows on each cluster, by their index in the plan.
    on: BTreeMap<&'s str, Vec<usize>>,
}

/// The decisions of a control plane.
struct KeptPlane {
    /// Whether each row of the plan follows from one decision.
    is_complete: bool,
    digest: String,
    classes: Classes,
    subjects: Vec<Kept>,
}

/// A decision.
struct Kept {
    subject: Subject,
    /// The number of the key that subjects alike have.
    alike: Option<usize>,
    /// The class of its row in the plan.
    class: usize,
    depends: Depends,
    rows: Vec<Placement>,
    errors: Vec<Finding>,
    /// Whether the plan has exactly these rows.
    is_stable: bool,
    /// The clusters of its rows, in the plan and as decided.
    clusters: Vec<PlacedClusters>,
}

/// The decisions that are taken again.
pub(super) struct Again<'k> {
    kept: &'k KeptPlane,
    /// By the index of the subject.
    decided: BTreeMap<usize, Decided>,
}

impl<'s> Baseline<'s> {
    /// Decides everything once, with the plan as its own memory.
    pub fn new(
        dialects: Dialects,
        repo: &'s Repo,
        clusters: &'s [Cluster],
        plan: &'s Plan,
        settings: &Settings,
    ) -> Self {
        let settings = Settings { previous: Previous::new(plan.clone()), ..settings.clone() };
        let engine = Engine::new(dialects, repo, clusters, &settings);
        let planes = engine.planes.iter();
        let planes =
            planes.map(|(name, plane)| KeptPlane::new(&engine, name, plane.as_ref(), plan)).collect();
        let mut on: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for (at, row) in plan.placements.iter().enumerate() {
            for placed in &row.clusters {
                on.entry(placed.name.as_ref()).or_default().push(at);
            }
        }
        drop(engine);
        Self { dialects, repo, clusters, plan, settings, planes, on }
    }

    /// The rows of the plan on a cluster.
    pub(super) fn on(&self, cluster: &str) -> impl Iterator<Item = &'s Placement> {
        let rows = self.on.get(cluster).into_iter().flatten();
        rows.filter_map(|at| self.plan.placements.get(*at))
    }

    /// The control planes over the repo and the inventory of a scenario.
    pub(super) fn engine<'e>(&'e self, world: &'e ScenarioInput<'_>) -> Engine<'e> {
        Engine::new(self.dialects, &world.repo, &world.clusters, &self.settings)
    }

    /// The plan after a change of the inventory or the templates, with the plan `before` as the memory. `anew` decides
    /// everything again.
    pub(super) fn plan(
        &self,
        engine: Engine<'_>,
        world: &ScenarioInput<'_>,
        before: &Variation,
        anew: bool,
    ) -> Variation {
        let previous = self.settings.previous.with(Arc::clone(&before.rows), Arc::clone(&before.shared));
        let engine = engine.remembering(&previous);
        if anew {
            return Variation::between(self.plan, engine.plan().plan);
        }
        let changed = self.changed(&world.clusters);
        let decided: Vec<Again<'_>> = (self.planes.iter().zip(&engine.planes))
            .map(|(kept, (_, plane))| kept.again(&engine, plane.as_ref(), (world, &changed), before))
            .collect();
        if let Some(rows) = self.few(&decided) {
            return Variation { rows: Arc::new(rows), unmatched: None, shared: Arc::clone(&before.shared) };
        }
        let mut decided = decided.into_iter();
        let all = engine.merged(|_, _| decided.next().map(Again::all).unwrap_or_default());
        Variation::between(self.plan, all.plan)
    }

    /// The clusters that differ from those before.
    fn changed(&self, clusters: &[Cluster]) -> BTreeSet<ClusterName> {
        let before: BTreeMap<&ClusterName, &Cluster> = self.clusters.iter().map(|c| (&c.name, c)).collect();
        let mut gone = before.clone();
        let mut changed = BTreeSet::new();
        for cluster in clusters {
            gone.remove(&cluster.name);
            if before.get(&cluster.name) != Some(&cluster) {
                changed.insert(cluster.name.clone());
            }
        }
        changed.extend(gone.into_keys().cloned());
        changed
    }

    /// The rows that differ from the plan, if decisions replace rows of the plan one by one. Otherwise, all decisions
    /// must be merged.
    fn few(&self, all: &[Again<'_>]) -> Option<BTreeMap<ObjectRef, Option<Placement>>> {
        let mut rows = BTreeMap::new();
        for again in all {
            if !again.kept.is_complete {
                return None;
            }
            for (at, decided) in &again.decided {
                let kept = again.kept.subjects.get(*at)?;
                let same_errors = kept.errors.is_empty() != decided.findings.iter().any(Finding::is_error);
                if !same_errors || kept.rows.len() != decided.placements.len() {
                    return None;
                }
                for new in &decided.placements {
                    let old = row(self.plan, &new.object)?;
                    let replaces = kept.rows.iter().any(|row| row.object == new.object)
                        && old.dialect == new.dialect
                        && old.is_unmatched() == new.is_unmatched();
                    if !replaces {
                        return None;
                    }
                    if !old.is_alike(new) {
                        rows.insert(new.object.clone(), Some(new.clone()));
                    }
                }
            }
        }
        Some(rows)
    }
}

impl KeptPlane {
    fn new(engine: &Engine<'_>, name: &str, plane: &dyn ControlPlane, plan: &Plan) -> Self {
        let subjects = plane.subjects();
        let mut classes = Classes::default();
        let class: Vec<usize> =
            subjects.iter().map(|subject| classes.number(row(plan, &subject.object))).collect();
        let keys: Vec<Option<String>> =
            subjects.par_iter().map(|subject| plane.alike(&subject.object)).collect();
        let alike = numbered(keys);
        let groups = subjects.iter().zip(alike.iter().zip(&class));
        let groups = groups.map(|(subject, (alike, class))| Group::of(subject, *alike, *class));
        let decided = decide(engine, plane, &groups.collect::<Vec<_>>());
        let all = subjects.into_iter().zip(alike.into_iter().zip(class)).zip(decided);
        let subjects: Vec<Kept> =
            all.map(|((subject, numbers), decided)| Kept::new(plan, subject, numbers, decided)).collect();
        let decided: usize = subjects.iter().map(|kept| kept.rows.len()).sum();
        let rows = plan.placements.iter().filter(|row| row.dialect == name).count();
        // A control plane that decides nothing has nothing to add.
        let is_complete = (plane.is_complete() || decided == 0) && decided == rows;
        let digest = plane.inventory_digest();
        Self { is_complete, digest, classes, subjects }
    }

    /// Takes the decisions that a change of clusters or an earlier change of the plan can touch.
    fn again(
        &self,
        engine: &Engine<'_>,
        plane: &dyn ControlPlane,
        (world, changed): (&ScenarioInput<'_>, &BTreeSet<ClusterName>),
        before: &Variation,
    ) -> Again<'_> {
        let other_inventory = plane.inventory_digest() != self.digest;
        let touched = |kept: &Kept| {
            other_inventory
                || kept.depends == Depends::Inventory
                || kept.subject.reads != Reads::Subject
                || !kept.is_stable
                || kept.clusters.iter().any(|list| changed.iter().any(|name| list.has(name)))
                || before.rows.contains_key(&kept.subject.object)
                || kept.rows.iter().any(|row| before.rows.contains_key(&row.object))
                || world.scaled.contains(&kept.subject.object)
        };
        let touched: Vec<usize> = (self.subjects.par_iter().enumerate())
            .filter(|(_, kept)| touched(kept))
            .map(|(at, _)| at)
            .collect();
        let mut classes = self.classes.next();
        let groups = touched.iter().filter_map(|at| self.subjects.get(*at)).map(|kept| {
            let class = match before.rows.get(&kept.subject.object) {
                None => kept.class,
                Some(row) => self.classes.find(row.as_ref()).unwrap_or_else(|| classes.number(row.as_ref())),
            };
            let alike = kept.alike.filter(|_| !world.scaled.contains(&kept.subject.object));
            Group::of(&kept.subject, alike, class)
        });
        let decided = decide(engine, plane, &groups.collect::<Vec<_>>());
        Again { kept: self, decided: touched.iter().copied().zip(decided).collect() }
    }
}

impl Kept {
    fn new(plan: &Plan, subject: Subject, (alike, class): (Option<usize>, usize), decided: Decided) -> Self {
        let Decided { placements: rows, findings, depends, .. } = decided;
        let planned: Vec<Option<&Placement>> = rows.iter().map(|new| row(plan, &new.object)).collect();
        let is_stable = rows.iter().zip(&planned).all(|(new, old)| old.is_some_and(|old| old.is_alike(new)));
        let planned = planned.into_iter().flatten();
        let mut clusters: Vec<PlacedClusters> = rows.iter().map(|row| row.clusters.clone()).collect();
        clusters.extend(planned.map(|row| row.clusters.clone()));
        clusters.dedup_by(|a, b| a.is_shared_with(b));
        let errors = findings.into_iter().filter(Finding::is_error).collect();
        Self { subject, alike, class, depends, rows, errors, is_stable, clusters }
    }
}

impl Again<'_> {
    /// All decisions, old and new.
    fn all(mut self) -> Decided {
        let mut all = Decided::default();
        for (at, kept) in self.kept.subjects.iter().enumerate() {
            if let Some(decided) = self.decided.remove(&at) {
                all.extend(decided);
            } else {
                all.placements.extend(kept.rows.iter().cloned());
                all.findings.extend(kept.errors.iter().cloned());
            }
        }
        all
    }
}
