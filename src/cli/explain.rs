//! `federate explain`

use std::path::{Path, PathBuf};

use clap::Args;
use clap_complete::ArgValueCompleter;
use serde::Serialize;

use super::settings::{OutputFormat, RepoArgs, exit_for_findings};
use super::{CommandError, Exit, completers, plan, print_text, print_value};
use federate_dialect::Plan;
use federate_engine::TOO_MUCH_WORK;
use federate_kubernetes::schema::find_nearest;
use federate_kubernetes::{Finding, ObjectRef};
use federate_report::cluster_names::join_clusters;
use federate_report::clusters::{self, ExplainedCluster};
use federate_report::explanation::{self, ExplainedObject, ExplainedPolicy, UnplacedExplanation};
use federate_report::table::TextStyle;
use federate_session::{NamedObject, Session};

/// Explain why an object is placed where it is
///
/// Shows, for each cluster, the filter that excluded it, its score (Karmada: 100 where the object is placed already),
/// its replicas with the arithmetic, and the overrides with the paths that they changed. For an object that is placed nowhere, shows what keeps it from
/// each policy. For a policy, shows what it places; for an override policy, what it changes; for a cluster, whether it is ready,
/// what is placed there, and which policies choose it.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(super) struct ExplainCommand {
    /// The object, policy or cluster, as KIND/NAME or KIND/NAMESPACE/NAME
    ///
    /// Kinds are named as in kubectl: deployment, deploy, deployments.apps, cpp. KIND NAME works, too.
    #[arg(value_name = "KIND/NAME", add = ArgValueCompleter::new(completers::complete_objects))]
    object: String,

    /// The namespace, if several namespaces have an object of that name
    #[arg(long, short)]
    namespace: Option<String>,

    /// Output format
    #[arg(long, short, value_enum, default_value = "table")]
    output: OutputFormat,

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
  federate explain clusteroverridepolicy/registries examples/repo
  federate explain cluster/eu-1 examples/repo";

impl ExplainCommand {
    pub(super) fn run(mut self) -> Result<Exit, CommandError> {
        self.read_positionals()?;
        let session = self.args.open_leaked_session()?;
        self.args.say_cluster_notices(&session)?;
        let (subject, found) = explain_subject(&session, &self.object, self.namespace.as_deref())?;
        self.print_subject(&session, subject, &found)?;
        Ok(exit_for_findings(&found))
    }

    /// Prints an explanation, with the findings about its subject.
    fn print_subject(
        &self,
        session: &Session,
        mut subject: ExplainedSubject,
        found: &[Finding],
    ) -> Result<(), CommandError> {
        let style = self.args.text_style();
        if let ExplainedSubject::Object(explained) = &mut subject {
            explained.explanation.clusters.retain(|row| self.args.selects_cluster(&row.cluster));
        }
        if self.output != OutputFormat::Table {
            return print_value(&subject, self.output);
        }
        let inventory: Vec<&str> = session.clusters().iter().map(|cluster| cluster.name.as_ref()).collect();
        match &subject {
            ExplainedSubject::Object(explained) => {
                print_text(&explanation::format_explanation(explained, &inventory, style))
            }
            ExplainedSubject::Unplaced(unplaced) => print_text(&explanation::format_unplaced(unplaced)),
            ExplainedSubject::Policy(policy) if session.stays_on_control_plane(&policy.policy) => {
                let why = "stays on its control plane: federate neither places it nor decides by it";
                let more = session.describe_kept_object(&policy.policy);
                let more = more.map(|more| format!("; {more}")).unwrap_or_default();
                print_text(&format!("{} ({}) {why}{more}\n", policy.policy, policy.origin))
            }
            ExplainedSubject::Policy(policy) => {
                let mut plan = session.plan_with_replicas();
                plan.placements.retain(|row| row.policy.as_ref() == Some(&policy.policy));
                plan.unmatched.clear();
                let style = TextStyle { quiet: true, ..style };
                let table = plan::format_plan_table(
                    session,
                    &self.args.narrow_plan(&plan),
                    |name| self.args.selects_cluster(name),
                    false,
                    style,
                );
                print_text(&explanation::format_policy(policy, &table, &inventory, style))?;
                self.args.report_in_full(session, found);
                Ok(())
            }
            ExplainedSubject::Cluster(explained) => {
                let plan = Plan { placements: explained.placements.clone(), ..Plan::default() };
                let table = plan::format_plan_table(
                    session,
                    &plan,
                    |name| self.args.selects_cluster(name),
                    false,
                    TextStyle { quiet: true, ..style },
                );
                print_text(&clusters::explained_cluster(explained, &table, style))
            }
        }
    }

    /// Takes `KIND NAME [REPO]` for `KIND/NAME [REPO]`, as in kubectl.
    fn read_positionals(&mut self) -> Result<(), CommandError> {
        let after = self.repo_after_name.take();
        if self.object.contains('/') {
            return match after {
                Some(word) => {
                    Err(CommandError::Failed(format!("`{}` is one argument too many", word.display())))
                }
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
}

/// What was explained: the document of `-o json`.
#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum ExplainedSubject {
    Object(Box<ExplainedObject>),
    Unplaced(UnplacedExplanation),
    Policy(Box<ExplainedPolicy>),
    Cluster(Box<ExplainedCluster>),
}

/// Explains an object, a policy or a cluster, named as KIND/NAME or KIND/NAMESPACE/NAME, with the findings about it.
pub(super) fn explain_subject(
    session: &Session,
    object: &str,
    namespace: Option<&str>,
) -> Result<(ExplainedSubject, Vec<Finding>), CommandError> {
    let Some((kind, name)) = object.split_once('/') else {
        return Err(CommandError::Failed(format!("`{object}` is not KIND/NAME, such as deployment/web")));
    };
    let found = session.find_object(kind, name, namespace);
    if found.is_err() && session.names_clusters(kind) {
        return Ok((ExplainedSubject::Cluster(Box::new(explain_cluster(session, name)?)), Vec::new()));
    }
    match found.map_err(|error| CommandError::Failed(error.to_string()))? {
        NamedObject::Object(id) => explain_object(session, &id),
        NamedObject::Policy(id) => {
            let policy = session.explain_policy(&id).map_err(to_command_error)?;
            let Some(policy) = policy else {
                return Err(CommandError::Failed(format!(
                    "{id} has an error, which `federate check` reports"
                )));
            };
            if let [only] = policy.placed.as_slice() {
                return explain_object(session, only);
            }
            let mut found = session.check_repo();
            found.retain(|finding| finding.object.as_ref() == Some(&policy.policy));
            Ok((ExplainedSubject::Policy(Box::new(policy)), found))
        }
    }
}

fn explain_cluster(session: &Session, name: &str) -> Result<ExplainedCluster, CommandError> {
    let explained = session.explain_cluster(name).map_err(to_command_error)?;
    explained.ok_or_else(|| {
        let names: Vec<&str> = session.clusters().iter().map(|cluster| cluster.name.as_ref()).collect();
        let near =
            find_nearest(name, &names).map(|near| format!("; did you mean `{near}`?")).unwrap_or_default();
        let names = join_clusters(&names, &[], false);
        CommandError::Failed(format!("no cluster `{name}` in the inventory (there are: {names}){near}"))
    })
}

fn explain_object(
    session: &Session,
    id: &ObjectRef,
) -> Result<(ExplainedSubject, Vec<Finding>), CommandError> {
    let mut found = session.plan_findings_with_overrides();
    let explained = session.explain_object(id).map_err(to_command_error)?;
    // An override that fails may be the object of the finding.
    let manifests = explained.iter().flat_map(|explained| &explained.manifests);
    let failures: Vec<&String> = manifests.filter_map(|changed| changed.failed.as_ref()).collect();
    if let Some(exceeded) = found.iter().find(|finding| finding.code == TOO_MUCH_WORK) {
        let help = exceeded.help.as_deref().unwrap_or_default();
        return Err(CommandError::Failed(format!("{}: {help}", exceeded.message)));
    }
    found.retain(|finding| finding.object.as_ref() == Some(id) || failures.contains(&&finding.message));
    let subject = match explained {
        Some(explained) => ExplainedSubject::Object(Box::new(explained)),
        None => ExplainedSubject::Unplaced(session.explain_unplaced(id, &found)),
    };
    Ok((subject, found))
}

fn to_command_error(exceeded: impl std::fmt::Display) -> CommandError {
    CommandError::Failed(exceeded.to_string())
}
