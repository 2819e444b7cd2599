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
use crate::cli::members::{ApplySetArgs, DryRunMode, ServerAccess};
use crate::cli::settings::RepoArgs;
use crate::cli::{CommandError, page};
use federate_engine::change::DigestKey;
use federate_kubernetes::{ClusterName, Finding, finding};
use federate_reconcile::Actions;
use federate_report::findings;
use federate_report::page::PageHost;
use federate_session::{Destination, Purpose, ReconcileOptions, Reconciler};

/// How long an answer is given again: many pages may be open.
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

/// What drifted, by the state of the repo and the time.
struct KnownDrift {
    state: u64,
    time: Instant,
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
    /// Answers questions until nobody can ask any more.
    fn answer_questions(&self, key: &DigestKey, inbox: &Receiver<DriftQuestion>) {
        let mut known: Option<KnownDrift> = None;
        while let Ok(DriftQuestion { state, form, reply }) = inbox.recv() {
            // Whoever asked has gone.
            if reply.is_closed() {
                continue;
            }
            known = known.filter(|known| known.state == state && known.time.elapsed() < ANSWER_AGE);
            let answer = match known.take().map_or_else(|| self.read_drift(key, state), Ok) {
                Ok(drift) => {
                    let text = self.format_answer(&drift, form);
                    known = Some(drift);
                    text
                }
                Err(error) => Err(error),
            };
            let answer = answer.map(Arc::from).map_err(|error| NoAnswer::Refused(error.to_string()));
            let _ = reply.send(answer);
        }
    }

    fn format_answer(&self, drift: &KnownDrift, form: AnswerForm) -> Result<String, CommandError> {
        if form == AnswerForm::Json {
            let text = serde_json::to_string_pretty(&drift.drifted);
            return text.map(|text| text + "\n").map_err(|error| CommandError::Failed(error.to_string()));
        }
        let name = self.args.repo.display().to_string();
        let host = PageHost::Server { state: drift.state, has_drift: true };
        page::write_drift(&name, &drift.drifted, &drift.regions, host)
    }

    fn read_drift(&self, key: &DigestKey, state: u64) -> Result<KnownDrift, CommandError> {
        let args = &*self.args;
        let mut session = args.open_session(None, None)?;
        session.keep_values();
        let repo = args.repo_ref();
        let apply_set = self.apply_set.choose_applyset(repo.as_ref(), &args.selected_paths());
        let servers = ServerAccess {
            access: &self.access,
            dry_run: Some(DryRunMode::Client),
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
        let drifted = if is_dump {
            reconciler.decide_observed()
        } else {
            servers.apply_or_compare(&session, &reconciler, None, !args.names_memory(), None)?
        };
        let regions =
            session.clusters().iter().map(|cluster| (cluster.name.clone(), cluster.region.clone())).collect();
        Ok(KnownDrift { state, time: Instant::now(), drifted, regions })
    }
}
