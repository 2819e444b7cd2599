//! `federate snapshot`

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;

use super::access::AccessArgs;
use super::diff::digest_key;
use super::import::read_file;
use super::members::ApplySetArgs;
use super::output::check_output;
use super::settings::{RepoArgs, exit_for_findings};
use super::{CommandError, Exit, print_notice, use_color};
use federate_dialects::DIALECTS;
use federate_engine::any_error;
use federate_engine::snapshot::{self, ControlPlaneContents, DESCRIPTION_FILE, SnapshotInput};
use federate_kubernetes::display_text::escape_line;
use federate_kubernetes::{Finding, Object, ObjectRef};
use federate_repo::{Repo, RepoFile};
use federate_report::findings;
use federate_report::table::format_count;

/// Save the state of control planes and clusters, for previews without credentials
///
/// --hub-context reads a control plane's API server, and -f the output of `kubectl get -o yaml` from it: inventory
/// objects (`Cluster`, `FederatedCluster`, `MemberCluster`, `KubeFedCluster`) and what the scheduler remembers
/// (`ResourceBinding` and `ClusterResourceBinding` of Karmada; federated objects of KubeAdmiral and KubeFed;
/// bindings, placements and policy snapshots of KubeFleet). The Deployments of Karmada's scheduler and controller
/// manager, or the `Karmada` object of its operator, name the release. Objects of other kinds are ignored.
///
/// Members are read as `apply` reaches them: the objects that the repo renders or that its ApplySet names. If no
/// control plane says the status of a cluster, federate also reads its nodes, pods, version and APIs, and computes
/// the status by the rules of the control plane. A cluster that cannot be read is reported, and the others are
/// written. With --hub-context, a cluster for which the hub has no connection details is reached through the
/// context with its name; without one, it is not read, and a note says so. Values of Secrets are replaced by digests (keyed with `FEDERATE_DIGEST_KEY`, or a random key).
///
/// federate writes DIR/clusters/<control plane>/<cluster>.yaml, DIR/placements.yaml, DIR/observed/<cluster>/, and
/// DIR/snapshot.yaml, which describes the snapshot. With --snapshot DIR, other commands decide what the live
/// control plane would decide next. An existing snapshot in DIR is replaced; any other non-empty folder is refused.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES, mut_arg("snapshot", |arg| arg.hide(true)), mut_arg("max_age", |arg| arg.hide(true)))]
pub(super) struct SnapshotCommand {
    /// Dumps of a control plane's objects; `-` is standard input. Members are then read only with --context
    #[arg(short = 'f', long = "file", value_name = "FILE", num_args = 1..)]
    pub(super) files: Vec<PathBuf>,

    /// The folder to write
    #[arg(long, value_name = "DIR")]
    pub(super) out: PathBuf,

    /// Read only the control plane
    #[arg(long, conflicts_with = "contexts")]
    pub(super) no_members: bool,

    /// Reach these clusters through contexts of the kubeconfig; the name of the context is that of the cluster
    /// unless both are given
    #[arg(long = "context", value_name = "[CLUSTER=]CONTEXT", num_args = 1.., action = clap::ArgAction::Append)]
    pub(super) contexts: Vec<String>,

    #[command(flatten)]
    pub(super) args: RepoArgs,

    #[command(flatten)]
    pub(super) access: AccessArgs,

    #[command(flatten)]
    pub(super) applyset: ApplySetArgs,
}

const EXAMPLES: &str = "\
Examples:
  federate snapshot examples/repo --hub-context karmada-apiserver --out snapshot
  federate snapshot examples/repo --context eu-1 us-1 --out snapshot
  kubectl get clusters,resourcebindings,clusterresourcebindings -A -o yaml > hub.yaml
  federate snapshot -f hub.yaml --out snapshot
  federate plan examples/repo --snapshot snapshot";

impl SnapshotCommand {
    pub(super) fn run(&self) -> Result<Exit, CommandError> {
        check_output(&self.out, &self.args.repo)?;
        let mut captured = SnapshotInput { taken: self.args.now(), ..SnapshotInput::default() };
        let found = self.read_files(&mut captured)?;
        if any_error(&found) {
            return Ok(Exit::Error);
        }
        if !self.files.is_empty() && self.contexts.is_empty() && !self.access.has_hub() {
            return self.write_captured(&captured).map(|()| exit_for_findings(&found));
        }
        self.read_servers(&mut captured)?;
        for (cluster, why) in &captured.failed {
            print_notice(&format!("error: {cluster}: {}\n", escape_line(why)));
        }
        self.write_captured(&captured)?;
        Ok(if captured.failed.is_empty() { exit_for_findings(&found) } else { Exit::Error })
    }

    /// Reads the dumps, and reports findings about them.
    fn read_files(&self, captured: &mut SnapshotInput) -> Result<Vec<Finding>, CommandError> {
        let files: Vec<RepoFile> = self.files.iter().map(|path| read_file(path)).collect::<Result<_, _>>()?;
        let (objects, mut found) = federate_repo::objects_of(&files, &DIALECTS);
        findings::sort_findings(&mut found);
        if !found.is_empty() && (!self.args.quiet || any_error(&found)) {
            let texts = files.iter().map(|file| (file.path.clone(), file.bytes.clone())).collect();
            let repo = Repo { texts, ..Repo::default() };
            print_notice(&findings::format_text(&repo, &found, DIALECTS, use_color(&std::io::stderr())));
        }
        captured.objects = objects;
        captured.sources = files.iter().map(|file| file.path.to_string()).collect();
        Ok(found)
    }

    /// Writes the snapshot, and summarizes it.
    fn write_captured(&self, captured: &SnapshotInput) -> Result<(), CommandError> {
        let snapshot = snapshot::take_snapshot(DIALECTS, captured, &digest_key()?);
        let snapshot = snapshot.map_err(|error| CommandError::Failed(error.to_string()))?;
        write_snapshot(&self.out, &snapshot)?;
        if self.args.quiet {
            return Ok(());
        }
        for (control_plane, contents) in &snapshot.description.control_planes {
            print_notice(&format_summary(control_plane, contents, &self.out));
            print_notice(&left_out(control_plane, &captured.objects));
        }
        if !captured.observed.is_empty() {
            let objects: usize = captured.observed.values().map(Vec::len).sum();
            let clusters = format_count(captured.observed.len(), "cluster");
            print_notice(&format!("{} observed in {clusters}\n", format_count(objects, "object")));
        }
        Ok(())
    }
}

/// The content of the snapshot for one control plane, and how to plan by the rules of its release.
fn format_summary(control_plane: &str, contents: &ControlPlaneContents, out: &Path) -> String {
    let ControlPlaneContents { clusters, placements, version, unknown_version } = contents;
    let mut text = format!(
        "{control_plane}: {} and {} in {}\n",
        format_count(*clusters, "cluster"),
        format_count(*placements, "placement"),
        out.display()
    );
    if let Some(version) = version {
        text.push_str(&format!(
            "{control_plane}: release {version} runs; write `dialects: {{{control_plane}: {{version: \"{version}\"}}}}` \
             into federate.yaml to decide by its rules\n"
        ));
    }
    if let Some(unknown) = unknown_version {
        text.push_str(&format!("{control_plane}: {unknown}\n"));
    }
    text
}

/// The objects that record a placement and are not part of the snapshot, with one line per reason.
fn left_out(control_plane: &str, objects: &[Object]) -> String {
    let mut reasons: BTreeMap<&str, Vec<&ObjectRef>> = BTreeMap::new();
    let dialect = DIALECTS.get(control_plane);
    for (object, reason) in
        dialect.map(|dialect| dialect.hub().unread_hub_objects(objects)).unwrap_or_default()
    {
        reasons.entry(reason).or_default().push(object);
    }
    let mut text = String::new();
    for (reason, objects) in reasons {
        let first = objects.first().map(ToString::to_string).unwrap_or_default();
        let others = match objects.len() - 1 {
            0 => String::new(),
            others => format!(" and {others} more"),
        };
        text += &format!("{control_plane}: left out {first}{others}: {reason}\n");
    }
    text
}

/// Writes the snapshot next to the folder, then renames it into place.
fn write_snapshot(out: &Path, snapshot: &snapshot::SnapshotFiles) -> Result<(), CommandError> {
    let replaces = is_replaceable(out)?;
    let [new, old] = ["federate-new", "federate-old"].map(|suffix| sibling_path(out, suffix));
    for left in [&new, &old] {
        if left.exists() {
            fs::remove_dir_all(left).map_err(|error| write_error("remove", left, &error))?;
        }
    }
    for (path, text) in &snapshot.files {
        let path = new.join(path);
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).map_err(|error| write_error("make", folder, &error))?;
        }
        fs::write(&path, text).map_err(|error| write_error("write", &path, &error))?;
    }
    if replaces {
        fs::rename(out, &old).map_err(|error| write_error("replace", out, &error))?;
    }
    fs::rename(&new, out).map_err(|error| write_error("write", out, &error))?;
    if replaces {
        fs::remove_dir_all(&old).map_err(|error| write_error("remove", &old, &error))?;
    }
    Ok(())
}

fn write_error(doing: &str, path: &Path, error: &std::io::Error) -> CommandError {
    CommandError::Failed(format!("cannot {doing} {}: {error}", path.display()))
}

/// Whether `out` exists and can be replaced. A folder that is neither empty nor a snapshot is refused.
fn is_replaceable(out: &Path) -> Result<bool, CommandError> {
    if fs::symlink_metadata(out).is_err() {
        return Ok(false);
    }
    let why = match fs::read_dir(out).map(|mut entries| entries.next().is_none()) {
        Ok(is_empty) if is_empty || out.join(DESCRIPTION_FILE).is_file() => return Ok(true),
        Ok(_) => "it contains files that are not part of a snapshot; choose a new or empty folder",
        Err(_) => "it is not a readable folder",
    };
    Err(CommandError::Failed(format!("cannot write a snapshot to {}: {why}", out.display())))
}

fn sibling_path(out: &Path, suffix: &str) -> PathBuf {
    let name = out.file_name().unwrap_or_default().to_string_lossy();
    out.with_file_name(format!(".{name}.{suffix}"))
}
