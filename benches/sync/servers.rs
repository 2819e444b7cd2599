//! API servers in a process of their own: this program again, which takes one command a line and answers with a line.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use federate_test_apiserver::{ApiRequest, Fleet};
use serde_json::Value;

/// The other process; it ends when its standard input does.
pub(crate) struct Servers {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Servers {
    /// Serves clusters, and writes a kubeconfig.
    pub(crate) fn start(folder: &Path, names: &[String]) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.arg("serve").args(names).current_dir(folder).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (input, output) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        let mut servers = Self { child, input, output };
        servers.line();
        servers
    }

    /// Sends a command, and returns its answer.
    pub(crate) fn send(&mut self, command: &str) -> String {
        writeln!(self.input, "{command}").unwrap();
        self.input.flush().unwrap();
        self.line()
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        assert!(self.output.read_line(&mut line).unwrap() > 0, "the servers have ended");
        line.trim_end().to_owned()
    }
}

impl Drop for Servers {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The other process.
pub(crate) fn serve(names: &[String]) {
    let fleet = Fleet::start_clusters(&names.iter().map(String::as_str).collect::<Vec<_>>()).unwrap();
    fleet.write_kubeconfig(Path::new("kubeconfig")).unwrap();
    println!("ready");
    for line in std::io::stdin().lines() {
        let line = line.unwrap();
        let mut words = line.splitn(4, ' ');
        let mut word = || words.next().unwrap_or_default();
        let answer = match word() {
            "reset" => {
                for name in names {
                    fleet.lock_cluster(name).reset_counts();
                }
                "done".to_owned()
            }
            "counts" => counts(&fleet, names),
            "until" => until(&fleet, names, (word(), word(), word())),
            "compared" => compared(&fleet, names, word()),
            "patch" | "merge" | "create" => write(&fleet, &line),
            other => panic!("{other}?"),
        };
        println!("{answer}");
    }
}

/// The requests that were answered, by verb.
fn counts(fleet: &Fleet, names: &[String]) -> String {
    let mut all: BTreeMap<String, usize> = BTreeMap::new();
    for name in names {
        for (verb, count) in fleet.lock_cluster(name).counts() {
            *all.entry(verb.clone()).or_default() += count;
        }
    }
    format!("{all:?}")
}

/// Waits until a field of an object has a value in all clusters that have the object.
fn until(fleet: &Fleet, names: &[String], (path, pointer, value): (&str, &str, &str)) -> String {
    let value: Value = serde_json::from_str(value).unwrap();
    let mut open: Vec<&String> = names.iter().collect();
    while !open.is_empty() {
        open.retain(|name| {
            fleet.lock_cluster(name).get(path).is_some_and(|object| object.pointer(pointer) != Some(&value))
        });
        std::thread::sleep(Duration::from_millis(5));
    }
    "done".to_owned()
}

/// Waits until all clusters but one have answered a list.
fn compared(fleet: &Fleet, names: &[String], but: &str) -> String {
    let mut open: Vec<&String> = names.iter().filter(|name| *name != but).collect();
    while !open.is_empty() {
        open.retain(|name| !fleet.lock_cluster(name).counts().contains_key("list"));
        std::thread::sleep(Duration::from_millis(5));
    }
    "done".to_owned()
}

/// `patch CLUSTER PATH JSON` (or `merge`) as a person does it, `create CLUSTER PATH JSON`.
fn write(fleet: &Fleet, line: &str) -> String {
    let words: Vec<&str> = line.splitn(4, ' ').collect();
    let [verb, cluster, path, body] = words[..] else { panic!("{line}?") };
    let mut cluster = fleet.lock_cluster(cluster);
    let answer = if verb == "create" {
        cluster.create_object(path, &serde_json::from_str(body).unwrap())
    } else {
        let request = ApiRequest::new("PATCH", path).with_query("fieldManager", "kubectl-edit");
        let sort = if verb == "merge" { "merge" } else { "strategic-merge" };
        cluster.handle_request(&request.with_body(&format!("application/{sort}-patch+json"), body.to_owned()))
    };
    assert!(answer.status < 300, "{line}: {:?}", answer.json_body());
    "done".to_owned()
}
