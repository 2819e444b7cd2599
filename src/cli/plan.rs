//! `federate plan`

use std::collections::BTreeSet;

use clap::{Args, ValueEnum};

use super::filter::FilterArgs;
use super::settings::{RepoArgs, exit_for_findings};
use super::{CommandError, Exit, page, print_notice, print_text, print_to, print_unchanged};
use federate_dialect::Placement;
use federate_engine::previous;
use federate_kubernetes::ObjectRef;
use federate_kubernetes::display_text::{escape_json, escape_text};
use federate_report::control_plane_objects::describe_kept_objects;
use federate_report::decisions::{DecisionShape, write_decisions};
use federate_report::page::PageHost;
use federate_report::table::TextStyle;
use federate_report::{capacity, findings, plan as report};
use federate_session::Session;

/// Print where each object is placed, with how many replicas
///
/// Writes nothing. Objects that are placed on no cluster are listed with the reason. `-o json` prints the plan document, which --previous reads back.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(super) struct PlanCommand {
    /// Output format
    #[arg(long, short, value_enum, default_value = "table")]
    output: Output,

    /// Also print what the replicas request of each cluster, and what is left there
    ///
    /// What is left needs the free resources of the cluster, from the `status` of its inventory object or from a snapshot. Replicas of the previous plan count as running there already.
    #[arg(long)]
    capacity: bool,

    #[command(flatten)]
    filter: FilterArgs,

    #[command(flatten)]
    args: RepoArgs,
}

/// The output formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Output {
    /// For a terminal, within its width
    Table,
    /// A table with every column and every cluster
    Wide,
    /// The names of the objects, as `explain` reads them
    Name,
    /// For scripts
    Json,
    /// For scripts and people
    Yaml,
    /// One file to look at in a browser: a matrix of objects and clusters, with explanations
    Html,
    /// `PlacementDecision` objects of the Cluster Inventory API; `=sig` is the same
    #[value(name = "placementdecisions", alias = "placementdecisions=sig")]
    Decisions,
    /// `PlacementDecision` objects of Open Cluster Management, which Argo CD reads, with the ConfigMap for its generator
    #[value(name = "placementdecisions=ocm")]
    OcmDecisions,
    /// Inputs for the `ResourceSet`s of Flux Operator, one for each policy and cluster
    #[value(name = "placementdecisions=flux-inputs")]
    FluxInputs,
}

const EXAMPLES: &str = "\
Examples:
  federate plan examples/repo --cluster eu-1
  federate plan examples/repo -o wide
  federate plan examples/repo --capacity
  federate plan examples/repo -o html > plan.html
  federate plan examples/repo -o json > plan.json
  federate plan examples/ocm -o placementdecisions=ocm
  federate plan examples/repo --previous plan.json";

impl PlanCommand {
    pub(super) fn run(&self) -> Result<Exit, CommandError> {
        if self.capacity && !matches!(self.output, Output::Table | Output::Wide) {
            let why = "--capacity is a table: use it with `-o table` or `-o wide`";
            return Err(CommandError::Failed(why.to_owned()));
        }
        let session = self.args.open_leaked_session()?;
        self.args.say_cluster_notices(&session)?;
        let filter = self.filter.build_filter(&[&session]);
        let mut plan = self.args.narrow_plan(session.plan());
        if self.filter.is_given() {
            filter.narrow_plan(plan.to_mut());
        }
        match self.output {
            Output::Table | Output::Wide => print_text(&self.format_table(&session))?,
            Output::Name => print_unchanged(&report::format_names(&plan))?,
            Output::Json => print_to(|out| previous::write_plan_json(&plan, out), escape_json)?,
            Output::Yaml => print_to(|out| previous::write_plan_in_full(&plan, out), escape_text)?,
            Output::Html => print_unchanged(&self.render_page(&session)?)?,
            Output::Decisions => {
                print_unchanged(&decisions(&session, &plan, DecisionShape::ClusterInventory))?;
            }
            Output::OcmDecisions => print_unchanged(&decisions(&session, &plan, DecisionShape::Ocm))?,
            Output::FluxInputs => print_unchanged(&decisions(&session, &plan, DecisionShape::FluxInputs))?,
        }
        let kept = describe_kept_objects(session.repo(), session.dialects());
        if let Some(kept) = kept.filter(|_| !self.args.quiet) {
            print_notice(&format!("note: {kept}\n"));
        }
        let mut findings = session.plan_findings_with_overrides();
        // Causes first: without clusters or policies, nothing can be placed.
        findings.splice(0..0, session.report_missing());
        let exit = exit_for_findings(&findings);
        // Errors concern everything: nothing can be rendered.
        findings.retain(|finding| finding.is_error() || filter.shows_finding(finding));
        self.args.report_findings(&session, &findings);
        Ok(exit)
    }

    /// The plan with the replicas of manifests, reduced to what is shown.
    fn shown_plan(&self, session: &Session) -> federate_dialect::Plan {
        let mut plan = self.args.narrow_plan(&session.plan_with_replicas()).into_owned();
        if self.filter.is_given() {
            self.filter.build_filter(&[session]).narrow_plan(&mut plan);
        }
        plan
    }

    fn render_page(&self, session: &Session) -> Result<String, CommandError> {
        let mut findings = session.check_repo();
        findings.retain(|finding| self.filter.build_filter(&[session]).shows_finding(finding));
        let rows = findings::build_rows(session.repo(), &findings);
        let name = self.args.repo.display().to_string();
        page::format_plan_page(&name, session, &self.shown_plan(session), &rows, PageHost::File)
    }

    fn format_table(&self, session: &Session) -> String {
        let (plan, style) = (self.shown_plan(session), self.args.text_style());
        let mut text = format_plan_table(
            session,
            &plan,
            |name| self.args.selects_cluster(name),
            self.output == Output::Wide,
            style,
        );
        if self.capacity {
            text.push('\n');
            text.push_str(&capacity::format_table(&session.compute_usage(&plan), style));
        }
        text
    }
}

/// The decisions of a plan as objects for other tools.
fn decisions(session: &Session, plan: &federate_dialect::Plan, shape: DecisionShape) -> String {
    let engine = session.build_engine();
    write_decisions(plan, shape, |row: &Placement| {
        engine.find_planner(&row.dialect).map(|plane| plane.decision_records(row)).unwrap_or_default()
    })
}

/// The plan as a table, with every column and cluster if it is `wide`.
pub(super) fn format_plan_table(
    session: &Session,
    plan: &federate_dialect::Plan,
    selects: impl Fn(&str) -> bool,
    wide: bool,
    style: TextStyle,
) -> String {
    let dialects = session.dialects();
    let findings = session.plan_findings();
    let unschedulable: BTreeSet<&ObjectRef> = findings
        .iter()
        .filter(|finding| finding.code == "unschedulable")
        .filter_map(|finding| finding.object.as_ref())
        .collect();
    let clusters = session.clusters().iter().map(|cluster| cluster.name.as_ref());
    let clusters: Vec<&str> = clusters.filter(|name| selects(name)).collect();
    let context = report::PlanContext {
        clusters: &clusters,
        is_policy: &|id| dialects.iter().any(|one| one.role_of_kind(&id.api_version, &id.kind).is_some()),
        follows_nowhere: &|id| unschedulable.contains(id),
        wide,
    };
    report::format_table(plan, context, style)
}
