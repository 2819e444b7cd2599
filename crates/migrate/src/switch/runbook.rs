//! The runbook of a switch, written for one repo.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use federate_dialect::HUB;
use federate_kubernetes::{ObjectRef, finding};
use federate_repo::Role;
use federate_report::table::format_count;
use federate_session::Session;

use super::SwitchStep;
use super::facts::{Controller, NewPlane, OldPlane, Pause, describe_new_plane, describe_old_plane};
use crate::{MigrationReport, ProofSides, Target};

/// The name of the file with the runbook.
pub const RUNBOOK_FILE: &str = "MIGRATION.md";

/// The most names that a list has.
const MAX_NAMES: usize = 200;

/// The most rules about the repo as a whole that are named for each reason.
const MAX_NAMED_RULES: usize = 10;

/// The most files that are applied one by one.
const MAX_APPLIED_FILES: usize = 60;

/// How the folders of the switch are called in commands.
#[derive(Clone, Debug)]
pub struct RunbookNames {
    /// The folder of the old repo.
    pub old_repo: String,
    /// The folder of the new repo.
    pub new_repo: String,
}

/// What a runbook is written about.
struct Runbook<'r> {
    names: &'r RunbookNames,
    sides: ProofSides<'r>,
    target: Target,
    old_planes: Vec<OldPlane>,
    new_plane: Option<NewPlane>,
    /// The context of each cluster of the new inventory.
    contexts: BTreeMap<String, String>,
    /// The policies of the new control plane, with their files.
    policies: BTreeMap<ObjectRef, String>,
    out: String,
}

/// Writes the runbook of a migration.
pub fn write_runbook(
    names: &RunbookNames,
    sides: ProofSides<'_>,
    target: Target,
    report: &MigrationReport,
) -> String {
    let mut runbook = Runbook {
        names,
        sides,
        target,
        old_planes: report.from.iter().filter_map(|dialect| describe_old_plane(dialect)).collect(),
        new_plane: describe_new_plane(target),
        contexts: find_contexts(sides.new),
        policies: find_policies(sides.new, target),
        out: String::new(),
    };
    runbook.write_head(report);
    for (number, step) in runbook.list_steps().into_iter().enumerate() {
        runbook.write_step(number + 1, step);
    }
    runbook.write_way_back();
    runbook.out
}

/// The context of each cluster.
fn find_contexts(session: &Session) -> BTreeMap<String, String> {
    let named = &session.repo().config.contexts;
    let clusters = session.clusters().iter().map(|cluster| cluster.name.to_string());
    clusters
        .map(|name| {
            let context = named.get(&name).cloned().unwrap_or_else(|| name.clone());
            (name, context)
        })
        .collect()
}

/// The placement policies of a control plane, with their files.
fn find_policies(session: &Session, target: Target) -> BTreeMap<ObjectRef, String> {
    let claimed = session.repo().claimed.iter();
    claimed
        .filter(|claimed| claimed.dialect == target.name() && claimed.role == Role::Placement)
        .map(|claimed| (claimed.object.id.clone(), claimed.object.origin.file.to_string()))
        .collect()
}

/// A word for a shell.
fn quote_word(word: &str) -> String {
    if !word.is_empty() && word.chars().all(|c| c.is_ascii_alphanumeric() || "_-./=:@%+,".contains(c)) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

impl Runbook<'_> {
    fn list_steps(&self) -> Vec<SwitchStep> {
        let without_plane = [SwitchStep::Register, SwitchStep::Load];
        let without_old = [SwitchStep::Stop, SwitchStep::Clean];
        SwitchStep::ALL
            .into_iter()
            .filter(|step| self.new_plane.is_some() || !without_plane.contains(step))
            .filter(|step| !self.old_planes.is_empty() || !without_old.contains(step))
            .collect()
    }

    fn old_title(&self) -> String {
        let titles: Vec<&str> = self.old_planes.iter().map(|plane| plane.title).collect();
        if titles.is_empty() { "what deploys now".to_owned() } else { titles.join(" and ") }
    }

    fn write_line(&mut self, line: &str) {
        self.out.push_str(line);
        self.out.push('\n');
    }

    fn write_code(&mut self, lines: &[String]) {
        self.write_line("\n```sh");
        for line in lines {
            self.write_line(line);
        }
        self.write_line("```\n");
    }

    fn write_head(&mut self, report: &MigrationReport) {
        let title = format!("# From {} to {}", self.old_title(), self.target.title());
        self.write_line(&title);
        let summary = format!("\n{}\n", report.summary);
        self.write_line(&summary);
        let placed = self.sides.new.plan().placements.iter().filter(|row| !row.clusters.is_empty());
        let namespaces: BTreeSet<String> = placed.filter_map(|row| row.object.namespace.clone()).collect();
        let clusters: Vec<&str> = self.contexts.keys().map(String::as_str).collect();
        let facts = format!(
            "- clusters: {}\n- namespaces: {}\n- policies of the new side: {}",
            join_names(&clusters),
            join_names(&namespaces.iter().map(String::as_str).collect::<Vec<_>>()),
            join_names(&self.policies.keys().map(ToString::to_string).collect::<Vec<_>>()),
        );
        self.write_line(&facts);
        if !report.reasons.is_empty() {
            self.write_line(
                "\nRules that the new side does not have; `federate migrate` names the objects and lines:\n",
            );
            for row in &report.reasons {
                let objects = format_count(row.objects, "object");
                let line = format!("- `{}` ({objects}): {}", row.reason.name(), row.meaning);
                self.write_line(&line);
            }
        }
        let mut of_repo: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for rule in &report.repo {
            of_repo.entry(rule.reason.name()).or_default().push(&rule.detail);
        }
        for (reason, details) in of_repo {
            let details = finding::join_names(&details, MAX_NAMED_RULES);
            self.write_line(&format!("- `{reason}`, the repo as a whole: {details}"));
        }
        self.write_line(
            "\nThe commands need `kubectl`, `federate` and access to every cluster. Each step ends with a check; do not begin \
             the next step before it holds. Contexts, as far as the repo does not name them:",
        );
        let mut lines = Vec::new();
        if !self.old_planes.is_empty() {
            lines.push(
                "OLD=old-host       # the cluster with the controllers of the old control plane".to_owned(),
            );
        }
        if self.new_plane.is_some() {
            lines.push("NEW=new-hub        # the API server of the new control plane".to_owned());
            lines.push("NEW_HOST=new-host  # the cluster with its controllers".to_owned());
        }
        if !lines.is_empty() {
            self.write_code(&lines);
        }
    }

    fn write_step(&mut self, number: usize, step: SwitchStep) {
        let heading = format!("## {number}. {} (`{}`)\n", step.title(), step.name());
        self.write_line(&heading);
        match step {
            SwitchStep::Record => self.write_record(),
            SwitchStep::Register => self.write_registration(),
            SwitchStep::Load => self.write_load(),
            SwitchStep::Stop => self.write_stop(),
            SwitchStep::TakeOver => self.write_take_over(),
            SwitchStep::Clean => self.write_clean(),
        }
    }

    /// Takes a snapshot and compares it with what the steps expect.
    fn check_lines(&self, snapshot: &str, with_hub: bool) -> Vec<String> {
        let (old, new) = (quote_word(&self.names.old_repo), quote_word(&self.names.new_repo));
        let hub = if with_hub && self.new_plane.is_some() { " --hub-context \"$NEW\"" } else { "" };
        let contexts: Vec<String> = self
            .contexts
            .iter()
            .map(|(cluster, context)| {
                quote_word(&if cluster == context { cluster.clone() } else { format!("{cluster}={context}") })
            })
            .collect();
        let read =
            if contexts.is_empty() { String::new() } else { format!(" --context {}", contexts.join(" ")) };
        vec![
            format!("federate snapshot {new}{hub}{read} --out {snapshot}"),
            format!("federate migrate {old} --to {} --check {snapshot}", self.target.name()),
        ]
    }

    fn write_record(&mut self) {
        let old = self.old_title();
        self.write_line(&format!(
            "Nothing is paused; {old} manages the objects. The snapshot is what later steps are compared with. Stop changes of \
             the repo from here to the end."
        ));
        let lines = self.check_lines("before", false);
        self.write_code(&lines);
    }

    fn write_registration(&mut self) {
        let Some(plane) = self.new_plane else { return };
        self.write_line(
            "Credentials of members are not in the repo: register each cluster with the new control plane under its present \
             name. The labels of the inventory are those that policies select.",
        );
        let mut lines: Vec<String> = self
            .contexts
            .keys()
            .map(|name| plane.registration.replace("CLUSTER", &quote_word(name)))
            .collect();
        lines.extend(self.label_lines());
        self.write_code(&lines);
    }

    /// Labels the clusters as the inventory of the new repo does.
    fn label_lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        let dialects = self.sides.new.dialects();
        // Control planes add labels of their own.
        let is_own = |key: &str| dialects.is_of_control_plane(key.split_once('/').map_or("", |(d, _)| d));
        for cluster in self.sides.new.clusters() {
            let kind = name_kind(&cluster.id);
            let labels = cluster.labels.iter().filter(|(key, _)| !is_own(key));
            let labels: Vec<String> =
                labels.map(|(key, value)| quote_word(&format!("{key}={value}"))).collect();
            if labels.is_empty() {
                continue;
            }
            lines.push(format!(
                "kubectl --context \"$NEW\" label --overwrite {kind} {} {}",
                quote_word(&cluster.name),
                labels.join(" ")
            ));
        }
        lines
    }

    /// The files that contain nothing but policies, or `None` if policies share files with templates.
    fn policy_files(&self) -> Option<BTreeSet<&str>> {
        let files: BTreeSet<&str> = self.policies.values().map(String::as_str).collect();
        let mut templates = self.sides.new.repo().templates.iter();
        let is_shared = templates.any(|template| files.contains(template.object.origin.file.as_ref()));
        (!is_shared).then_some(files)
    }

    fn patch_lines(&self, patch: &str) -> Vec<String> {
        let lines = self.policies.keys().map(|policy| {
            let kind = name_kind(policy);
            let namespace = policy.namespace.as_ref();
            let namespace = namespace.map(|name| format!(" -n {}", quote_word(name))).unwrap_or_default();
            format!(
                "kubectl --context \"$NEW\" patch {kind} {}{namespace} --type merge -p '{patch}'",
                quote_word(&policy.name)
            )
        });
        lines.collect()
    }

    fn write_load(&mut self) {
        let Some(plane) = self.new_plane else { return };
        let text = format!(
            "{} still manages the objects. The new side is paused: {}. Nothing in the members may change.",
            self.old_title(),
            plane.waits
        );
        self.write_line(&text);
        let policies = self.policy_files();
        let mut lines = Vec::new();
        match (plane.pause, policies) {
            (Pause::Patches { pause, .. }, Some(policies)) => {
                lines.push("# Policies first: without templates they do nothing.".to_owned());
                lines.extend(self.apply_lines(&policies));
                lines.extend(self.patch_lines(pause));
                lines.push("# Then everything else.".to_owned());
                lines.extend(self.apply_lines(&self.other_files(&policies)));
            }
            (Pause::Patches { pause, .. }, None) => {
                lines.push("# Policies and templates are in the same files: stop the scheduler until they are paused.".to_owned());
                lines.push(scale_line("\"$NEW_HOST\"", plane.scheduler, 0));
                lines.extend(self.apply_lines(&self.other_files(&BTreeSet::new())));
                lines.extend(self.patch_lines(pause));
                lines.push(scale_line("\"$NEW_HOST\"", plane.scheduler, 1));
            }
            (Pause::Annotations { pause, .. }, _) => {
                lines.push("# Each file with the annotations that pause it.".to_owned());
                lines.extend(self.annotated_lines(pause));
            }
        }
        lines.extend(self.check_lines("loaded", true));
        self.write_code(&lines);
        self.write_line(&format!("{}.\n", plane.adoption));
    }

    /// The files with templates and with objects of the new control plane, but the inventory and some others.
    fn other_files<'f>(&'f self, without: &BTreeSet<&str>) -> BTreeSet<&'f str> {
        let repo = self.sides.new.repo();
        let templates = repo.templates.iter().map(|template| &template.object);
        let claimed = repo
            .claimed
            .iter()
            .filter(|claimed| claimed.dialect == self.target.name() && claimed.role != Role::Inventory);
        let objects = templates.chain(claimed.map(|claimed| &claimed.object));
        let files = objects.map(|object| object.origin.file.as_ref());
        files.filter(|file| !without.contains(file)).collect()
    }

    /// Applies files.
    fn apply_lines(&self, files: &BTreeSet<&str>) -> Vec<String> {
        let paths = self.path_options(files).into_iter();
        paths.map(|path| format!("kubectl --context \"$NEW\" apply {path}")).collect()
    }

    /// Files as options of kubectl; where they are many, the folders at the root that have them.
    fn path_options(&self, files: &BTreeSet<&str>) -> Vec<String> {
        let whole: BTreeSet<&str> = if files.len() > MAX_APPLIED_FILES {
            files.iter().map(|file| file.split_once('/').map_or(*file, |(folder, _)| folder)).collect()
        } else {
            files.clone()
        };
        let lines = whole.into_iter().map(|path| {
            let recursive = if files.contains(path) { "" } else { "--recursive " };
            format!("{recursive}-f {}", quote_word(&format!("{}/{path}", self.names.new_repo)))
        });
        lines.collect()
    }

    /// Applies files with annotations that they do not have.
    fn annotated_lines(&self, annotations: &[&str]) -> Vec<String> {
        let annotations: Vec<String> = annotations.iter().map(|one| quote_word(one)).collect();
        let annotations = annotations.join(" ");
        let files = self.other_files(&BTreeSet::new());
        let lines = self.path_options(&files).into_iter().map(|path| {
            format!(
                "kubectl annotate --local --overwrite -o yaml {path} {annotations} | kubectl --context \"$NEW\" apply -f -"
            )
        });
        lines.collect()
    }

    /// Removes an annotation from what files have.
    fn resume_lines(&self, annotation: &str) -> Vec<String> {
        let files = self.other_files(&BTreeSet::new());
        let paths = self.path_options(&files).into_iter();
        paths.map(|path| format!("kubectl --context \"$NEW\" annotate {path} {annotation}-")).collect()
    }

    fn write_stop(&mut self) {
        self.write_line(
            "Scale to 0, and delete nothing: deleting the objects of a control plane deletes those of the members. Objects run on \
             without a controller.",
        );
        let mut lines = Vec::new();
        for plane in &self.old_planes {
            lines.extend(plane.controllers.iter().map(|one| scale_line("\"$OLD\"", *one, 0)));
            if !plane.agents_run_in.is_empty() {
                lines.push(format!("# Agents run only in {}.", plane.agents_run_in));
            }
            for context in self.contexts.values() {
                lines.extend(plane.agents.iter().map(|one| scale_line(&quote_word(context), *one, 0)));
            }
        }
        self.write_code(&lines);
    }

    fn write_take_over(&mut self) {
        let new = quote_word(&self.names.new_repo);
        let mut lines = Vec::new();
        match self.new_plane {
            Some(NewPlane { pause: Pause::Patches { resume, .. }, .. }) => {
                self.write_line(
                    "The new side is resumed, and takes over what runs. No pod restarts: pod templates and replicas stay as they \
                     are. Resume one policy first, and check, if you want to go slowly.",
                );
                lines.extend(self.patch_lines(resume));
            }
            Some(NewPlane { pause: Pause::Annotations { resume, .. }, .. }) => {
                self.write_line(
                    "The new side is resumed, and takes over what runs. No pod restarts: pod templates and replicas stay as they \
                     are. Resume one file first, and check, if you want to go slowly.",
                );
                lines.extend(self.resume_lines(resume));
            }
            None => {
                self.write_line(
                    "federate, or the GitOps tool that deploys what it renders, takes over what runs. The dry run must end with \
                     `0 with restarts of pods`.",
                );
                lines.push(format!("federate apply {new} --dry-run=server"));
                lines.push(format!("federate apply {new}"));
            }
        }
        lines.extend(self.check_lines("after", true));
        lines.push(format!("federate drift {new}"));
        self.write_code(&lines);
    }

    fn write_clean(&mut self) {
        self.write_line(
            "A step of its own, days later: until here the way back is open. The labels and annotations restart nothing. Then \
             delete the old control plane's own objects:",
        );
        for plane in self.old_planes.clone() {
            self.write_line(&format!("- {}: {}.", plane.title, plane.deletion));
        }
        let mut lines = vec![format!("KINDS={}", self.placed_kinds().join(","))];
        let contexts: Vec<String> = self.contexts.values().map(|context| quote_word(context)).collect();
        lines.push(format!("for context in {}; do", contexts.join(" ")));
        for plane in &self.old_planes {
            lines.extend(plane.labels.iter().map(|key| {
                format!("  kubectl --context \"$context\" label \"$KINDS\" -l {key} --all-namespaces {key}-")
            }));
            lines.extend(plane.annotations.iter().map(|key| {
                format!("  kubectl --context \"$context\" annotate \"$KINDS\" --all --all-namespaces {key}-")
            }));
        }
        lines.push("done".to_owned());
        lines.extend(self.check_lines("cleaned", true));
        self.write_code(&lines);
    }

    /// The kinds that are placed, with their group.
    fn placed_kinds(&self) -> Vec<String> {
        let rows = self.sides.old.plan().placements.iter();
        let placed = rows.filter(|row| row.clusters.iter().any(|placed| placed.name.as_ref() != HUB));
        let kinds: BTreeSet<String> = placed.map(|row| name_kind(&row.object)).collect();
        kinds.into_iter().collect()
    }

    fn write_way_back(&mut self) {
        self.write_line("## The way back\n");
        self.write_line(
            "Until the last step, pause the new side again and start the old controllers. They find their objects as they left \
             them.",
        );
        let mut lines = Vec::new();
        if let Some(plane) = self.new_plane {
            if let Pause::Patches { pause, .. } = plane.pause {
                lines.extend(self.patch_lines(pause));
            }
            lines.extend(plane.stopped.iter().map(|one| scale_line("\"$NEW_HOST\"", *one, 0)));
            for context in self.contexts.values() {
                let agents = plane.stopped_agents.iter();
                lines.extend(agents.map(|one| scale_line(&quote_word(context), *one, 0)));
            }
        }
        for plane in &self.old_planes {
            if !plane.agents_run_in.is_empty() {
                lines.push(format!("# Agents run only in {}.", plane.agents_run_in));
            }
            for context in self.contexts.values() {
                lines.extend(plane.agents.iter().map(|one| scale_line(&quote_word(context), *one, 1)));
            }
            lines.extend(plane.controllers.iter().map(|one| scale_line("\"$OLD\"", *one, 1)));
        }
        let old = quote_word(&self.names.old_repo);
        lines.push(format!("federate drift {old}"));
        self.write_code(&lines);
    }
}

fn scale_line(context: &str, controller: Controller, replicas: u8) -> String {
    let Controller { namespace, deployment } = controller;
    format!("kubectl --context {context} scale deployment {deployment} -n {namespace} --replicas {replicas}")
}

/// A kind as kubectl takes it: with its group.
fn name_kind(object: &ObjectRef) -> String {
    let (kind, group) = (object.kind.to_lowercase(), object.group());
    if group.is_empty() { kind } else { format!("{kind}.{group}") }
}

/// Names as code, separated by commas.
fn join_names(names: &[impl AsRef<str>]) -> String {
    if names.is_empty() {
        return "none".to_owned();
    }
    let mut text = String::new();
    for name in names.iter().take(MAX_NAMES) {
        let separator = if text.is_empty() { "" } else { ", " };
        let _ = write!(text, "{separator}`{}`", name.as_ref());
    }
    if names.len() > MAX_NAMES {
        let _ = write!(text, " and {} more", names.len() - MAX_NAMES);
    }
    text
}
