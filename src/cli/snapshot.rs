//! `federate snapshot`

use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;
use jiff::Timestamp;

use super::import::read;
use super::settings::outcome;
use super::{Exit, Fault, say, styled};
use federate_engine::any_error;
use federate_engine::snapshot::{self, Contents, DESCRIPTION};
use federate_repo::{File, Repo};
use federate_report::findings;
use federate_session::DIALECTS;

/// Keep what a control plane knows, as an inventory and as a plan's memory
///
/// -f reads what `kubectl get -o yaml` prints on the control plane's API server: inventory objects (`Cluster`,
/// `FederatedCluster`, `MemberCluster`, `KubeFedCluster`) and what the scheduler remembers (`ResourceBinding` and
/// `ClusterResourceBinding` of Karmada; federated objects of KubeAdmiral and KubeFed; bindings, placements and policy
/// snapshots of KubeFleet). The Deployments of Karmada's scheduler and controller manager, or the `Karmada` object of
/// its operator, say which release runs. Objects of other kinds are ignored.
///
/// DIR gets `clusters/<control plane>/<cluster>.yaml`, `placements.yaml`, and `snapshot.yaml`, which says what the
/// snapshot holds. `--previous DIR/placements.yaml` makes a plan go on from there: it decides what the live control
/// plane would decide next. A folder that holds another snapshot is replaced; any other folder that is not empty is
/// refused.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(super) struct Snapshot {
    /// The files to read; `-` is standard input
    #[arg(short = 'f', long = "file", value_name = "FILE", num_args = 1.., required = true)]
    files: Vec<PathBuf>,

    /// The folder to write
    #[arg(long, value_name = "DIR")]
    out: PathBuf,

    /// When the dumps were made (RFC 3339), as `snapshot.yaml` says it
    #[arg(long, value_name = "TIME")]
    now: Option<Timestamp>,

    /// Print no warnings and no summary
    #[arg(long, short)]
    quiet: bool,
}

const EXAMPLES: &str = "\
Examples:
  kubectl get clusters,resourcebindings,clusterresourcebindings -A -o yaml > hub.yaml
  federate snapshot -f hub.yaml --out snapshot
  federate plan --previous snapshot/placements.yaml";

impl Snapshot {
    pub(super) fn run(&self) -> Result<Exit, Fault> {
        let files: Vec<File> = self.files.iter().map(|path| read(path)).collect::<Result<_, _>>()?;
        let (objects, mut found) = federate_repo::objects_of(&files, &DIALECTS);
        findings::sort(&mut found);
        if !found.is_empty() && (!self.quiet || any_error(&found)) {
            let texts = files.iter().map(|file| (file.path.clone(), file.bytes.clone())).collect();
            let repo = Repo { texts, ..Repo::default() };
            say(&findings::text(&repo, &found, DIALECTS, styled(&std::io::stderr())));
        }
        if any_error(&found) {
            return Ok(Exit::Error);
        }
        let sources = files.iter().map(|file| file.path.to_string()).collect();
        let snapshot = snapshot::snapshot(DIALECTS, &objects, sources, self.now)
            .map_err(|error| Fault::Failed(error.to_string()))?;
        write(&self.out, &snapshot)?;
        if !self.quiet {
            for (control_plane, contents) in &snapshot.description.control_planes {
                say(&summary(control_plane, contents, &self.out));
            }
        }
        Ok(outcome(&found))
    }
}

/// What the snapshot holds of one control plane, and how to plan by the rules of its release.
fn summary(control_plane: &str, contents: &Contents, out: &Path) -> String {
    let Contents { clusters, placements, version, unknown_version } = contents;
    let mut text =
        format!("{control_plane}: {clusters} clusters and {placements} placements in {}\n", out.display());
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

/// Writes the snapshot beside the folder, and puts it in its place.
fn write(out: &Path, snapshot: &snapshot::Snapshot) -> Result<(), Fault> {
    let failed = |doing: &str, path: &Path| {
        let place = format!("cannot {doing} {}", path.display());
        move |error: std::io::Error| Fault::Failed(format!("{place}: {error}"))
    };
    let replaces = is_replaceable(out)?;
    let [new, old] = ["federate-new", "federate-old"].map(|suffix| beside(out, suffix));
    for left in [&new, &old] {
        if left.exists() {
            fs::remove_dir_all(left).map_err(failed("remove", left))?;
        }
    }
    for (path, text) in &snapshot.files {
        let path = new.join(path);
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).map_err(failed("make", folder))?;
        }
        fs::write(&path, text).map_err(failed("write", &path))?;
    }
    if replaces {
        fs::rename(out, &old).map_err(failed("replace", out))?;
    }
    fs::rename(&new, out).map_err(failed("write", out))?;
    if replaces {
        fs::remove_dir_all(&old).map_err(failed("remove", &old))?;
    }
    Ok(())
}

/// Whether there is a folder that is to be replaced. One that is neither empty nor a snapshot is refused.
fn is_replaceable(out: &Path) -> Result<bool, Fault> {
    let refused = |why: &str| Fault::Failed(format!("cannot write a snapshot to {}: {why}", out.display()));
    if fs::symlink_metadata(out).is_err() {
        return Ok(false);
    }
    let mut entries = fs::read_dir(out).map_err(|_| refused("it is not a folder that can be read"))?;
    if out.join(DESCRIPTION).is_file() || entries.next().is_none() {
        return Ok(true);
    }
    Err(refused("it holds files that are not of a snapshot; choose a new or empty folder"))
}

fn beside(out: &Path, suffix: &str) -> PathBuf {
    let name = out.file_name().unwrap_or_default().to_string_lossy();
    out.with_file_name(format!(".{name}.{suffix}"))
}
