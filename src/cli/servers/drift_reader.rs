//! The drift of a repo's clusters for `federate serve`: read in a thread of its own, with a session of its own, so that clusters that
//! answer slowly keep no other question waiting.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, SyncSender, TrySendError};
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use super::explorer::{AnswerForm, NoAnswer, spawn_thread};
use crate::cli::access::AccessArgs;
use crate::cli::diff::digest_key;
use crate::cli::members::{ApplySetArgs, SECRETS_NOT_COMPARED, ServerAccess, print_lines};
use crate::cli::settings::RepoArgs;
use crate::cli::{CommandError, page};
use federate_engine::change::DigestKey;
use federate_kubernetes::{ClusterName, Finding, finding};
use federate_reconcile::{Actions, DryRunStrategy};
use federate_report::findings;
use federate_report::page::PageHost;
use federate_session::{Destination, Purpose, ReconcileOptions, Reconciler};

/// How long an answer is given again at least: many pages may be open. One that took longer to read is given again for as long as that,
/// so that whoever has not waited for it gets it by asking again.
const ANSWER_AGE: Duration = Duration::from_secs(5);

/// How many questions may wait.
const MAX_WAITING: usize = 16;

/// A question about the drift of a state of the repo.
struct DriftQuestion {
    /// The number of the state.
    state: u64,
    form: AnswerForm,
    reply: oneshot::Sender<Result<Arc<str>, NoAnswer>>,
}

/// Asks the thread that reads clusters.
pub(super) struct DriftReader {
    questions: SyncSender<DriftQuestion>,
}

/// What clusters are compared with, and how they are reached.
pub(super) struct DriftSource {
    /// The repo.
    pub(super) args: Arc<RepoArgs>,
    /// How clusters are reached, if no dump is given.
    pub(super) access: AccessArgs,
    /// The parent of what is managed.
    pub(super) apply_set: ApplySetArgs,
}

/// What drifted, or why that is not known, for a state of the repo.
struct KnownDrift {
    state: u64,
    read: Instant,
    /// How long the answer is given again.
    age: Duration,
    drift: Result<Drift, String>,
}

/// What drifted.
struct Drift {
    drifted: Actions,
    regions: BTreeMap<ClusterName, String>,
}

impl DriftReader {
    /// Starts the thread. Nothing is read yet.
    pub(super) fn start(source: DriftSource) -> Result<Self, CommandError> {
        let (questions, inbox) = mpsc::sync_channel(MAX_WAITING);
        let key = digest_key()?;
        spawn_thread("drift", move || source.answer_questions(&key, &inbox))?;
        Ok(Self { questions })
    }

    /// What drifted. `state` is the number of the state of the repo.
    pub(super) async fn ask(&self, state: u64, form: AnswerForm) -> Result<Arc<str>, NoAnswer> {
        let (reply, answer) = oneshot::channel();
        self.questions.try_send(DriftQuestion { state, form, reply }).map_err(|error| match error {
            TrySendError::Full(_) => NoAnswer::Busy,
            TrySendError::Disconnected(_) => NoAnswer::Ended,
        })?;
        answer.await.map_err(|_| NoAnswer::Ended)?
    }
}

impl DriftSource {
    /// Answers questions until all senders are dropped.
    fn answer_questions(&self, key: &DigestKey, inbox: &Receiver<DriftQuestion>) {
        let mut known: Option<KnownDrift> = None;
        while let Ok(DriftQuestion { state, form, reply }) = inbox.recv() {
            // Whoever asked has gone.
            if reply.is_closed() {
                continue;
            }
            let is_fresh = |known: &KnownDrift| known.state == state && known.read.elapsed() < known.age;
            let current = known.take().filter(is_fresh).unwrap_or_else(|| self.read_state(key, state));
            let answer = match &current.drift {
                Ok(drift) => self.format_answer(state, drift, form).map_err(|error| error.to_string()),
                Err(why) => Err(why.clone()),
            };
            let _ = reply.send(answer.map(Arc::from).map_err(NoAnswer::Refused));
            known = Some(current);
        }
    }

    fn read_state(&self, key: &DigestKey, state: u64) -> KnownDrift {
        let start = Instant::now();
        let drift = self.read_drift(key).map_err(|error| error.to_string());
        KnownDrift { state, read: Instant::now(), age: start.elapsed().max(ANSWER_AGE), drift }
    }

    fn format_answer(&self, state: u64, drift: &Drift, form: AnswerForm) -> Result<String, CommandError> {
        if form == AnswerForm::Json {
            let text = serde_json::to_string_pretty(&drift.drifted);
            return text.map(|text| text + "\n").map_err(|error| CommandError::Failed(error.to_string()));
        }
        let name = self.args.repo.display().to_string();
        let host = PageHost::Server { state, has_drift: true };
        page::format_drift_page(&name, &drift.drifted, &drift.regions, host)
    }

    fn read_drift(&self, key: &DigestKey) -> Result<Drift, CommandError> {
        let args = &*self.args;
        let mut session = args.open_session(None, None)?;
        session.keep_manifest_values();
        let repo = args.repo_ref();
        let apply_set = self.apply_set.choose_applyset(repo.as_ref(), &args.selected_paths());
        let servers = ServerAccess {
            access: &self.access,
            dry_run: DryRunStrategy::Server,
            wait: None,
            check_access: false,
            quiet: true,
        };
        let is_dump = args.has_observed()?;
        if !is_dump {
            servers.survey_clusters(args, &mut session, &apply_set, false)?;
        }
        let found = session.findings_for(Destination::Files);
        let errors: Vec<Finding> = found.into_iter().filter(Finding::is_error).collect();
        if !errors.is_empty() && !args.keep_going {
            let rows = findings::build_rows(session.repo(), &errors);
            let texts: Vec<&str> = rows.iter().map(|row| row.message.as_str()).collect();
            let why = finding::join_names(&texts, 3);
            return Err(CommandError::Failed(format!("the repo has errors, so nothing was compared: {why}")));
        }
        let purpose = Purpose::Drift { full: false, correct: false };
        let options = ReconcileOptions::new(purpose, &apply_set, key).with_clusters(&args.clusters);
        let reconciler = Reconciler::new(&session, &options).with_repo(repo);
        if is_dump && reconciler.compares_no_secrets() {
            print_lines("warning", &[SECRETS_NOT_COMPARED.to_owned()]);
        }
        let drifted = if is_dump {
            reconciler.decide_observed()
        } else {
            servers.apply_or_compare(&session, &reconciler, None, !args.names_previous(), None)?
        };
        let regions =
            session.clusters().iter().map(|cluster| (cluster.name.clone(), cluster.region.clone())).collect();
        Ok(Drift { drifted, regions })
    }
}
