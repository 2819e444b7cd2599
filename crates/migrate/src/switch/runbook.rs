//! The runbook of a switch, written for one repo.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use federate_apiserver_model::patches::apply_merge_patch;
use federate_dialect::HUB;

use federate_kubernetes::{Labels, ObjectRef, finding};
use federate_reconcile::ownership::PART_OF_LABEL;
use federate_repo::{ClaimedObject, Claims, Role};
use federate_report::table::format_count;
use federate_session::Session;
use serde_json::{Value, json};

use super::SwitchStep;
use super::facts::{Controller, NewPlane, OldPlane, Pause, describe_new_plane, describe_old_planes};
use crate::{MigrationReport, Mode, ProofSides, Target};

/// The name of the file with the runbook.
pub const RUNBOOK_FILE: &str = "MIGRATION.md";

/// The namespace that every API server has.
const DEFAULT_NAMESPACE: &str = "default";

/// The most names that a list has.
const MAX_NAMES: usize = 200;

/// The most rules about the repo as a whole that are named for each reason.
const MAX_NAMED_RULES: usize = 10;

/// The most files that have a command each.
const MAX_NAMED_FILES: usize = 20;

/// The line behind a list of files.
const END_OF_LIST: &str = "END OF THE LIST";

/// How the folders of the switch are called in commands.
#[derive(Clone, Debug)]
pub struct RunbookNames {
    /// The folder of the old repo.
    pub old_repo: String,
    /// The folder of the new repo.
    pub new_repo: String,
}

/// Files to which a step applies the same command.
struct RunbookFiles<'f> {
    /// The list that names them where they are many.
    list: &'static str,
    /// The paths below the folder of the new repo.
    files: BTreeSet<&'f str>,
}

impl RunbookFiles<'_> {
    /// Whether a list names them.
    fn are_listed(&self) -> bool {
        self.files.len() > MAX_NAMED_FILES
    }

    /// The command that writes the list.
    fn list_lines(&self) -> Vec<String> {
        let mut lines = vec![format!("cat > {} <<'{END_OF_LIST}'", self.list)];
        let files = self.files.iter().filter(|file| !file.contains('\n'));
        lines.extend(files.map(|file| (*file).to_owned()));
        lines.push(END_OF_LIST.to_owned());
        lines
    }
}

/// What a runbook is written about.
struct Runbook<'r> {
    names: &'r RunbookNames,
    sides: ProofSides<'r>,
    target: Target,
    /// How the migration is asked for, other than by its target.
    options: String,
    /// How many objects are different.
    different: usize,
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
        options: match report.mode {
            mode if mode == Mode::Idiomatic.name() => String::new(),
            mode => format!(" --mode {mode}"),
        },
        different: report.counts.different,
        old_planes: describe_old_planes(report.from.iter().map(AsRef::as_ref), sides.old),
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
    runbook.write_lists();
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

    /// The option that lets the repo name the contexts of its clusters, if they have other names.
    fn contexts_option(&self) -> String {
        let named = self.contexts.iter().filter(|(cluster, context)| cluster != context);
        let named: Vec<&str> = named.map(|(_, context)| context.as_str()).collect();
        if named.is_empty() {
            return String::new();
        }
        format!(" --contexts-from-repo={}", quote_word(&named.join(",")))
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
            format!("federate migrate {old} --to {}{} --check {snapshot}", self.target.name(), self.options),
        ]
    }

    fn write_record(&mut self) {
        let old = self.old_title();
        self.write_line(&format!(
            "Nothing is paused; the objects are those of {old}. The snapshot is what later steps are compared with. Stop changes of \
             the repo from here to the end."
        ));
        let lines = self.check_lines("before", false);
        self.write_code(&lines);
    }

    fn write_registration(&mut self) {
        let Some(plane) = self.new_plane else { return };
        self.write_line(
            "Credentials of members are not in the repo: register each cluster with the new control plane under its present \
             name. Labels and taints are those of the inventory, by which policies select clusters.",
        );
        let mut lines: Vec<String> = self
            .contexts
            .iter()
            .map(|(name, context)| {
                let line = plane.registration.replace("CONTEXT", &quote_word(context));
                line.replace("CLUSTER", &quote_word(name))
            })
            .collect();
        lines.extend(self.inventory_lines(plane));
        lines.extend(self.check_lines("registered", true));
        self.write_code(&lines);
    }

    /// Gives the registered clusters what the inventory of the new repo says about them.
    fn inventory_lines(&self, plane: NewPlane) -> Vec<String> {
        let mut lines = Vec::new();
        for claimed in self.sides.new.repo().claimed.iter().filter(|one| self.is_new_inventory(one)) {
            let id = &claimed.object.id;
            let spec: serde_json::Map<String, Value> = plane
                .inventory_fields
                .iter()
                .filter_map(|field| {
                    Some(((*field).to_owned(), claimed.object.value_at(&["spec", field])?.clone()))
                })
                .collect();
            let mut patch = serde_json::Map::new();
            let labels = claimed.object.labels();
            if !labels.is_empty() {
                patch.insert("metadata".to_owned(), json!({ "labels": labels }));
            }
            if !spec.is_empty() {
                patch.insert("spec".to_owned(), Value::Object(spec));
            }
            if !patch.is_empty() {
                lines.push(format!(
                    "kubectl --context \"$NEW\" patch {} {} --type merge -p {}",
                    name_kind(id),
                    quote_word(&id.name),
                    quote_word(&Value::Object(patch).to_string())
                ));
            }
        }
        lines
    }

    /// Whether an object is one of the new side's inventory.
    fn is_new_inventory(&self, claimed: &ClaimedObject) -> bool {
        claimed.dialect == self.target.name() && claimed.role == Role::Inventory
    }

    /// The files with policies: those that contain no templates, and those that do.
    fn split_policy_files(&self) -> (RunbookFiles<'_>, BTreeSet<&str>) {
        let templates = self.sides.new.repo().templates.iter();
        let shared: BTreeSet<&str> = templates.map(|template| template.object.origin.file.as_ref()).collect();
        let (files, shared) =
            self.policies.values().map(String::as_str).partition(|file| !shared.contains(file));
        (RunbookFiles { list: "policy-files.txt", files }, shared)
    }

    fn list_policy_files(&self) -> BTreeSet<&str> {
        self.policies.values().map(String::as_str).collect()
    }

    /// Patches the policies of some files.
    fn patch_lines(&self, patch: &str, files: &BTreeSet<&str>) -> Vec<String> {
        let policies = self.policies.iter().filter(|(_, file)| files.contains(file.as_str()));
        let lines = policies.map(|(policy, _)| {
            let kind = name_versioned_kind(policy);
            let patch = self.keep_own_suspension(policy, patch);
            let namespace = policy.namespace.as_ref();
            let namespace = namespace.map(|name| format!(" -n {}", quote_word(name))).unwrap_or_default();
            format!(
                "kubectl --context \"$NEW\" patch {kind} {}{namespace} --type merge -p {}",
                quote_word(&policy.name),
                quote_word(&patch)
            )
        });
        lines.collect()
    }

    /// A patch that resumes, with what the policy itself suspends.
    fn keep_own_suspension(&self, policy: &ObjectRef, patch: &str) -> String {
        let mut value: Value = serde_json::from_str(patch).unwrap_or_default();
        let claimed = self.sides.new.repo().claimed.iter();
        let own = claimed.filter(|claimed| claimed.object.id == *policy).find_map(|claimed| {
            claimed.object.value_at(&["spec", "suspension"]).filter(|own| own.is_object())
        });
        match (value.pointer_mut("/spec/suspension"), own) {
            (Some(suspension), Some(own)) if suspension.is_null() => {
                *suspension = json!({
                    "dispatching": own.get("dispatching"),
                    "dispatchingOnClusters": own.get("dispatchingOnClusters"),
                });
                value.to_string()
            }
            _ => patch.to_owned(),
        }
    }

    /// Loads all files but those of the inventory, and pauses the policies before what they select is there.
    fn load_lines(&self, patch: &str, scheduler: Option<Controller>) -> Vec<String> {
        let (alone, shared) = self.split_policy_files();
        let mut lines = Vec::new();
        if scheduler.is_some() {
            lines.extend(self.apply_lines(&self.all_files()));
            lines.extend(self.patch_lines(patch, &self.list_policy_files()));
            return lines;
        }
        lines.push(
            "# The policies are created as they are while they are paused, before what they select is there."
                .to_owned(),
        );
        lines.extend(self.create_paused_lines(patch));
        lines.extend(self.apply_lines(&alone));
        lines.extend(self.patch_lines(patch, &alone.files));
        for file in shared {
            let files = BTreeSet::from([file]);
            lines.extend(self.apply_lines(&RunbookFiles { list: "", files: files.clone() }));
            lines.extend(self.patch_lines(patch, &files));
        }
        lines.extend(self.apply_lines(&self.object_files()));
        lines
    }

    fn write_load(&mut self) {
        let Some(plane) = self.new_plane else { return };
        let text = format!(
            "The objects are still those of {}. The new side is paused: {}. Nothing in the members may change.{}",
            self.old_title(),
            plane.waits,
            self.name_custom_kinds()
        );
        self.write_line(&text);
        let mut lines = Vec::new();
        lines.extend(self.namespace_lines(plane));
        match plane.pause {
            Pause::Patches { pause, .. } => {
                if let Some(scheduler) = plane.scheduler {
                    lines.push(
                        "# Without its scheduler, nothing is sent until the policies are paused.".to_owned(),
                    );
                    lines.push(scale_line("\"$NEW_HOST\"", scheduler, 0));
                }
                lines.extend(self.load_lines(pause, plane.scheduler));
                lines.extend(plane.scheduler.map(|one| scale_line("\"$NEW_HOST\"", one, 1)));
            }
            Pause::Annotations { pause, .. } => {
                lines.push("# Each file with the annotations that pause it.".to_owned());
                lines.extend(self.annotated_lines(pause));
            }
        }
        lines.extend(self.check_lines("loaded", true));
        self.write_code(&lines);
        self.write_line(&format!("{}.\n", plane.adoption));
    }

    /// The kinds of custom resources that the new API server must serve, in a sentence; empty if there are none.
    fn name_custom_kinds(&self) -> String {
        let templates = self.sides.new.repo().templates.iter().map(|template| &template.object.id);
        let custom = templates.filter(|id| id.group().contains('.') && !id.group().ends_with(".k8s.io"));
        let kinds: BTreeSet<String> = custom.map(name_kind).collect();
        if kinds.is_empty() {
            return String::new();
        }
        let kinds: Vec<String> = kinds.into_iter().collect();
        format!(
            " The new API server must serve {}: create the CustomResourceDefinitions there first.",
            join_names(&kinds)
        )
    }

    /// Creates the namespaces that the loaded objects are in: those of the repo as they are there, and others so that they
    /// are not sent to members.
    fn namespace_lines(&self, plane: NewPlane) -> Vec<String> {
        let repo = self.sides.new.repo();
        let templates = repo.templates.iter().map(|template| &template.object);
        let claimed = repo.claimed.iter().filter(|claimed| claimed.dialect == self.target.name());
        let ids = templates.clone().chain(claimed.map(|claimed| &claimed.object)).map(|object| &object.id);
        let names: BTreeSet<&str> = ids.filter_map(|id| id.namespace.as_deref()).collect();
        let known: BTreeMap<&str, Labels> = templates
            .filter(|object| object.id.kind == "Namespace" && object.id.group().is_empty())
            .map(|object| (object.id.name.as_str(), object.labels()))
            .collect();
        let created = names.into_iter().filter(|name| *name != DEFAULT_NAMESPACE);
        let lines = created.map(|name| {
            let labels = known.get(name).cloned().unwrap_or_else(|| {
                let labels = plane.unpropagated_namespace.iter();
                labels.map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
            });
            let mut metadata = json!({ "name": name });
            if !labels.is_empty() {
                metadata["labels"] = json!(labels);
            }
            let annotations = namespace_annotations(plane, known.contains_key(name));
            if !annotations.is_empty() {
                metadata["annotations"] = json!(annotations);
            }
            let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata});
            format!("echo {} | kubectl --context \"$NEW\" apply -f -", quote_word(&namespace.to_string()))
        });
        lines.collect()
    }

    /// Creates policies as they are while they are paused.
    fn create_paused_lines(&self, patch: &str) -> Vec<String> {
        let pause: Value = serde_json::from_str(patch).unwrap_or_default();
        let claimed = self.sides.new.repo().claimed.iter();
        let policies = claimed.filter(|claimed| self.policies.contains_key(&claimed.object.id));
        let lines = policies.map(|claimed| {
            let body = apply_merge_patch(&claimed.object.body, &pause);
            format!("echo {} | kubectl --context \"$NEW\" create -f -", quote_word(&body.to_string()))
        });
        lines.collect()
    }

    /// The files with templates and with objects of the new control plane, but the inventory.
    fn all_files(&self) -> RunbookFiles<'_> {
        let repo = self.sides.new.repo();
        let templates = repo.templates.iter().map(|template| &template.object);
        let claimed = repo
            .claimed
            .iter()
            .filter(|claimed| claimed.dialect == self.target.name() && claimed.role != Role::Inventory);
        let objects = templates.chain(claimed.map(|claimed| &claimed.object));
        let files = objects.map(|object| object.origin.file.as_ref()).collect();
        RunbookFiles { list: "all-files.txt", files }
    }

    /// All files without policies.
    fn object_files(&self) -> RunbookFiles<'_> {
        let policies = self.list_policy_files();
        let mut files = self.all_files().files;
        files.retain(|file| !policies.contains(file));
        RunbookFiles { list: "object-files.txt", files }
    }

    /// Applies files.
    fn apply_lines(&self, files: &RunbookFiles<'_>) -> Vec<String> {
        self.for_each_file(files, |file| format!("kubectl --context \"$NEW\" apply -f {file}"))
    }

    /// A command for each of some files, in their order; a loop over a list of them where they are many.
    fn for_each_file(&self, files: &RunbookFiles<'_>, command: impl Fn(&str) -> String) -> Vec<String> {
        let path = |file: &&str| quote_word(&format!("{}/{file}", self.names.new_repo));
        if !files.are_listed() {
            return files.files.iter().map(|file| command(&path(file))).collect();
        }
        let mut lines = vec![format!(
            "while IFS= read -r file; do {}; done < {}",
            command(&format!("{}/\"$file\"", quote_word(&self.names.new_repo))),
            files.list
        )];
        // A list has a file a line.
        let others = files.files.iter().filter(|file| file.contains('\n'));
        lines.extend(others.map(|file| command(&path(file))));
        lines
    }

    /// Applies files with annotations that they do not have.
    fn annotated_lines(&self, annotations: &[&str]) -> Vec<String> {
        let annotations: Vec<String> = annotations.iter().map(|one| quote_word(one)).collect();
        let annotations = annotations.join(" ");
        self.for_each_file(&self.all_files(), |file| {
            format!(
                "kubectl annotate --local --overwrite -o yaml -f {file} {annotations} | kubectl --context \"$NEW\" apply -f -"
            )
        })
    }

    /// Removes an annotation from what files have.
    fn resume_lines(&self, annotation: &str) -> Vec<String> {
        self.for_each_file(&self.all_files(), |file| {
            format!("kubectl --context \"$NEW\" annotate -f {file} {annotation}-")
        })
    }

    /// The lists of files that commands read.
    fn write_lists(&mut self) {
        let (alone, _) = self.split_policy_files();
        let all = [alone, self.object_files(), self.all_files()];
        let lists: Vec<Vec<String>> = all
            .iter()
            .filter(|files| files.are_listed() && self.out.contains(&format!("done < {}", files.list)))
            .map(RunbookFiles::list_lines)
            .collect();
        if lists.is_empty() {
            return;
        }
        self.write_line("## Lists of files\n");
        self.write_line(
            "Commands above read them from the folder in which they run: run this before the first step.",
        );
        for lines in lists {
            self.write_code(&lines);
        }
    }

    fn write_stop(&mut self) {
        self.write_line(
            "Scale to 0, and delete nothing: deleting the objects of a control plane deletes those of the members. Objects run on \
             without a controller. The names are those of a default installation; correct them where yours differ.",
        );
        let mut lines = Vec::new();
        for plane in &self.old_planes {
            lines.extend(plane.controllers.iter().map(|one| scale_line("\"$OLD\"", *one, 0)));
            lines.extend(self.agent_lines(plane, 0));
        }
        lines.extend(self.check_lines("stopped", true));
        self.write_code(&lines);
        self.write_line(
            "The check does not see the controllers: it calls this step the next one until the new side has taken over.\n",
        );
    }

    /// Scales the agents of an old control plane in the members that have them.
    fn agent_lines(&self, plane: &OldPlane, replicas: u8) -> Vec<String> {
        let inventory = self.sides.old.repo().claimed.iter();
        // Karmada has an agent in clusters that pull.
        let without_agent: BTreeSet<&str> = inventory
            .filter(|claimed| claimed.dialect == "karmada" && claimed.role == Role::Inventory)
            .filter(|claimed| claimed.object.text_at(&["spec", "syncMode"]) != "Pull")
            .map(|claimed| claimed.object.id.name.as_str())
            .collect();
        let contexts = self.contexts.iter().filter(|(name, _)| !without_agent.contains(name.as_str()));
        let lines = contexts.flat_map(|(_, context)| {
            plane.agents.iter().map(|one| scale_line(&quote_word(context), *one, replicas))
        });
        lines.collect()
    }

    /// Says that objects which are different change now.
    fn warn_of_changes(&mut self) {
        if self.different > 0 {
            let count = format_count(self.different, "object");
            self.write_line(&format!(
                "\nBut {count} of `different` clusters, replicas or manifests, which `federate migrate` names, will change now; \
                 `--mode freeze` avoids that.",
            ));
        }
    }

    fn write_take_over(&mut self) {
        let new = quote_word(&self.names.new_repo);
        let (namespaces, annotation) = self.find_adopted_namespaces();
        let mut lines = Vec::new();
        match self.new_plane {
            Some(NewPlane { pause: Pause::Patches { resume, .. }, .. }) => {
                self.write_line(
                    "The new side is resumed, and takes over what runs. No pod restarts: pod templates and replicas stay as they \
                     are. Resume one policy first, and check, if you want to go slowly.",
                );
                self.warn_of_changes();
                lines.extend(namespaces.iter().map(|name| {
                    format!("kubectl --context \"$NEW\" annotate --overwrite namespace {name} {annotation}=overwrite")
                }));
                lines.extend(self.patch_lines(resume, &self.list_policy_files()));
            }
            Some(NewPlane { pause: Pause::Annotations { resume, .. }, .. }) => {
                self.write_line(
                    "The new side is resumed, and takes over what runs. No pod restarts: pod templates and replicas stay as they \
                     are. Resume one file first, and check, if you want to go slowly.",
                );
                self.warn_of_changes();
                lines.extend(self.resume_lines(resume));
            }
            None => {
                self.write_line(
                    "federate, or the GitOps tool that deploys what it renders, takes over what runs. The dry run must succeed \
                     (exit code 0), list no `conflict`, and end with `0 with restarts of pods`.",
                );
                let contexts = self.contexts_option();
                lines.push(format!("federate apply {new} --adopt if-no-restart{contexts} --dry-run=server"));
                lines.push(format!("federate apply {new} --adopt if-no-restart{contexts}"));
            }
        }
        lines.extend(self.check_lines("after", true));
        lines.extend(
            namespaces
                .iter()
                .map(|name| format!("kubectl --context \"$NEW\" annotate namespace {name} {annotation}-")),
        );
        lines.push(format!("federate drift {new}{}", self.contexts_option()));
        self.write_code(&lines);
    }

    /// The namespaces that the new side sends without a policy, and takes over by an annotation; with that annotation.
    fn find_adopted_namespaces(&self) -> (Vec<String>, &'static str) {
        let Some(annotation) = self.new_plane.and_then(|plane| plane.adopted_namespace) else {
            return (Vec::new(), "");
        };
        let rows = self.sides.new.plan().placements.iter();
        let namespaces = rows
            .filter(|row| row.object.kind == "Namespace" && row.object.group().is_empty())
            .filter(|row| row.policy.is_none() && !row.clusters.is_empty());
        (namespaces.map(|row| quote_word(&row.object.name)).collect(), annotation)
    }

    fn write_clean(&mut self) {
        self.write_line(
            "A step of its own, days later: until here the way back is open. Removing labels and annotations restarts nothing.",
        );
        let mut lines = Vec::new();
        for (kinds, contexts) in self.group_contexts_by_kinds() {
            lines.push(format!("for context in {}; do", contexts.join(" ")));
            lines.extend(self.cleaning_lines(&kinds));
            lines.push("done".to_owned());
        }
        lines.extend(self.check_lines("cleaned", true));
        self.write_code(&lines);
        self.write_line(
            "Only after that, remove the old control plane, whose controllers are still stopped. No object in a member has its marks any more:",
        );
        for plane in self.old_planes.clone() {
            self.write_line(&format!("- {}: {}.", plane.title, plane.deletion));
        }
    }

    /// Removes labels and annotations of the old control planes from objects of these kinds in `$context`.
    fn cleaning_lines(&self, kinds: &str) -> Vec<String> {
        let new_label = self.new_plane.map_or(PART_OF_LABEL, |plane| plane.label);
        let mut lines = Vec::new();
        for plane in &self.old_planes {
            let annotations: Vec<String> = plane.annotations.iter().map(|key| format!("{key}-")).collect();
            // Every object has the mark of the new side by now, if it has none of the old one.
            let selector = match plane.labels.first().copied().unwrap_or(new_label) {
                "" => "--all".to_owned(),
                label => format!("-l {label}"),
            };
            if !annotations.is_empty() {
                lines.push(format!(
                    "  kubectl --context \"$context\" annotate {kinds} {selector} --all-namespaces {}",
                    annotations.join(" ")
                ));
            }
            if let Some(label) = plane.labels.first() {
                let keys: Vec<String> = plane.labels.iter().map(|key| format!("{key}-")).collect();
                lines.push(format!(
                    "  kubectl --context \"$context\" label {kinds} -l {label} --all-namespaces {}",
                    keys.join(" ")
                ));
            }
        }
        lines
    }

    /// The contexts of the clusters that have objects of the same kinds, by these kinds.
    fn group_contexts_by_kinds(&self) -> BTreeMap<String, Vec<String>> {
        let dialects = self.sides.old.dialects();
        let rows = self.sides.old.plan().placements.iter();
        let sent =
            rows.filter(|row| dialects.role_of_kind(&row.object.api_version, &row.object.kind).is_none());
        let mut kinds: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
        for row in sent {
            let kind = name_kind(&row.object);
            for placed in row.clusters.iter().filter(|placed| placed.name.as_ref() != HUB) {
                kinds.entry(&placed.name).or_default().insert(kind.clone());
            }
        }
        let mut groups: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (cluster, kinds) in kinds {
            let kinds = kinds.into_iter().collect::<Vec<_>>().join(",");
            let context = self.contexts.get(cluster).map_or(cluster, String::as_str);
            groups.entry(kinds).or_default().push(quote_word(context));
        }
        groups
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
                lines.extend(self.patch_lines(pause, &self.list_policy_files()));
            }
            lines.extend(plane.stopped.iter().map(|one| scale_line("\"$NEW_HOST\"", *one, 0)));
            for context in self.contexts.values() {
                let agents = plane.stopped_agents.iter();
                lines.extend(agents.map(|one| scale_line(&quote_word(context), *one, 0)));
            }
        }
        for plane in &self.old_planes {
            lines.extend(self.agent_lines(plane, 1));
            lines.extend(plane.controllers.iter().map(|one| scale_line("\"$OLD\"", *one, 1)));
        }
        let old = quote_word(&self.names.old_repo);
        lines.push(format!("federate drift {old}{}", self.contexts_option()));
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

/// The annotations with which a namespace is created: those that pause one that is sent to members, and those that keep another
/// one from them.
fn namespace_annotations(plane: NewPlane, is_sent: bool) -> BTreeMap<&'static str, &'static str> {
    match plane.pause {
        Pause::Annotations { pause, .. } if is_sent => {
            pause.iter().filter_map(|pair| pair.split_once('=')).collect()
        }
        _ if is_sent => BTreeMap::new(),
        _ => plane.unpropagated_annotation.into_iter().collect(),
    }
}

/// A kind as kubectl takes it, with its version: not every version has the same fields.
fn name_versioned_kind(object: &ObjectRef) -> String {
    match object.api_version.split_once('/') {
        Some((group, version)) => format!("{}.{version}.{group}", object.kind.to_lowercase()),
        None => object.kind.to_lowercase(),
    }
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
