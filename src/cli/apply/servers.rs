//! Applying to API servers: the repo rendered, a job for each cluster, the outcomes told.

use std::collections::BTreeMap;

use super::{Apply, Try};
use crate::actions::cluster::{Deciding, Desired, Prune, desired};
use crate::actions::{Decision, Rules};
use crate::cli::diff::digest_key;
use crate::cli::{Exit, Fault, say};
use crate::dialect::{DIALECTS, Dialect, Health, Plan};
use crate::engine::{self, Engine};
use crate::k8s::{Cluster, ClusterName, Object, ObjectRef};
use crate::live::{self, Decider, DryRun, How, Job, Outcome, Seen};
use crate::server::Kind;

/// The time of an object that nobody will store: API servers write their own.
const NEVER: &str = "1970-01-01T00:00:00Z";

/// The engine's decisions, as the clusters ask for them.
struct Plane<'p> {
    deciding: Deciding<'p>,
    clusters: &'p [Cluster],
    dialects: BTreeMap<&'p ObjectRef, &'static dyn Dialect>,
}

impl<'p> Plane<'p> {
    fn new(deciding: Deciding<'p>, clusters: &'p [Cluster], plan: &'p Plan) -> Self {
        let dialect = |name: &str| DIALECTS.into_iter().find(|dialect| dialect.name() == name);
        let rows = plan.placements.iter();
        let dialects = rows.filter_map(|row| Some((&row.object, dialect(&row.dialect)?))).collect();
        Self { deciding, clusters, dialects }
    }
}

impl Decider for Plane<'_> {
    fn decide(&self, cluster: &ClusterName, seen: &Seen) -> Vec<Decision> {
        let Some(cluster) = self.clusters.iter().find(|c| c.name == *cluster) else { return Vec::new() };
        let kind = |object: &ObjectRef| seen.kinds.of(object).cloned().unwrap_or_else(|| nowhere(object));
        self.deciding.cluster(cluster, &seen.live, &kind)
    }

    fn wave(&self, object: &ObjectRef) -> u32 {
        self.dialects.get(object).map_or(0, |dialect| dialect.wave(object))
    }

    fn health(&self, object: &Object) -> Health {
        match self.dialects.get(&object.id) {
            Some(dialect) => dialect.health(object),
            None => Health::unknown(""),
        }
    }
}

/// A kind that the cluster does not serve: it is told when the object is sent.
fn nowhere(object: &ObjectRef) -> Kind {
    Kind::unknown(&object.api_version, &object.kind, object.namespace.is_some())
}

impl Apply {
    pub(super) fn servers(&self) -> Result<Exit, Fault> {
        let mut loaded = self.args.load(None, None)?;
        let engine = Engine::new(&loaded.repo, &loaded.clusters, &loaded.settings);
        let read = std::mem::take(&mut loaded.findings);
        let rendering = self.args.render(&engine, &loaded.repo, read);
        let incomplete = engine::any_error(&rendering.findings);
        if incomplete && !self.args.keep_going {
            say(
                "nothing was applied; --keep-going leaves out what is in error, applies the rest and deletes nothing\n",
            );
            return Ok(Exit::Error);
        }
        let desired = desired(&rendering.manifests);
        let key = digest_key()?;
        let rules = Rules {
            adopt: self.adopt.map(super::Adopt::rule),
            force: self.force,
            inventory: &self.inventory.applyset,
            rolling: &loaded.repo.config.apply.rolling,
            key: &key,
            now: NEVER,
        };
        let prune = Prune { kinds: self.prune_kinds.clone(), limit: self.prune_limit.into() };
        // What is missing from an incomplete rendering may be wanted all the same.
        let prune = Some(&prune).filter(|_| !self.no_prune && !incomplete);
        let deciding =
            Deciding { engine: &engine, rendering: &rendering, desired: &desired, rules: &rules, prune };
        let plane = Plane::new(deciding, &loaded.clusters, &rendering.plan);
        let jobs = self.jobs(&loaded.clusters, &desired);
        let access = self.access.access(&loaded.repo, &loaded.clusters);
        let how = How {
            inventory: &self.inventory.applyset,
            dry_run: self.dry_run.map(|dry_run| match dry_run {
                Try::Client => DryRun::Client,
                Try::Server => DryRun::Server,
            }),
            wait: self.wait,
        };
        let outcomes =
            live::apply(&access, &jobs, &plane, &how).map_err(|error| Fault::Failed(error.to_string()))?;
        let failed = incomplete | tell(&outcomes);
        self.show(outcomes.into_iter().flat_map(|outcome| outcome.actions).collect())?;
        Ok(if failed { Exit::Error } else { Exit::Clean })
    }

    fn jobs<'d>(&self, clusters: &[Cluster], desired: &'d [Desired]) -> Vec<Job<'d>> {
        let mut wanted: BTreeMap<&str, Vec<(&ObjectRef, &serde_json::Value)>> = BTreeMap::new();
        for one in desired {
            for cluster in &one.clusters {
                wanted.entry(cluster).or_default().push((&one.object, &one.body));
            }
        }
        let mine = clusters.iter().filter(|cluster| self.args.wants(&cluster.name));
        let job = |cluster: &Cluster| Job {
            cluster: cluster.name.clone(),
            wanted: wanted.get(cluster.name.as_ref()).cloned().unwrap_or_default(),
        };
        mine.map(job).collect()
    }
}

/// Says on standard error what went wrong; whether anything did.
fn tell(outcomes: &[Outcome]) -> bool {
    let mut failed = false;
    for outcome in outcomes {
        for failure in &outcome.failures {
            failed = true;
            let object = failure.object.as_ref().map(|object| format!("{object}: ")).unwrap_or_default();
            let line = format!("error: {}: {object}{}", outcome.cluster, failure.message);
            // What servers answer must not command a terminal.
            let line: String = line.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
            say(&format!("{line}\n"));
        }
    }
    failed
}
