//! The bounds of `federate sync`: idle, from a push to the clusters, drift, and a round over many clusters.
//!
//! `cargo bench --bench sync` runs all scenarios; `-- fleet` and `-- many` run one. The API servers run in a process of
//! their own, so that federate's processor time and memory are its own. `FEDERATE_BENCH_BINARY` names another binary,
//! `FEDERATE_BENCH_IDLE` the seconds without changes (600), `FEDERATE_BENCH_ROUNDS` the rounds of a day without changes (288),
//! `FEDERATE_BENCH_CLUSTERS` and `FEDERATE_BENCH_MANY` the numbers of clusters (100 and 1,000).

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a benchmark that cannot set up its input has nothing better to do"
)]

/// Objects consist of many small allocations, which all cores make and free.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[path = "shared/apps.rs"]
mod apps;
#[path = "../tests/cli/git_http.rs"]
#[allow(dead_code, unreachable_pub, reason = "the tests use more of it")]
mod git_http;
#[path = "sync/many.rs"]
mod many;
#[path = "sync/process.rs"]
mod process;
#[path = "sync/servers.rs"]
mod servers;

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::json;

use process::{Running, number, run};
use servers::Servers;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    if arguments.first().is_some_and(|word| word == "serve") {
        return servers::serve(&arguments[1..]);
    }
    let wanted = |name: &str| arguments.is_empty() || arguments.iter().any(|word| word == name);
    if wanted("fleet") {
        fleet();
    }
    if wanted("many") {
        many::many();
    }
}

/// One Sync over many objects in many clusters: an edit, a change by hand, and nothing at all.
fn fleet() {
    let clusters = number("FEDERATE_BENCH_CLUSTERS", 100);
    let scratch = tempfile::tempdir().unwrap();
    let folder = scratch.path();
    let names: Vec<String> = (0..clusters).map(|at| format!("member-{at}")).collect();
    let mut servers = Servers::start(folder, &names);
    write_repo(&folder.join("repo"), &names);
    for line in ["init -q -b main repo", "init -q --bare -b main origin.git"] {
        git(folder, line);
    }
    push(folder);
    fs::write(folder.join("token"), "secret").unwrap();
    let sync = "apiVersion: federate.dev/v1alpha1\nkind: Sync\nmetadata: {name: fleet}\nspec:\n  source: {url: \
                origin.git, ref: {branch: main}}\n  interval: 5m\n  apply: {}\n  drift: {mode: MODE}\n";
    fs::write(folder.join("sync.yaml"), sync.replace("MODE", "report")).unwrap();

    let mut running = Running::start(folder, "log", FILES);
    running.until("applied main@");
    println!("first round: {}", running.spent());
    running.settle();
    println!("watches begun: {}", running.spent());
    servers.send("reset");

    for at in 0..3 {
        let new = format!("registry.example.com/app-7:2.{at}");
        let file = folder.join("repo/app-7.yaml");
        let text = apps::app(7).replace("registry.example.com/app-7:1.4.2", &new);
        fs::write(file, text).unwrap();
        push(folder);
        running.mark();
        let begun = Instant::now();
        running.hook(folder);
        let path = "/apis/apps/v1/namespaces/team-7/deployments/app-7";
        servers.send(&format!("until {path} /spec/template/spec/containers/0/image {}", json!(new)));
        println!("one template edited: in the last of {clusters} clusters after {:?}", begun.elapsed());
        running.until(&format!("applied main@sha1:{}", tip(folder)));
        println!(
            "  round over after {:?}, {}, requests {}",
            begun.elapsed(),
            running.spent(),
            servers.send("counts")
        );
        running.settle();
        println!("  with what follows: {}, requests {}", running.spent(), servers.send("counts"));
        servers.send("reset");
    }

    running.mark();
    let begun = Instant::now();
    let path = "/apis/apps/v1/namespaces/team-3/deployments/app-3";
    let mine = json!({"spec": {"template": {"spec": {"containers": [{"name": "app", "image": "mine"}]}}}});
    servers.send(&format!("patch member-9 {path} {mine}"));
    running.until("changed by kubectl-edit in member-9");
    println!("a change by hand: reported after {:?}, {}", begun.elapsed(), running.spent());
    fs::write(folder.join("sync.yaml"), sync.replace("MODE", "correct")).unwrap();
    running.until("ReconciliationSucceeded");
    running.settle();
    running.mark();
    let begun = Instant::now();
    servers.send(&format!("patch member-8 {path} {mine}"));
    let old = json!("registry.example.com/app-3:1.4.2");
    servers.send(&format!("until {path} /spec/template/spec/containers/0/image {old}"));
    println!("a change by hand: put back after {:?}, {}", begun.elapsed(), running.spent());
    running.settle();

    let idle = Duration::from_secs(number("FEDERATE_BENCH_IDLE", 600) as u64);
    servers.send("reset");
    running.mark();
    for _ in 0..10 {
        std::thread::sleep(idle / 10);
        println!("idle: {}, requests {}", running.spent(), servers.send("counts"));
    }
    let share = running.processor().as_secs_f64() / idle.as_secs_f64() * 100.0;
    println!("idle for {idle:?}: {share:.2} % of a core (bound 1 %), {} (bound 150 MB)", running.memory());
    let short = sync.replace("MODE", "correct").replace("interval: 5m", "interval: 1s");
    let applied = running.count_rounds() + 1;
    fs::write(folder.join("sync.yaml"), short).unwrap();
    while running.count_rounds() < applied {
        std::thread::sleep(Duration::from_millis(200));
    }
    day(&running, &mut servers);
}

/// A day of idle, by a clock that runs faster: the rounds that an interval of five minutes has in a day, one after the other.
/// Between rounds, an idle process waits for its watches.
fn day(running: &Running, servers: &mut Servers) {
    let rounds = number("FEDERATE_BENCH_ROUNDS", 288) as u64;
    servers.send("reset");
    let (first, before) = (running.count_rounds(), running.processor());
    while running.count_rounds() < first + rounds {
        std::thread::sleep(Duration::from_millis(200));
    }
    let (done, spent) = (running.count_rounds() - first, running.processor().saturating_sub(before));
    let each = spent / u32::try_from(done).unwrap();
    println!(
        "{done} rounds in which nothing has changed: {spent:?}, {each:?} each; a day of 288 such rounds: {:?} of a core's 86,400 s, {}, \
         requests {}",
        each * 288,
        running.memory(),
        servers.send("counts")
    );
}

const FILES: &str = "sync -f sync.yaml --state state --kubeconfig kubeconfig --listen 127.0.0.1:0 --webhook-listen \
                     127.0.0.1:0 --webhook-token token --metrics-listen 127.0.0.1:0";

fn git(folder: &Path, arguments: &str) -> String {
    let identity = "-c user.name=b -c user.email=b@example.com -c gc.auto=0";
    run(folder, "git", &format!("{identity} {arguments}"))
}

fn push(folder: &Path) {
    git(folder, "-C repo add -A");
    git(folder, "-C repo commit -q -m change");
    git(folder, "-C repo push -q ../origin.git main");
}

fn tip(folder: &Path) -> String {
    git(folder, "-C repo rev-parse HEAD").trim().to_owned()
}

fn inventory(names: &[String]) -> String {
    let cluster = |name: &String| {
        format!(
            "---\napiVersion: cluster.karmada.io/v1alpha1\nkind: Cluster\nmetadata: {{name: {name}}}\nspec: {{}}\n"
        )
    };
    names.iter().map(cluster).collect()
}

fn write_repo(repo: &Path, names: &[String]) {
    apps::write(repo);
    fs::write(repo.join("clusters.yaml"), inventory(names)).unwrap();
}
