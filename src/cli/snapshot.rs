//! `federate snapshot`

use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;
use jiff::Timestamp;

use super::import::read;
use super::settings::outcome;
use super::{Exit, Fault, say, use_color};
use federate_engine::any_error;
use federate_engine::snapshot::{self, Contents, DESCRIPTION};
use federate_repo::{File, Repo};
use federate_report::findings;
use federate_session::DIALECTS;

/// Save the state of a control plane as an inventory and a scheduler memory
///
/// -f reads the output of `kubectl get -o yaml` from the control plane's API server: inventory objects
/// (`Cluster`, `FederatedCluster`, `MemberCluster`, `KubeFedCluster`) and what the scheduler remembers
/// (`ResourceBinding` and `ClusterResourceBinding` of Karmada; federated objects of KubeAdmiral and KubeFed;
/// bindings, placements and policy snapshots of KubeFleet). The Deployments of Karmada's scheduler and controller
/// manager, or the `Karmada` object of its operator, name the release. Objects of other kinds are ignored.
///
/// federate writes DIR/clusters/<control plane>/<cluster>.yaml, DIR/placements.yaml, and DIR/snapshot.yaml,
/// which describes the snapshot. With --previous DIR/placements.yaml, a plan continues from there: it decides
/// what the live control plane would decide next. An existing snapshot in DIR is replaced; any other
/// non-empty folder is refused.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(super) struct Snapshot {
    /// The files to read; `-` is standard input
    #[arg(short = 'f', long = "file", value_name = "FILE", num_args = 1.., required = true)]
    files: Vec<PathBuf>,

    /// The folder to write
    #[arg(long, value_name = "DIR")]
    out: PathBuf,

    /// The time of the dumps (RFC 3339), recorded in snapshot.yaml
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
  federate plan examples/repo --previous snapshot/placements.yaml";

impl Snapshot {
    pub(super) fn run(&self) -> Result<Exit, Fault> {
        let files: Vec<File> = self.files.iter().map(|path| read(path)).collect::<Result<_, _>>()?;
        let (objects, mut found) = federate_repo::objects_of(&files, &DIALECTS);
        findings::sort(&mut found);
        if !found.is_empty() && (!self.quiet || any_error(&found)) {
            let texts = files.iter().map(|file| (file.path.clone(), file.bytes.clone())).collect();
            let repo = Repo { texts, ..Repo::default() };
            say(&findings::text(&repo, &found, DIALECTS, use_color(&std::io::stderr())));
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

/// The content of the snapshot for one control plane, and how to plan by the rules of its release.
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

/// Writes the snapshot next to the folder, then renames it into place.
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

/// Whether `out` exists and can be replaced. A folder that is neither empty nor a snapshot is refused.
fn is_replaceable(out: &Path) -> Result<bool, Fault> {
    let refused = |why: &str| Fault::Failed(format!("cannot write a snapshot to {}: {why}", out.display()));
    if fs::symlink_metadata(out).is_err() {
        return Ok(false);
    }
    let mut entries = fs::read_dir(out).map_err(|_| refused("it is not a readable folder"))?;
    if out.join(DESCRIPTION).is_file() || entries.next().is_none() {
        return Ok(true);
    }
    Err(refused("it contains files that are not part of a snapshot; choose a new or empty folder"))
}

fn beside(out: &Path, suffix: &str) -> PathBuf {
    let name = out.file_name().unwrap_or_default().to_string_lossy();
    out.with_file_name(format!(".{name}.{suffix}"))
}
