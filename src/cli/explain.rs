//! `federate explain`

use std::collections::BTreeSet;

use clap::Args;

use super::settings::{Format, RepoArgs, outcome};
use super::{Exit, Fault, look, print, print_value};
use federate_dialect::Plan;
use federate_engine::Engine;
use federate_kubernetes::ObjectRef;
use federate_repo::Repo;
use federate_report::explanation::{self, Changed, Explained};

/// Say why an object is where it is, and why it is not elsewhere
///
/// For each cluster: the filter that refused it, its score, its replicas with the arithmetic behind
/// them, and the overrides with the paths they changed.
///
/// Example: federate explain deployment/web -n shop examples/repo
#[derive(Debug, Args)]
pub(super) struct Explain {
    /// The object, or the policy that places it, as KIND/NAME; the case of the kind does not matter
    object: String,

    #[command(flatten)]
    args: RepoArgs,

    /// Its namespace, when several have an object of that name
    #[arg(long, short)]
    namespace: Option<String>,

    /// How to print it
    #[arg(long, short, value_enum, default_value = "table")]
    output: Format,
}

impl Explain {
    pub(super) fn run(&self) -> Result<Exit, Fault> {
        let mut loaded = self.args.load(None, None)?;
        let engine =
            Engine::new(federate_session::DIALECTS, &loaded.repo, &loaded.clusters, &loaded.settings);
        let planned = engine.plan();
        let id = self.find(&loaded.repo, &planned.plan)?;
        let mut findings = std::mem::take(&mut loaded.findings);
        findings.extend(planned.findings);
        findings.retain(|f| f.object.as_ref() == Some(&id));
        self.args.judge(&mut findings);
        let Some(mut explained) = explain(&loaded.repo, &engine, &planned.plan, &id) else {
            self.args.report(&loaded.repo, &findings);
            return Ok(Exit::Error);
        };
        explained.explanation.clusters.retain(|row| self.args.wants(&row.cluster));
        if self.output == Format::Table {
            print(&explanation::text(&explained, look(self.args.verbose)))?;
        } else {
            print_value(&explained, self.output)?;
        }
        Ok(outcome(&findings))
    }

    /// The one object, a template or what a plan places otherwise, that the arguments mean.
    fn find(&self, repo: &Repo, plan: &Plan) -> Result<ObjectRef, Fault> {
        let Some((kind, name)) = self.object.split_once('/') else {
            return Err(Fault::Failed(format!("`{}` is not KIND/NAME, such as deployment/web", self.object)));
        };
        let meant = |id: &ObjectRef| {
            let namespace = self.namespace.is_none() || id.namespace == self.namespace;
            id.kind.eq_ignore_ascii_case(kind) && id.name == name && namespace
        };
        let objects = repo.templates.iter().map(|t| &t.object.id);
        let mut matching: BTreeSet<&ObjectRef> =
            objects.chain(plan.placements.iter().map(|p| &p.object)).filter(|id| meant(id)).collect();
        if matching.is_empty() {
            // A policy stands for what it places.
            let placed = plan.placements.iter().filter(|p| p.policy.as_ref().is_some_and(meant));
            matching = placed.map(|p| &p.object).collect();
        }
        match matching.into_iter().collect::<Vec<_>>().as_slice() {
            [one] => Ok((*one).clone()),
            [] => Err(Fault::Failed(format!(
                "no template {kind}/{name} in the repo, and no policy that places any"
            ))),
            several => {
                let all: Vec<String> = several.iter().map(ToString::to_string).collect();
                Err(Fault::Failed(format!(
                    "{} is ambiguous: {}; name one of them, or choose with -n",
                    self.object,
                    all.join(", ")
                )))
            }
        }
    }
}

fn explain(repo: &Repo, engine: &Engine<'_>, plan: &Plan, id: &ObjectRef) -> Option<Explained> {
    let explanation = engine.explain(id, plan)?;
    let template = repo.template(id).map(|t| &t.object);
    let policy = explanation.placement.policy.as_ref();
    let claimed = || repo.claimed.iter().map(|c| &c.object).find(|o| Some(&o.id) == policy);
    let origin = &template.or_else(claimed)?.origin;
    let changed = engine.variants(plan, id).into_iter().map(|variant| match variant.rendered {
        Ok(rendered) => Changed { clusters: variant.clusters, overrides: rendered.changes, failed: None },
        Err(withheld) => {
            let failed = withheld.finding.map_or_else(|| withheld.status.to_owned(), |f| f.message);
            Changed { clusters: variant.clusters, overrides: Vec::new(), failed: Some(failed) }
        }
    });
    Some(Explained::new(origin, explanation, changed.collect()))
}
