//! `federate explain`

use std::path::{Path, PathBuf};

use clap::Args;
use clap_complete::ArgValueCompleter;

use super::settings::{Format, RepoArgs, outcome};
use super::{Exit, Fault, complete, plan, print, print_value};
use federate_kubernetes::ObjectRef;
use federate_report::explanation::{self, ExplainedPolicy};
use federate_session::{Named, Session};

/// Explain why an object is placed where it is
///
/// Shows, for each cluster, the filter that excluded it, its score (Karmada: 100 where the object is placed already),
/// its replicas with the arithmetic, and the overrides with the paths that they changed. For an object that is placed nowhere, shows what keeps it from
/// each policy. For a policy, shows what it places; for an override policy, what it changes.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(super) struct Explain {
    /// The object or policy, as KIND/NAME or KIND/NAMESPACE/NAME
    ///
    /// Kinds are named as in kubectl: deployment, deploy, deployments.apps, cpp. KIND NAME works, too.
    #[arg(value_name = "KIND/NAME", add = ArgValueCompleter::new(complete::objects))]
    object: String,

    /// The namespace, if several namespaces have an object of that name
    #[arg(long, short)]
    namespace: Option<String>,

    /// Output format
    #[arg(long, short, value_enum, default_value = "table")]
    output: Format,

    #[command(flatten)]
    args: RepoArgs,

    /// REPO, after KIND NAME
    #[arg(value_name = "REPO", hide = true)]
    repo_after_name: Option<PathBuf>,
}

const EXAMPLES: &str = "\
Examples:
  federate explain deployment/worker examples/repo
  federate explain svc/search -n data examples/repo
  federate explain pp/checkout -n shop examples/repo
  federate explain clusteroverridepolicy/registries examples/repo";

impl Explain {
    pub(super) fn run(mut self) -> Result<Exit, Fault> {
        self.read_positionals()?;
        let Some((kind, name)) = self.object.split_once('/') else {
            return Err(Fault::Failed(format!("`{}` is not KIND/NAME, such as deployment/web", self.object)));
        };
        let session = self.args.last_session()?;
        let found = session.find(kind, name, self.namespace.as_deref());
        match found.map_err(|error| Fault::Failed(error.to_string()))? {
            Named::Object(id) => self.object(&session, &id),
            Named::Policy(id) => {
                let Some(policy) = session.explain_policy(&id) else { return Ok(Exit::Error) };
                match policy.placed.as_slice() {
                    [only] => self.object(&session, only),
                    _ => self.policy(&session, &policy),
                }
            }
        }
    }

    /// Takes `KIND NAME [REPO]` for `KIND/NAME [REPO]`, as in kubectl.
    fn read_positionals(&mut self) -> Result<(), Fault> {
        let after = self.repo_after_name.take();
        if self.object.contains('/') {
            return match after {
                Some(word) => Err(Fault::Failed(format!("`{}` is one argument too many", word.display()))),
                None => Ok(()),
            };
        }
        let is_name = self.args.repo != Path::new(".");
        if is_name && (after.is_some() || !self.args.repo.is_dir()) {
            self.object = format!("{}/{}", self.object, self.args.repo.display());
            self.args.repo = after.unwrap_or_else(|| ".".into());
        }
        Ok(())
    }

    fn object(&self, session: &Session, id: &ObjectRef) -> Result<Exit, Fault> {
        let mut found = session.plan_findings();
        found.retain(|finding| finding.object.as_ref() == Some(id));
        let Some(mut explained) = session.explain(id) else {
            let unplaced = session.explain_unplaced(id, &found);
            match self.output {
                Format::Table => print(&explanation::unplaced(&unplaced))?,
                format => print_value(&unplaced, format)?,
            }
            return Ok(outcome(&found));
        };
        explained.explanation.clusters.retain(|row| self.args.wants(&row.cluster));
        match self.output {
            Format::Table => print(&explanation::text(&explained, self.args.text_style()))?,
            format => print_value(&explained, format)?,
        }
        Ok(outcome(&found))
    }

    fn policy(&self, session: &Session, policy: &ExplainedPolicy) -> Result<Exit, Fault> {
        let mut found = session.check();
        found.retain(|finding| finding.object.as_ref() == Some(&policy.policy));
        if self.output == Format::Table {
            let mut plan = session.plan_with_replicas();
            plan.placements.retain(|row| row.policy.as_ref() == Some(&policy.policy));
            plan.unmatched.clear();
            let style = federate_report::table::TextStyle { quiet: true, ..self.args.text_style() };
            print(&explanation::policy(
                policy,
                &plan::table(session, &self.args.narrowed(&plan), false, style),
            ))?;
            self.args.report(session, &found);
        } else {
            print_value(policy, self.output)?;
        }
        Ok(outcome(&found))
    }
}
