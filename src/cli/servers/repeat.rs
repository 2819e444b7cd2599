//! Shortens an `apply` or `drift` whose inputs are those of an earlier run that had nothing to do ([`RunRecord`]).

use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::{env, fs};

use sha2::{Digest as _, Sha256};

use crate::cli::decryption::DecryptionArgs;
use crate::cli::members::{EarlierRun, LiveSource, MemberRun, ServerAccess};
use crate::cli::{cache_folder, use_color};
use federate_publish::cache::file_name;
use federate_reconcile::{Actions, ApplySet, RepoRef};
use federate_repo::FileTree;
use federate_session::{RunOutput, RunRecord, Session};
use federate_source::TreeTrace;

/// The environment variables that results depend on, besides those that arguments stand for.
const INPUT_VARIABLES: [&str; 5] =
    ["FEDERATE_DIGEST_KEY", "HOME", "KUBECONFIG", "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"];

/// Where a run is recorded.
pub(in crate::cli) struct RunRecorder {
    path: PathBuf,
    inputs: String,
}

/// A run that had nothing to do, before its result is printed.
pub(in crate::cli) struct RunRecording {
    recorder: RunRecorder,
    record: RunRecord,
    stderr: String,
}

impl MemberRun<'_> {
    /// Reads the repo and the clusters as far as an earlier run with the same arguments has read them, if it had nothing
    /// to do, and compares.
    pub(in crate::cli) fn find_earlier_run(
        &self,
        source: &dyn FileTree,
        repo: Option<&RepoRef>,
    ) -> EarlierRun {
        let recorder = self.run_recorder(repo);
        let (Some(found), LiveSource::Servers(servers)) = (&recorder, &self.source) else {
            return EarlierRun::Other { early: None, recorder };
        };
        let stored =
            RunRecord::read_matching(&found.path, &found.inputs).filter(|record| record.is_of(source));
        let early = stored.as_ref().and_then(|record| record.read_early(servers.access.without_repo()));
        match (stored, &early) {
            (Some(record), Some(reads)) if record.is_same(reads) => {
                let RunOutput { stdout, stderr } = record.output;
                EarlierRun::Same { stdout, stderr }
            }
            _ => EarlierRun::Other { early, recorder },
        }
    }

    /// Where this run is recorded; `None` if it may depend on more than can be compared.
    fn run_recorder(&self, repo: Option<&RepoRef>) -> Option<RunRecorder> {
        let LiveSource::Servers(ServerAccess { access, wait: None, check_access: false, .. }) = &self.source
        else {
            return None;
        };
        // What is decrypted depends on keys.
        let decrypts = self.decryption.is_some_and(DecryptionArgs::is_given);
        let more = decrypts || self.moved.is_some() || self.remember || self.results || access.has_hub();
        if more || self.args.names_files() {
            return None;
        }
        let folder = env::current_dir().ok()?;
        let mut about = folder.as_os_str().as_encoded_bytes().to_vec();
        for arg in env::args_os() {
            about.push(0);
            about.extend_from_slice(arg.as_encoded_bytes());
        }
        let path = cache_folder("runs")?.join(file_name(&about, "json"));
        let program = env::current_exe().ok()?;
        let stat = fs::metadata(&program).ok()?;
        let mut sha = Sha256::new_with_prefix(about);
        let style = (self.args.text_style(), use_color(&std::io::stderr()));
        let program = (program, stat.len(), stat.ino(), stat.mtime(), stat.mtime_nsec());
        let variables = INPUT_VARIABLES.map(env::var_os);
        sha.update(format!("{:?}", (env!("CARGO_PKG_VERSION"), program, style, variables, repo)));
        let inputs = sha.finalize().iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"));
        Some(RunRecorder { path, inputs })
    }
}

impl RunRecorder {
    /// Prepares a record of the run; `None` if it had something to do, or looked at what is not recorded.
    pub(in crate::cli) fn prepare_recording(
        self,
        session: &Session,
        files: TreeTrace,
        set: &ApplySet,
        actions: &Actions,
        stderr: String,
    ) -> Option<RunRecording> {
        let record = RunRecord::from_run(session, files, set, actions)?;
        Some(RunRecording { recorder: self, record, stderr })
    }
}

impl RunRecording {
    /// Keeps the record. Without it, a run takes longer.
    pub(in crate::cli) fn store_record(self, stdout: &str) {
        let RunRecorder { path, inputs } = self.recorder;
        let output = RunOutput { stdout: stdout.to_owned(), stderr: self.stderr };
        let _ = self.record.write_file(&path, inputs, output);
    }
}
