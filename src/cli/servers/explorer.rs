//! A live session over a repo, which answers the questions of `federate serve` and `federate mcp`.
//!
//! ```text
//! watcher ──► changed files ─┐
//! page, assistant ─► question ┴─► one thread with the session ─► document, or a message for the user
//! ```
//!
//! One thread owns the session, and answers one question at a time, each with all cores. Scenarios share what is decided before
//! them until a file changes. A question whose asker has gone is not answered.

use std::collections::BTreeSet;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, SyncSender, TrySendError};
use std::thread;

use schemars::JsonSchema;
use serde::Deserialize;
use tokio::sync::{oneshot, watch};

use crate::cli::check::{findings_document, write_findings_page};
use crate::cli::diff::{ComparedSides, RevisionRange, build_report, default_base, digest_key};
use crate::cli::explain::explain_subject;
use crate::cli::page::ScenarioStart;
use crate::cli::scenario::ScenarioArgs;
use crate::cli::settings::RepoArgs;
use crate::cli::watch::WatchedFolders;
use crate::cli::{CommandError, page, print_notice, progress};
use federate_engine::change::DigestKey;
use federate_engine::deletions::PruneLimit;
use federate_engine::previous;
use federate_kubernetes::{Finding, finding};
use federate_report::clusters::ClusterList;
use federate_report::findings;
use federate_report::page::PageHost;
use federate_session::{RevisionComparison, ScenarioOutcome, ScenarioRunner, Session};
use federate_whatif::TimelineOptions;

/// How many questions may wait.
const MAX_WAITING: usize = 16;

/// The most events of a scenario.
const MAX_EVENTS: usize = 200;

/// A question about the repo. Each is answered by the document that the command of its name prints with `-o json`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Question {
    /// Where everything is placed.
    Plan,
    /// The clusters.
    Clusters,
    /// The findings of `federate check`.
    Check,
    /// Why an object, a policy or a cluster is as it is.
    Explain(ExplainQuestion),
    /// What differs from a revision.
    Diff(DiffQuestion),
    /// What a scenario causes.
    WhatIf(ScenarioQuestion),
}

/// What is explained
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ExplainQuestion {
    /// KIND/NAME or KIND/NAMESPACE/NAME, with kinds as in kubectl: deployment/shop/web, cpp/name, cluster/eu-1
    pub(super) object: String,
    /// The namespace, if it is not in `object`
    #[serde(default)]
    pub(super) namespace: Option<String>,
}

/// The revisions that are compared
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct DiffQuestion {
    /// The git revision to compare with; its merge base with the head counts, `REV..` is REV itself. Without it, the default branch
    #[serde(default)]
    pub(super) from: Option<String>,
    /// The head revision; without it, the files as they are now
    #[serde(default)]
    pub(super) to: Option<String>,
}

/// A scenario
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ScenarioQuestion {
    /// What happens
    pub(super) events: ScenarioArgs,
    /// Whether the failover of control planes is on, which is off by default
    #[serde(default)]
    pub(super) failover: bool,
}

/// The form of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AnswerForm {
    /// The document of `-o json`.
    Json,
    /// The page of `-o html`, for a page that asks for more.
    Page,
}

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum NoAnswer {
    /// The question cannot be answered; the message says why.
    Refused(String),
    /// Too many questions wait.
    Busy,
    /// The session has ended.
    Ended,
}

/// What is known of the repo at a time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct RepoState {
    /// A number that is greater after every change.
    pub(super) number: u64,
    /// Why the repo cannot be read now, so that the answers are about its last state.
    pub(super) error: Option<String>,
}

/// Something for the thread of the session.
enum Message {
    Ask(Box<Asked>),
    Changed(ChangedFiles),
}

/// The files that have changed; `None` if it is not known which.
struct ChangedFiles(Option<BTreeSet<PathBuf>>);

struct Asked {
    question: Question,
    form: AnswerForm,
    reply: oneshot::Sender<Result<Arc<str>, NoAnswer>>,
}

/// Asks a live session.
#[derive(Clone)]
pub(super) struct Explorer {
    questions: SyncSender<Message>,
    state: watch::Receiver<RepoState>,
}

impl Explorer {
    /// Opens the repo in a thread, and watches its work tree. `has_drift` says whether there is a page of drift, too.
    ///
    /// # Errors
    ///
    /// If the repo cannot be read.
    pub(super) fn start(args: Arc<RepoArgs>, has_drift: bool) -> Result<Self, CommandError> {
        let (questions, inbox) = mpsc::sync_channel(MAX_WAITING);
        let (publisher, state) = watch::channel(RepoState::default());
        if args.is_work_tree() {
            let (folders, changes) = (args.watched_folders()?, questions.clone());
            let (watching, is_watching) = mpsc::sync_channel(1);
            spawn_thread("watcher", move || watch_folders(folders, &watching, &changes))?;
            // What changes from now on is noticed. Without a watch, it is not, which the thread says.
            let _ = is_watching.recv();
        }
        let key = digest_key()?;
        let (opened, is_open) = mpsc::sync_channel(1);
        spawn_thread("session", move || {
            let session = match args.open_shown_session() {
                Ok(session) => session,
                Err(error) => return drop(opened.send(Err(error))),
            };
            let notices = args.say_cluster_notices(&session);
            progress::stop_line();
            if opened.send(notices).is_ok() {
                let state = RepoState::default();
                LiveSession { args, key, state, publisher, last: None, has_drift }.run(session, &inbox);
            }
        })?;
        let failed = |_| CommandError::Failed("the repo could not be opened".to_owned());
        is_open.recv().map_err(failed)??;
        Ok(Self { questions, state })
    }

    /// Asks a question. If the answer is no longer wanted, dropping the future takes the question back.
    pub(super) async fn ask(&self, question: Question, form: AnswerForm) -> Result<Arc<str>, NoAnswer> {
        let (reply, answer) = oneshot::channel();
        let asked = Message::Ask(Box::new(Asked { question, form, reply }));
        self.questions.try_send(asked).map_err(|error| match error {
            TrySendError::Full(_) => NoAnswer::Busy,
            TrySendError::Disconnected(_) => NoAnswer::Ended,
        })?;
        answer.await.map_err(|_| NoAnswer::Ended)?
    }

    /// The number of the state of the repo.
    pub(super) fn state_number(&self) -> u64 {
        self.state.borrow().number
    }

    /// The state of the repo as soon as its number is not `known`.
    pub(super) async fn next_state(&self, known: Option<u64>) -> RepoState {
        let mut state = self.state.clone();
        if state.wait_for(|state| Some(state.number) != known).await.is_err() {
            // The thread has ended; the state stays.
            std::future::pending::<()>().await;
        }
        state.borrow().clone()
    }
}

/// Starts a thread that reads repos.
pub(super) fn spawn_thread(name: &str, run: impl FnOnce() + Send + 'static) -> Result<(), CommandError> {
    // Documents may be nested as deep as the main thread can read them.
    let started = thread::Builder::new().name(name.to_owned()).stack_size(8 << 20).spawn(run);
    started.map(drop).map_err(|error| CommandError::Failed(format!("cannot start a thread: {error}")))
}

/// Tells the session about changes until it ends. The first message, to `watching`, is that the watch has begun.
fn watch_folders(folders: Vec<PathBuf>, watching: &SyncSender<()>, changes: &SyncSender<Message>) {
    let mut is_first = true;
    let watched = WatchedFolders { folders, out: None }.run_on_changes(|changed| {
        if std::mem::take(&mut is_first) {
            return watching.send(()).map_err(|_| CommandError::BrokenPipe);
        }
        changes.send(Message::Changed(ChangedFiles(changed))).map_err(|_| CommandError::BrokenPipe)
    });
    if let Err(CommandError::Failed(why)) = watched {
        print_notice(&format!("error: {why}; changes of files are not noticed\n"));
    }
}

/// The thread of the session.
struct LiveSession {
    args: Arc<RepoArgs>,
    /// Whether there is a page of drift, too.
    has_drift: bool,
    /// The key for digests of Secret values: answers can be compared.
    key: DigestKey,
    state: RepoState,
    publisher: watch::Sender<RepoState>,
    /// The last question and its answer, which stays as long as the repo.
    last: Option<(Question, AnswerForm, Arc<str>)>,
}

impl LiveSession {
    /// Answers questions until all senders are dropped.
    fn run(mut self, mut session: Session, inbox: &Receiver<Message>) {
        while let Some(changed) = self.answer_until_change(&session, inbox) {
            match self.update_session(&mut session, changed) {
                Ok(()) => self.state.error = None,
                Err(error) => self.state.error = Some(error.to_string()),
            }
            progress::stop_line();
            self.state.number += 1;
            self.last = None;
            self.publisher.send_replace(self.state.clone());
        }
    }

    /// Answers questions about a state of the repo, and returns the files that have changed then; `None` at the end.
    fn answer_until_change(&mut self, session: &Session, inbox: &Receiver<Message>) -> Option<ChangedFiles> {
        let mut state = AnswerSource {
            args: &self.args,
            key: &self.key,
            session,
            scenarios: Some(session.what_if()),
            start: None,
            host: PageHost::Server { state: self.state.number, has_drift: self.has_drift },
        };
        loop {
            match inbox.recv().ok()? {
                Message::Changed(changed) => return Some(changed),
                // Whoever asked has gone.
                Message::Ask(asked) if asked.reply.is_closed() => {}
                Message::Ask(asked) => {
                    let Asked { question, form, reply } = *asked;
                    let known = self.last.as_ref().filter(|last| last.0 == question && last.1 == form);
                    let answer = match known {
                        Some((.., answer)) => Ok(answer.clone()),
                        None => state
                            .answer(&question, form)
                            .map(Arc::from)
                            .map_err(|error| NoAnswer::Refused(error.to_string())),
                    };
                    progress::stop_line();
                    if let Ok(answer) = &answer {
                        self.last = Some((question, form, answer.clone()));
                    }
                    let _ = reply.send(answer);
                }
            }
        }
    }

    /// Reads what has changed.
    fn update_session(
        &self,
        session: &mut Session,
        ChangedFiles(changed): ChangedFiles,
    ) -> Result<(), CommandError> {
        let opened = self.args.open_repo()?;
        let paths = changed.into_iter().flatten().map(|path| opened.relative_path(&path));
        let paths: Option<Vec<String>> = paths.collect();
        match paths.filter(|paths| !paths.is_empty()) {
            Some(paths) => drop(session.update_files(opened.source(), &paths)),
            // A file outside of the repo has changed, or it is not known which.
            None => *session = self.args.open_shown_session()?,
        }
        Ok(())
    }
}

/// Answers questions about one state of the repo.
struct AnswerSource<'s> {
    args: &'s RepoArgs,
    key: &'s DigestKey,
    session: &'s Session,
    /// `None` only while the options change.
    scenarios: Option<ScenarioRunner<'s>>,
    /// What scenarios start from.
    start: Option<ScenarioStart>,
    host: PageHost,
}

impl AnswerSource<'_> {
    fn answer(&mut self, question: &Question, form: AnswerForm) -> Result<String, CommandError> {
        let session = self.session;
        match question {
            Question::Plan if form == AnswerForm::Page => self.write_plan_page(),
            Question::Plan => {
                let mut text = Vec::new();
                previous::write_plan_json(&self.args.narrow_plan(session.plan()), &mut text)?;
                String::from_utf8(text).map_err(|error| CommandError::Failed(error.to_string()))
            }
            Question::Clusters => {
                let mut clusters = session.cluster_rows();
                clusters.retain(|row| self.args.selects_cluster(&row.name));
                write_json(&ClusterList {
                    api_version: federate_dialect::plan::API_VERSION,
                    kind: "ClusterList",
                    snapshot: self.args.snapshot_age()?,
                    clusters,
                })
            }
            Question::Check => {
                let found = session.check_repo();
                if form == AnswerForm::Json {
                    return write_json(&findings_document(session.repo(), &found));
                }
                let name = self.args.repo.display().to_string();
                write_findings_page(&name, session, &found, self.host)
            }
            Question::Explain(asked) => {
                let namespace = asked.namespace.as_deref().filter(|namespace| !namespace.is_empty());
                write_json(&explain_subject(session, &asked.object, namespace)?.0)
            }
            Question::Diff(asked) => self.compare_revisions(asked, form),
            Question::WhatIf(asked) => self.run_scenario(asked, form),
        }
    }

    fn write_plan_page(&self) -> Result<String, CommandError> {
        let rows = findings::build_rows(self.session.repo(), &self.session.check_repo());
        let plan = self.session.plan_with_replicas();
        let name = self.args.repo.display().to_string();
        page::format_plan_page(&name, self.session, &self.args.narrow_plan(&plan), &rows, self.host)
    }

    fn compare_revisions(&self, asked: &DiffQuestion, form: AnswerForm) -> Result<String, CommandError> {
        let default = asked.from.is_none().then(|| default_base(self.args)).transpose()?;
        let from = asked.from.as_deref().or(default.as_deref());
        let range = RevisionRange::parse(from, asked.to.as_deref())?;
        let sides = ComparedSides::open(self.args, &range, [&[], &[]])?;
        let earlier = sides.base.as_ref().map_or(range.later_name(), |base| base.name.as_str());
        self.refuse_errors(&sides.to, &sides.to.findings())?;
        let comparison = RevisionComparison { from: &sides.from, to: &sides.to };
        let changes = comparison.compute_changes(self.key, &self.args.clusters);
        let limit = self.args.clusters.is_empty().then(PruneLimit::default);
        let report = build_report(&comparison, [earlier, range.later_name()], &changes, limit);
        if form == AnswerForm::Json {
            return write_json(&report);
        }
        let plans = [&sides.from, &sides.to]
            .map(|session| self.args.narrow_plan(&session.plan_with_replicas()).into_owned());
        page::format_diff_page(&report, &comparison, &plans, self.host)
    }

    fn run_scenario(&mut self, asked: &ScenarioQuestion, form: AnswerForm) -> Result<String, CommandError> {
        let session = self.session;
        let words = asked.events.describe_events();
        if words.is_empty() || words.len() > MAX_EVENTS {
            let why =
                format!("a scenario has between 1 and {MAX_EVENTS} events, and this one {}", words.len());
            return Err(CommandError::Failed(why));
        }
        self.refuse_errors(session, &session.plan_findings())?;
        let options = TimelineOptions { failover: asked.failover, ..TimelineOptions::default() };
        let scenarios = self.scenarios.take().unwrap_or_else(|| session.what_if()).with_options(options);
        let scenarios = &*self.scenarios.insert(scenarios);
        let outcome = asked
            .events
            .read_scenario(scenarios)
            .and_then(|scenario| scenarios.explained_outcome(&scenario))
            .map_err(CommandError::Failed)?;
        self.show_outcome(&outcome, &words, form)
    }

    fn show_outcome(
        &mut self,
        outcome: &ScenarioOutcome,
        words: &[String],
        form: AnswerForm,
    ) -> Result<String, CommandError> {
        if form == AnswerForm::Json {
            return write_json(&page::describe_effect(words, outcome));
        }
        let start = self.start.get_or_insert_with(|| ScenarioStart::from_session(self.session));
        page::format_scenario_page(start, outcome, words, self.host)
    }

    /// Refuses to go on with errors, as commands do without `--keep-going`.
    fn refuse_errors(&self, session: &Session, found: &[Finding]) -> Result<(), CommandError> {
        let errors: Vec<Finding> = found.iter().filter(|finding| finding.is_error()).cloned().collect();
        if errors.is_empty() || self.args.keep_going {
            return Ok(());
        }
        let rows = findings::build_rows(session.repo(), &errors);
        let texts: Vec<String> = rows
            .iter()
            .map(|row| {
                let place = row.format_place().map(|place| format!("{place}: ")).unwrap_or_default();
                format!("{place}{}", row.message)
            })
            .collect();
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        let why = finding::join_names(&texts, 3);
        Err(CommandError::Failed(format!("the repo has errors, so nothing was worked out: {why}")))
    }
}

/// The most bytes of a document. Who asks reads a part of it, and what is larger is for a file.
const MAX_DOCUMENT_BYTES: usize = 64 << 20;

/// The text of a document, up to the limit.
struct DocumentText(Vec<u8>);

impl io::Write for DocumentText {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.len() + bytes.len() > MAX_DOCUMENT_BYTES {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A document as the command line prints it.
fn write_json(document: &impl serde::Serialize) -> Result<String, CommandError> {
    let mut text = DocumentText(Vec::new());
    serde_json::to_writer_pretty(&mut text, document).map_err(|error| {
        CommandError::Failed(if error.is_io() {
            let limit = MAX_DOCUMENT_BYTES >> 20;
            format!(
                "the answer has more than {limit} MiB: ask about one object or cluster, or run the command itself with `-o json`"
            )
        } else {
            error.to_string()
        })
    })?;
    text.0.push(b'\n');
    String::from_utf8(text.0).map_err(|error| CommandError::Failed(error.to_string()))
}
