//! The way of every command about member clusters: the repo is loaded and rendered, what runs is read (from
//! a dump or from API servers), and everything is decided by the same code.

use clap::Args;

use super::diff::digest_key;
use super::settings::{Loaded, RepoArgs};
use super::{Exit, Fault, say};
use federate_apiserver::Kind;
use federate_engine::Engine;
use federate_engine::actions::cluster::{Decided, Deciding, Desired, Prune, desired};
use federate_engine::actions::drift::Drift;
use federate_engine::actions::{Action, Adopt, Decision, Inventory, Rules};
use federate_kubernetes::{Cluster, ObjectRef};
use federate_repo::config::Config;

#[cfg(feature = "live")]
mod progress;
mod servers;

pub(super) use servers::{Servers, Trial};

/// Arguments about what we own in the clusters.
#[derive(Debug, Args)]
pub(super) struct Inventoried {
    /// The `ConfigMap` that keeps what is ours in each cluster, as NAMESPACE/NAME
    #[arg(long, value_name = "NAMESPACE/NAME", default_value = "default/federate", value_parser = inventory)]
    pub(super) applyset: Inventory,
}

fn inventory(text: &str) -> Result<Inventory, &'static str> {
    match text.split_once('/') {
        Some((namespace, name)) if !namespace.is_empty() && !name.is_empty() && !name.contains('/') => {
            Ok(Inventory { namespace: namespace.to_owned(), name: name.to_owned() })
        }
        _ => Err("write it as NAMESPACE/NAME"),
    }
}

/// Arguments about what may be deleted.
#[derive(Debug, Args)]
pub(super) struct PruneArgs {
    /// Do nothing in a cluster where more of our objects would be deleted [default: 30]
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u8).range(..=100))]
    prune_limit: Option<u8>,

    /// Also delete objects of these kinds, which hold what cannot be made again
    #[arg(long, value_name = "KIND", value_delimiter = ',')]
    prune_kinds: Vec<String>,

    /// Delete nothing
    #[arg(long, conflicts_with_all = ["prune_kinds", "prune_limit"])]
    no_prune: bool,
}

impl PruneArgs {
    /// Whether anything is said.
    pub(super) fn any(&self) -> bool {
        self.no_prune || self.prune_limit.is_some() || !self.prune_kinds.is_empty()
    }

    fn prune(&self) -> Option<Prune> {
        let limit = self.prune_limit.unwrap_or(30).into();
        (!self.no_prune).then(|| Prune { kinds: self.prune_kinds.clone(), limit })
    }
}

/// A run over member clusters.
pub(super) struct Members<'m> {
    pub(super) args: &'m RepoArgs,
    pub(super) inventory: &'m Inventoried,
    pub(super) prune: &'m PruneArgs,
    pub(super) purpose: Purpose,
    /// Whether actions tell what objects will be.
    pub(super) results: bool,
    pub(super) reader: Reader<'m>,
}

/// What is decided about.
#[derive(Clone, Copy)]
pub(super) enum Purpose {
    /// Everything that is to be done.
    Apply { adopt: Option<Adopt>, force: bool },
    /// What drifted.
    Drift { full: bool, correct: bool },
}

/// Where what runs is read.
pub(super) enum Reader<'m> {
    /// From the folder of `--observed`.
    Dump,
    /// From the API servers, where it may be acted upon, too.
    Servers(Servers<'m>),
}

/// What came of it.
pub(super) struct Done {
    /// Sorted by cluster and object.
    pub(super) actions: Vec<Action>,
    /// Whether anything went wrong; it has been told.
    pub(super) failed: bool,
}

impl Done {
    /// An error if anything went wrong.
    pub(super) fn exit(&self) -> Exit {
        if self.failed { Exit::Error } else { Exit::Clean }
    }
}

/// What several clusters, or one of them, came to.
#[derive(Default)]
struct Outcome {
    actions: Vec<Action>,
    /// A line each.
    errors: Vec<String>,
}

/// The decisions, with all that they are made of.
struct Plane<'p> {
    deciding: Deciding<'p>,
    loaded: &'p Loaded,
    args: &'p RepoArgs,
}

/// The time of an object that nobody will store: API servers write their own.
const NEVER: &str = "1970-01-01T00:00:00Z";

impl Members<'_> {
    /// Decides about every cluster, and has it done where API servers are reached. `None` where errors stop
    /// the run; they are told.
    pub(super) fn run(&self) -> Result<Option<Done>, Fault> {
        let mut loaded = self.args.load(None, None)?;
        let read = std::mem::take(&mut loaded.findings);
        let engine =
            Engine::new(federate_session::DIALECTS, &loaded.repo, &loaded.clusters, &loaded.settings);
        let rendering = self.args.render(&engine, &loaded.repo, read);
        let incomplete = federate_engine::any_error(&rendering.findings);
        if incomplete && !self.args.keep_going {
            say(self.purpose.stopped());
            return Ok(None);
        }
        let desired = desired(&rendering.manifests);
        let (key, prune) = (digest_key()?, self.prune.prune());
        let now = self.args.time().map_or_else(|| NEVER.to_owned(), |now| now.to_string());
        let (adopt, force, full) = match self.purpose {
            Purpose::Apply { adopt, force } => (adopt, force, false),
            // Whoever keeps an object: that it is not as it is rendered is told.
            Purpose::Drift { full, .. } => (Some(Adopt::Always), true, full),
        };
        let rules = Rules {
            adopt,
            force,
            full,
            results: self.results,
            inventory: &self.inventory.applyset,
            rolling: &loaded.repo.config.apply.rolling,
            key: &key,
            now: &now,
        };
        let drift = self.purpose.drift(&loaded.repo.config);
        let deciding = Deciding {
            engine: &engine,
            rendering: &rendering,
            desired: &desired,
            rules: &rules,
            prune: prune.as_ref(),
            drift: drift.as_ref(),
        };
        let plane = Plane { deciding, loaded: &loaded, args: self.args };
        let outcome = match &self.reader {
            Reader::Dump => plane.dumped(),
            Reader::Servers(servers) => servers.outcome(&plane)?,
        };
        tell(&outcome.errors);
        Ok(Some(Done { failed: incomplete || !outcome.errors.is_empty(), actions: outcome.actions }))
    }
}

impl Purpose {
    fn stopped(self) -> &'static str {
        match self {
            Self::Apply { .. } => {
                "nothing was applied; --keep-going leaves out what is in error, applies the rest and deletes nothing\n"
            }
            Self::Drift { .. } => {
                "nothing was compared; --keep-going leaves out what is in error and compares the rest\n"
            }
        }
    }

    fn drift(self, config: &Config) -> Option<Drift<'_>> {
        match self {
            Self::Apply { .. } => None,
            Self::Drift { correct, .. } => Some(Drift { ignore: &config.drift.ignore, correct }),
        }
    }
}

impl Plane<'_> {
    /// Decides from what `--observed` holds.
    fn dumped(&self) -> Outcome {
        let customs = self.customs();
        let kind = |id: &ObjectRef| kind(id, &customs);
        let live = &self.loaded.settings.live;
        let mut outcome = Outcome::default();
        for cluster in self.clusters().filter(|cluster| live.knows(&cluster.name)) {
            let Decided { decisions, stopped } = self.deciding.cluster(cluster, live, &kind);
            outcome.errors.extend(stopped.map(|why| format!("{}: {why}", cluster.name)));
            outcome.errors.extend(decisions.iter().filter(|decision| decision.refused).map(refused));
            outcome.actions.extend(decisions.into_iter().map(|decision| decision.action));
        }
        outcome
    }

    /// The clusters that are asked for.
    fn clusters(&self) -> impl Iterator<Item = &Cluster> {
        self.loaded.clusters.iter().filter(|cluster| self.args.wants(&cluster.name))
    }

    /// The kinds that definitions among the live and the rendered objects make.
    fn customs(&self) -> Vec<Kind> {
        let clusters = self.loaded.clusters.iter();
        let live = clusters.flat_map(|cluster| self.loaded.settings.live.objects(&cluster.name));
        let rendered = self.deciding.desired.iter().map(|desired: &Desired| &desired.body);
        let bodies = live.map(|object| &object.body).chain(rendered);
        let definitions = bodies.filter(|body| body["kind"] == "CustomResourceDefinition");
        definitions.flat_map(Kind::customs).collect()
    }
}

/// What is known of a kind; of one that nobody defines, nothing but its name.
fn kind(id: &ObjectRef, customs: &[Kind]) -> Kind {
    let custom = || customs.iter().find(|k| k.kind == id.kind && k.api_version() == id.api_version).cloned();
    Kind::builtin(&id.api_version, &id.kind)
        .or_else(custom)
        .unwrap_or_else(|| Kind::unknown(&id.api_version, &id.kind, id.namespace.is_some()))
}

fn refused(decision: &Decision) -> String {
    why(&decision.action)
}

/// An action's reason, with what it is about.
pub(super) fn why(action: &Action) -> String {
    format!("{}: {}: {}", action.cluster, action.object, action.reason.as_deref().unwrap_or_default())
}

/// Says on standard error what went wrong. What servers answer must not command a terminal.
pub(super) fn tell(errors: &[String]) {
    for error in errors {
        let line: String = error.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        say(&format!("error: {line}\n"));
    }
}
