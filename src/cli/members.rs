//! What commands about member clusters share: the repo rendered, what runs read, everything decided.

use clap::Args;

use super::diff::digest_key;
use super::settings::{Loaded, RepoArgs};
use super::{Fault, say};
use crate::actions::cluster::{Deciding, Prune, desired};
use crate::actions::{Adopt, Decision, Inventory, Rules};
use crate::engine::{self, Engine};
use crate::k8s::ObjectRef;
use crate::server::Kind;

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

/// A run over member clusters.
pub(super) struct Members<'m> {
    pub(super) args: &'m RepoArgs,
    pub(super) inventory: &'m Inventoried,
    pub(super) prune: Option<&'m Prune>,
}

/// The time of an object that nobody will store.
const NEVER: &str = "1970-01-01T00:00:00Z";

impl Members<'_> {
    /// Decides from what `--live` holds. `None` where errors stop the run; they are told.
    pub(super) fn offline(
        &self,
        adopt: Option<Adopt>,
        force: bool,
    ) -> Result<Option<(Vec<Decision>, Loaded)>, Fault> {
        if self.args.live_folder().is_none() {
            return Err(Fault::Failed(
                "--live DIR is needed: what runs, as DIR/<cluster>/*.yaml (kubectl get -o yaml \
                 --show-managed-fields)"
                    .to_owned(),
            ));
        }
        let mut loaded = self.args.load(None, None)?;
        let engine = Engine::new(&loaded.repo, &loaded.clusters, &loaded.settings);
        let read = std::mem::take(&mut loaded.findings);
        let rendering = self.args.render(&engine, &loaded.repo, read);
        let failed = engine::any_error(&rendering.findings);
        if failed {
            say("nothing was compared, because of these errors\n");
            return Ok(None);
        }
        let desired = desired(&rendering.manifests);
        let key = digest_key()?;
        let now = self.args.time().map_or_else(|| NEVER.to_owned(), |now| now.to_string());
        let rules = Rules {
            adopt,
            force,
            inventory: &self.inventory.applyset,
            rolling: &loaded.repo.config.apply.rolling,
            key: &key,
            now: &now,
        };
        let deciding = Deciding {
            engine: &engine,
            rendering: &rendering,
            desired: &desired,
            rules: &rules,
            prune: self.prune,
        };
        let customs = customs(&loaded, &desired.iter().map(|one| &one.body).collect::<Vec<_>>());
        let kind = |id: &ObjectRef| kind(id, &customs);
        let live = &loaded.settings.live;
        let known = loaded.clusters.iter().filter(|c| live.knows(&c.name) && self.args.wants(&c.name));
        let decisions = known.flat_map(|cluster| deciding.cluster(cluster, live, &kind)).collect();
        drop(engine);
        Ok(Some((decisions, loaded)))
    }
}

/// The kinds that definitions among the live and the rendered objects make.
fn customs(loaded: &Loaded, rendered: &[&serde_json::Value]) -> Vec<Kind> {
    let live = loaded.clusters.iter().flat_map(|cluster| loaded.settings.live.objects(&cluster.name));
    let bodies = live.map(|object| &object.body).chain(rendered.iter().copied());
    let definitions = bodies.filter(|body| body["kind"] == "CustomResourceDefinition");
    definitions.flat_map(Kind::customs).collect()
}

/// What is known of a kind; of one that nobody defines, nothing but its name.
fn kind(id: &ObjectRef, customs: &[Kind]) -> Kind {
    let custom = || customs.iter().find(|k| k.kind == id.kind && k.api_version() == id.api_version).cloned();
    Kind::builtin(&id.api_version, &id.kind)
        .or_else(custom)
        .unwrap_or_else(|| Kind::unknown(&id.api_version, &id.kind, id.namespace.is_some()))
}
