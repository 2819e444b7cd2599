//! The effect of a scenario: the control planes decide with the session's plan as their memory.

use std::collections::BTreeSet;

use federate_dialect::Previous;
use federate_engine::change::{self, Changes, DigestKey, Side};
use federate_engine::whatif::{Event, Loss, Scenario, Selection, State, Unit, losses};
use federate_engine::{Engine, Settings};
use federate_kubernetes::{Cluster, ClusterName, ObjectRef};
use federate_repo::{Config, File};

use crate::Session;

/// Scenarios over a session.
pub struct WhatIf<'s> {
    session: &'s Session,
    /// The session's settings, with its plan as the memory.
    settings: Settings,
}

/// The effect of a scenario.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// The changed placements. Manifests are not compared.
    pub changes: Changes,
    /// The replicas that are lost and regained.
    pub losses: Vec<Loss>,
}

impl Outcome {
    /// Whether the scenario changes nothing.
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty() && self.losses.is_empty()
    }

    /// Objects that become unschedulable.
    pub fn unschedulable(&self) -> Vec<&ObjectRef> {
        let rows = self.changes.placements.iter();
        let new = rows.filter(|row| row.unschedulable.from.is_none() && row.unschedulable.to.is_some());
        new.map(|row| &row.object).collect()
    }
}

/// The effect of losing one unit.
#[derive(Clone, Debug)]
pub struct UnitOutcome {
    /// The unit's name.
    pub name: String,
    /// Its clusters.
    pub clusters: BTreeSet<ClusterName>,
    /// The effect of losing them.
    pub outcome: Outcome,
}

/// A state without manifests.
fn side<'a>(state: &State<'a>) -> Side<'a> {
    Side { clusters: state.clusters, plan: state.plan, manifests: &[] }
}

impl Session {
    /// Prepares scenarios over this session.
    pub fn what_if(&self) -> WhatIf<'_> {
        let previous = Previous::new(self.plan().clone());
        WhatIf { session: self, settings: Settings { previous, ..self.settings().clone() } }
    }
}

impl WhatIf<'_> {
    /// The effect of a scenario.
    ///
    /// # Errors
    ///
    /// If it names something that does not exist.
    pub fn outcome(&self, scenario: &Scenario) -> Result<Outcome, String> {
        let session = self.session;
        let world = scenario.apply(session.dialects(), session.repo(), session.clusters())?;
        let plan = Engine::new(session.dialects(), &world.repo, &world.clusters, &self.settings).plan().plan;
        let before = State { repo: session.repo(), clusters: session.clusters(), plan: session.plan() };
        let after = State { repo: &world.repo, clusters: &world.clusters, plan: &plan };
        // Without manifests, there are no Secrets to hide.
        let changes = change::compare(&side(&before), &side(&after), &DigestKey::new(&[]));
        Ok(Outcome { changes, losses: losses(&before, &after) })
    }

    /// The effect of losing each unit after the events of a scenario. The worst comes first: by objects that
    /// run nowhere, then by missing replicas, then by lost replicas.
    ///
    /// # Errors
    ///
    /// If the scenario names something that does not exist, or if no cluster has such a unit.
    pub fn each(&self, unit: Unit, scenario: &Scenario) -> Result<Vec<UnitOutcome>, String> {
        let units = unit.all(self.session.clusters());
        if units.is_empty() {
            return Err(format!("no cluster in the inventory has a {}", unit.name()));
        }
        let mut all = Vec::with_capacity(units.len());
        for (name, clusters) in units {
            let mut scenario = scenario.clone();
            let lose = |cluster: &ClusterName| Event::Lose(Selection::Named(cluster.to_string()));
            scenario.events.extend(clusters.iter().map(lose));
            all.push(UnitOutcome { name, clusters, outcome: self.outcome(&scenario)? });
        }
        let weight = |unit: &UnitOutcome| {
            let losses = &unit.outcome.losses;
            let nowhere = losses.iter().filter(|loss| loss.nowhere).count();
            let missing: i64 = losses.iter().map(Loss::missing).sum();
            (nowhere, missing, losses.iter().map(|loss| loss.lost).sum::<i64>())
        };
        all.sort_by(|a, b| weight(b).cmp(&weight(a)).then_with(|| a.name.cmp(&b.name)));
        Ok(all)
    }

    /// Reads the clusters from a file of inventory objects.
    ///
    /// # Errors
    ///
    /// If the file is invalid or contains no inventory object.
    pub fn clusters_of(&self, path: &str, bytes: Vec<u8>) -> Result<Vec<Cluster>, String> {
        let file = File { path: path.into(), bytes: bytes.into() };
        let dialects = self.session.dialects();
        let loaded = federate_repo::load_bytes(vec![file], Config::default(), &dialects);
        let (clusters, findings) = federate_engine::inventory(dialects, &loaded.repo, &self.settings);
        let mut errors = loaded.repo.findings.iter().chain(&findings).filter(|finding| finding.is_error());
        if let Some(error) = errors.next() {
            return Err(format!("{path}: {}", error.message));
        }
        if clusters.is_empty() {
            return Err(format!(
                "{path} contains no inventory object, such as a Cluster of cluster.karmada.io"
            ));
        }
        Ok(clusters)
    }
}
