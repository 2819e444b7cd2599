//! Runs every recorded case: `cargo test --test conformance [-- PART-OF-AN-ID]`.
//!
//! Cases are JSON lines in `<dialect>/<family>.jsonl[.gz]` below `tests/conformance/`, or below
//! `$FEDERATE_CONFORMANCE_DIR`; `docs/conformance.md` says what their fields mean. Each family prints
//! `agreed/total`. Any disagreement fails the run, except those listed with a reason in `known-gaps.txt`,
//! which fail it the day they pass. A family that no test verifies, a filter that no case passes, and an id in
//! `known-gaps.txt` that no case has fail it too.
//!
//! Then the reasons that explanations give in all cases are tried (`reasons.rs`); `reasons` in place of an id tries only them,
//! and `reasons PART-OF-AN-ID` those of some cases.
//!
//! The cases in `readable/` are compared with those of the same ids (`readable.rs`).
//!
//! Cases of builds need helm and kustomize or kubectl. Without these, they are counted on the last line as not run; they fail with `CI` or
//! `FEDERATE_REQUIRE_PROGRAMS` in the environment.
//!
//! With `--all`, all disagreements are shown in full, and not only the first ones of each family.
//!
//! `cargo test --test conformance -- --case ID [FOLDER]` prints one case as YAML, or writes it as files.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "tests fail loudly"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use rayon::prelude::*;
use serde_json::Value;

use cases::id;
use gaps::Gaps;
use readable::ReadableCases;

mod apiserver;
mod argocd_builds;
mod argocd_sets;
mod cases;
mod diff;
mod gaps;
mod karmada;
mod karmada_capacity;
mod karmada_failover;
mod karmada_hub;
mod karmada_interpreter;
mod karmada_member;
mod kubeadmiral;
mod kubeadmiral_hub;
mod kubefed;
mod kubefed_hub;
mod kubefed_import;
mod kubefed_member;
mod kubefleet;
mod kubefleet_capacity;
mod kubefleet_hub;
mod kubefleet_member;
mod kubefleet_repo;
mod kubefleet_rollout;
mod kubefleet_run;
mod kubefleet_select;
mod member_status;
mod members;
mod models;
mod ocm;
mod ocm_works;
mod readable;
mod reason_cases;
mod reasons;
mod run;
mod yaml;

/// Verifies one case: `Err` holds a readable difference.
type Verify = fn(&Value) -> Result<(), String>;

/// The variable with which cases that need a missing program fail, as with `CI`.
const REQUIRE_PROGRAMS: &str = "FEDERATE_REQUIRE_PROGRAMS";

/// Disagreements shown in full for each family.
const SHOWN: usize = 3;

/// The function that verifies the cases of a family; `None` if there is none yet.
fn verify(dialect: &str, family: &str) -> Option<Verify> {
    Some(match (dialect, family) {
        ("yaml", "scalars") => yaml::verify,
        ("apiserver", _) => apiserver::verify,
        (
            "karmada",
            "scheduling" | "triggers" | "ties" | "matching" | "overrides" | "manifests" | "namespaces"
            | "thirdparty" | "customized" | "upstream-tests",
        ) => karmada::verify,
        (
            "karmada-1.14" | "karmada-1.15" | "karmada-1.16" | "karmada-1.17" | "karmada-1.18",
            "scheduling" | "triggers" | "ties" | "changes",
        ) => karmada::verify,
        ("karmada", "defaults") => karmada::verify_defaults,
        ("karmada", "refusals") => karmada::verify_refusals,
        ("karmada", "repos") => karmada::verify_repo,
        ("karmada", "steps") => karmada::verify_steps,
        ("karmada", "hubstate") => karmada_hub::hub_state,
        ("karmada", "clusterstatus") => karmada_capacity::status,
        ("karmada", "quota") => karmada_capacity::quotas,
        ("karmada", "failover") => karmada_failover::failover,
        ("karmada", "interpreter") => karmada_interpreter::verify,
        ("karmada", "retain") => karmada_member::retain,
        ("karmada", "health") => karmada_member::health,
        (
            "kubeadmiral",
            "scheduling" | "triggers" | "overrides" | "manifests" | "followers" | "e2e" | "ftc"
            | "upstream-tests",
        ) => kubeadmiral::verify,
        ("kubeadmiral", "doc" | "adoption" | "retain") => kubeadmiral::judge_actions,
        ("kubeadmiral", "waiting" | "leaders" | "policychange" | "requests" | "repo") => {
            members::verify_kubeadmiral
        }
        ("kubefed", "disabled" | "rspmemory" | "repo") => members::verify_kubefed,
        ("kubeadmiral", "clusterstatus") => member_status::kubeadmiral,
        ("kubeadmiral", "hubstate" | "failover") => kubeadmiral_hub::verify,
        ("kubeadmiral", "automigration") => member_status::automigration,
        ("kubefed", "clusterstatus") => member_status::kubefed,
        ("kubefed", "hubstate" | "failover") => kubefed_hub::verify,
        ("kubefed", "retain" | "adoption" | "drift") => kubefed_member::verify,
        ("kubefed", "federate") => kubefed_import::federate,
        ("kubefed", "enable") => kubefed_import::enable,
        (
            "kubefed",
            "placement" | "rsp" | "overrides" | "manifests" | "e2e" | "doc" | "v1" | "v1-manifests" | "dns",
        ) => kubefed::verify,
        ("kubefleet", "schedule" | "reschedule" | "doc") => kubefleet::schedule,
        ("kubefleet", "apply") => kubefleet_member::apply,
        ("kubefleet", "validation") => kubefleet::validation,
        ("kubefleet", "selection") => kubefleet_select::selection,
        ("kubefleet", "overrides") => kubefleet_select::overrides,
        ("kubefleet", "hubstate" | "failover") => kubefleet_hub::scheduler,
        ("kubefleet", "clusterstatus") => kubefleet_capacity::status,
        ("kubefleet", "stagedrun") => kubefleet_run::run,
        ("kubefleet", "leave") => kubefleet_hub::leave,
        ("kubefleet", "waves") => kubefleet_member::waves,
        ("kubefleet", "health") => kubefleet_member::health,
        ("kubefleet", "staged") => kubefleet_rollout::staged,
        ("kubefleet", "rollout") => kubefleet_rollout::rollout,
        ("kubefleet", "eviction") => kubefleet_rollout::eviction,
        ("kubefleet", "updates") => kubefleet_repo::verify,
        ("kubefleet", "admission" | "envelopes" | "releases" | "ownership" | "repo") => {
            kubefleet_repo::verify
        }
        ("kubefleet", "revive") => kubefleet_repo::verify_pending,
        ("kubefleet", "strategies") => kubefleet_rollout::strategies,
        ("ocm", "placement" | "decisiongroups" | "taints" | "steady" | "scores" | "sets" | "cel") => {
            ocm::placement
        }
        ("ocm", "balance") => ocm::balance,
        ("ocm", "validation") => ocm::validation,
        ("ocm", "rolloutstep") => ocm_works::rollout_step,
        ("ocm", "workreplicaset") => ocm_works::replica_set,
        ("ocm", "rollout") => ocm_works::rollout,
        ("ocm", "work") => ocm_works::order,
        ("ocm", "apply") => ocm_works::apply,
        ("argocd-flux", family) if family.starts_with("appset-") => argocd_sets::verify,
        (
            "argocd-flux",
            "app-directory" | "app-helm" | "app-kustomize" | "flux-helmrelease" | "flux-kustomization"
            | "flux-substitute",
        ) => argocd_builds::verify,
        // Rows that name the family whose form they have.
        ("kubefleet", "upstream-tests") => |case| match case["family"].as_str() {
            Some("schedule" | "reschedule" | "doc") => kubefleet::upstream_schedule(case),
            Some(family) => verify("kubefleet", family).ok_or("no test verifies this family")?(case),
            None => Err("no family".to_owned()),
        },
        _ => return None,
    })
}

fn main() -> ExitCode {
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/conformance");
    let elsewhere = std::env::var_os("FEDERATE_CONFORMANCE_DIR").map(PathBuf::from);
    let root = elsewhere.clone().unwrap_or_else(|| here.clone());
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let Some(at) = arguments.iter().position(|a| a == "--case") {
        return show(&root, arguments.get(at + 1), arguments.get(at + 2));
    }
    let shown = if arguments.iter().any(|a| a == "--all") { usize::MAX } else { SHOWN };
    let mut filters = arguments.into_iter().filter(|arg| !arg.starts_with('-')).peekable();
    let only_reasons = filters.next_if(|filter| filter == "reasons").is_some();
    let wanted = filters.next().unwrap_or_default();
    let gaps = Gaps::read(&std::fs::read_to_string(here.join("known-gaps.txt")).expect("known-gaps.txt"));
    let mut total = Total { shown, ..Total::default() };
    let mut readable = ReadableCases::read(&here);
    let mut known: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut tried = Vec::new();
    for (name, path) in cases::families(&root) {
        let mut all = cases::read(&path);
        if only_reasons || wanted.is_empty() {
            tried.extend(all.iter().filter(|case| id(case).contains(&wanted)).cloned());
        }
        if only_reasons {
            continue;
        }
        readable.compare(&all);
        for case in &all {
            known.entry(cases::family(id(case)).to_owned()).or_default().insert(id(case).to_owned());
        }
        all.retain(|case| id(case).contains(&wanted) || name.contains(&wanted));
        if !all.is_empty() {
            run_family(&name, &all, &gaps, &mut total);
        }
    }
    if !tried.is_empty() {
        total.failed += reason_cases::try_reasons(&tried, wanted.is_empty(), shown);
    }
    if only_reasons {
        if tried.is_empty() {
            println!("no case has `{wanted}` in its id");
            return ExitCode::FAILURE;
        }
        return if total.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    }
    let whole = elsewhere.is_none();
    for id in gaps.stale(&known, whole) {
        println!("--- {id}\nlisted in known-gaps.txt, but there is no such case: take it out");
        total.failed += 1;
    }
    if whole {
        for mistake in readable.find_mistakes() {
            println!("--- cases to read\n{mistake}");
            total.failed += 1;
        }
    }
    if total.agreed + total.gaps + total.failed + total.not_run == 0 {
        println!("no case has `{wanted}` in its id");
        return ExitCode::FAILURE;
    }
    let not_run = match &total.missing {
        Some(missing) => format!(", {} not run: {missing}", total.not_run),
        None => String::new(),
    };
    println!("{} agreed, {} known gaps, {} failed{not_run}", total.agreed, total.gaps, total.failed);
    if total.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// What came of all cases.
#[derive(Default)]
struct Total {
    /// Disagreements shown in full for each family.
    shown: usize,
    agreed: usize,
    gaps: usize,
    failed: usize,
    /// Cases that need a program which this machine lacks.
    not_run: usize,
    /// What it lacks.
    missing: Option<String>,
}

/// Verifies the cases of a family.
fn run_family(name: &str, cases: &[Value], gaps: &Gaps, total: &mut Total) {
    let (dialect, family) = name.split_once('/').unwrap_or((name, ""));
    let verify = match (verify(dialect, family), gaps.family(name)) {
        (Some(verify), None) => verify,
        (None, Some(reason)) => {
            println!("{name}: 0/{} ({reason})", cases.len());
            total.gaps += cases.len();
            return;
        }
        (Some(_), Some(_)) => {
            println!(
                "--- {name}\n`{name}/*` is listed in known-gaps.txt, but the family is verified: take it out"
            );
            total.failed += cases.len();
            return;
        }
        (None, None) => {
            println!("--- {name}\nno test verifies this family: add one, or `{name}/*` to known-gaps.txt");
            total.failed += cases.len();
            return;
        }
    };
    // Where tests must be complete, the cases fail.
    let is_required = ["CI", REQUIRE_PROGRAMS].iter().any(|name| std::env::var_os(name).is_some());
    let is_built = dialect == "argocd-flux" && !family.starts_with("appset-");
    if let Some(missing) = argocd_builds::find_missing_program().filter(|_| is_built && !is_required) {
        println!("{name}: {} not run", cases.len());
        total.not_run += cases.len();
        total.missing = Some(missing);
        return;
    }
    let verdicts: Vec<Result<(), String>> = cases.par_iter().map(verify).collect();
    let agreed = verdicts.iter().filter(|v| v.is_ok()).count();
    println!("{name}: {agreed}/{}", cases.len());
    let wrong: Vec<(&str, &str)> = cases
        .iter()
        .zip(&verdicts)
        .filter_map(|(case, verdict)| match (gaps.case(id(case)), verdict) {
            (true, Ok(())) => Some((id(case), "listed in known-gaps.txt, but it passes: take it out")),
            (false, Err(difference)) => Some((id(case), difference.as_str())),
            _ => None,
        })
        .collect();
    for (id, difference) in wrong.iter().take(total.shown) {
        println!("--- {id}\n{difference}");
    }
    let listed = cases.iter().zip(&verdicts).filter(|(case, v)| v.is_err() && gaps.case(id(case))).count();
    total.agreed += cases.len() - wrong.len() - listed;
    total.gaps += listed;
    total.failed += wrong.len();
}

/// Prints a case, or writes its files below a folder.
fn show(root: &Path, wanted: Option<&String>, folder: Option<&String>) -> ExitCode {
    let wanted = wanted.map_or("", String::as_str);
    let all = cases::families(root).into_values().flat_map(|file| cases::read(&file));
    let case = all.into_iter().find(|case| id(case) == wanted);
    let Some(case) = case else {
        println!("there is no case `{wanted}` below {}", root.display());
        return ExitCode::FAILURE;
    };
    for (path, text) in cases::files(&case) {
        match folder {
            // Whoever reads may stop early.
            None => drop(write!(std::io::stdout(), "# {path}\n{text}---\n")),
            Some(folder) => {
                let path = Path::new(folder).join(path);
                std::fs::create_dir_all(path.parent().expect("a folder")).expect("a new folder");
                std::fs::write(&path, text).expect("a new file");
                println!("{}", path.display());
            }
        }
    }
    ExitCode::SUCCESS
}
