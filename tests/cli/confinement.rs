//! What confines the programs that build, what follows where nothing does, and how long they may run together. Machines that lack
//! something are Linux with a filter of system calls; where it cannot be set, tests say so and pass.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::builds::{CHART, CLUSTERS, POLICY, Tools};
use crate::sandbox::{Ran, Sandbox};

/// A repo with charts, and a program in place of Helm.
fn repo(charts: usize, program: &str) -> Sandbox {
    let sandbox = Sandbox::new().file("clusters.yaml", CLUSTERS).file("policy.yaml", POLICY);
    let mut sources = "sources:\n".to_owned();
    for number in 0..charts {
        sources.push_str(&format!("- {{chart: c{number}}}\n"));
        sandbox.write(&format!("c{number}/Chart.yaml"), CHART);
        sandbox.write(&format!("c{number}/values.yaml"), format!("number: {number}\n"));
    }
    sandbox.write("federate.yaml", sources);
    sandbox.write("bin/helm", format!("#!/bin/sh\nPATH=/usr/bin:/bin\n{program}\n"));
    fs::set_permissions(sandbox.path("bin/helm"), PermissionsExt::from_mode(0o755)).unwrap();
    sandbox
}

/// A program that writes an object, whose name is that of the chart's folder.
const WRITE: &str = "for word; do case $word in */c[0-9]*) name=${word##*/};; esac; done
printf 'apiVersion: v1\\nkind: ConfigMap\\nmetadata: {name: %s}\\n' \"$name\"";

fn command(sandbox: &Sandbox, line: &str) -> Command {
    let mut command = sandbox.command(line);
    command.env("FEDERATE_HELM", sandbox.path("bin/helm")).env("FEDERATE_CACHE_DIR", sandbox.path(".cache"));
    command.env_remove("FEDERATE_REQUIRE_CONFINEMENT");
    command
}

fn run(sandbox: &Sandbox, line: &str) -> Ran {
    Ran::of(command(sandbox, line).output().unwrap(), &sandbox.path("."))
}

/// What a machine lacks.
#[derive(Clone, Copy)]
enum Lack {
    Nothing,
    Namespaces,
    Both,
}

/// A filter of system calls, as for a system without Landlock and namespaces.
const FILTER: &str = r"
import ctypes, os, platform, struct, sys
unshare, clone, clone3, arch = {'x86_64': (272, 56, 435, 0), 'aarch64': (97, 220, 435, 0)}[platform.machine()]
load, equal, anybit, give = 0x20, 0x15, 0x45, 0x06
rules = [(load, 0, 0, 0)]
if sys.argv[1] == 'both':
    for call in (444, 445, 446): rules += [(equal, 0, 1, call), (give, 0, 0, 0x50000 | 38)]
rules += [(equal, 0, 1, clone3), (give, 0, 0, 0x50000 | 38), (equal, 0, 1, unshare), (give, 0, 0, 0x50000 | 1),
          (equal, 0, 3, clone), (load, 0, 0, 16), (anybit, 0, 1, 0x10000000), (give, 0, 0, 0x50000 | 1), (give, 0, 0, 0x7fff0000)]
code = ctypes.create_string_buffer(b''.join(struct.pack('HBBI', *rule) for rule in rules))
class Program(ctypes.Structure): _fields_ = [('length', ctypes.c_ushort), ('filter', ctypes.c_void_p)]
program, libc = Program(len(rules), ctypes.addressof(code)), ctypes.CDLL(None, use_errno=True)
if libc.prctl(38, 1, 0, 0, 0) or libc.prctl(22, 2, ctypes.byref(program), 0, 0): sys.exit(77)
os.execvp(sys.argv[2], sys.argv[2:])
";

/// Runs federate as on a machine that lacks something; `None`, with a message, where this machine cannot play it.
fn run_without(lack: Lack, sandbox: &Sandbox, line: &str, variables: &[(&str, &str)]) -> Option<Ran> {
    let mut inner = command(sandbox, line);
    inner.envs(variables.iter().copied());
    let what = match lack {
        Lack::Nothing => return Some(Ran::of(inner.output().unwrap(), &sandbox.path("."))),
        Lack::Namespaces => "namespaces",
        Lack::Both => "both",
    };
    let mut outer = Command::new("python3");
    outer.args(["-c", FILTER, what]).arg(inner.get_program()).args(inner.get_args());
    outer.current_dir(sandbox.path("."));
    for (name, value) in inner.get_envs() {
        match value {
            Some(value) => outer.env(name, value),
            None => outer.env_remove(name),
        };
    }
    let ran = outer.output().ok().map(|output| Ran::of(output, &sandbox.path(".")));
    let ran = ran.filter(|ran| ran.code != 77 && Path::new("/proc/self/status").exists());
    if ran.is_none() {
        #[allow(clippy::print_stderr, reason = "whoever runs the tests must know")]
        {
            eprintln!("skipped: this machine cannot filter system calls");
        }
    }
    ran
}

fn confinement(lack: Lack) -> Option<serde_json::Value> {
    let ran = run_without(lack, &repo(0, WRITE), "doctor -o json", &[])?;
    Some(ran.json()["confinement"].clone())
}

#[test]
fn doctor_says_what_confines_programs() {
    let Some(found) = confinement(Lack::Both) else { return };
    assert_eq!((&found["namespaces"], &found["landlock"]), (&false.into(), &0.into()), "{found}");
    assert_eq!((&found["closesNetwork"], &found["closesFiles"]), (&false.into(), &false.into()), "{found}");
    assert_eq!(found["seccomp"], true, "{found}");
    let ran = run_without(Lack::Both, &repo(0, WRITE), "doctor", &[]).unwrap();
    assert_eq!(ran.code, 0, "{ran:#?}");
    assert!(
        ran.out.contains("not confined: they could reach the network and read the files of this user"),
        "{}",
        ran.out
    );
    let ran = run_without(Lack::Both, &repo(0, WRITE), "doctor --require-confinement", &[]).unwrap();
    assert_eq!(ran.code, 2, "{ran:#?}");
    assert!(ran.out.contains("refused, because programs are not confined"), "{}", ran.out);
    let alone = confinement(Lack::Namespaces).unwrap();
    assert_eq!(alone["namespaces"], false, "{alone}");
    let whole = confinement(Lack::Nothing).unwrap();
    assert_eq!(alone["landlock"], whole["landlock"], "{alone} {whole}");
}

#[test]
fn builds_that_must_be_confined_are_refused_elsewhere() {
    let sandbox = repo(1, WRITE);
    for (line, variable) in [
        ("render --out out --require-confinement", ""),
        ("render --out out", "true"),
        ("render --out out", "1"),
        ("render --out out --require-confinement", "false"),
    ] {
        let variables = [("FEDERATE_REQUIRE_CONFINEMENT", variable)];
        let Some(ran) = run_without(Lack::Both, &sandbox, line, &variables) else { return };
        assert_eq!(ran.code, 2, "{ran:#?}");
        assert!(
            ran.err.contains("error[build-unconfined]") && ran.err.contains("federate doctor"),
            "{}",
            ran.err
        );
        assert!(!sandbox.path("out").exists() && Tools::count_builds(&sandbox) == 0);
    }
    // What a repo says does not count, and what is in the cache starts no program.
    sandbox.write(".env", "FEDERATE_REQUIRE_CONFINEMENT=false\n");
    let ran =
        run_without(Lack::Both, &sandbox, "render --out out", &[("FEDERATE_REQUIRE_CONFINEMENT", "false")]);
    assert_eq!(ran.unwrap().code, 0);
    let variables = [("FEDERATE_REQUIRE_CONFINEMENT", "true")];
    assert_eq!(run_without(Lack::Both, &sandbox, "render --out out", &variables).unwrap().code, 0);
    // Where the system confines, nothing changes.
    for lack in [Lack::Nothing, Lack::Namespaces] {
        let found = confinement(lack).unwrap();
        let is_complete = found["closesNetwork"] == true && found["closesFiles"] == true;
        let ran = run_without(lack, &repo(1, WRITE), "render --out out", &variables).unwrap();
        assert_eq!(ran.code == 0, is_complete, "{found} {ran:#?}");
    }
}

#[test]
fn what_a_machine_lacks_is_said_once() {
    let sandbox = repo(3, WRITE);
    let Some(ran) = run_without(Lack::Both, &sandbox, "render --out out", &[]) else { return };
    assert_eq!(ran.code, 0, "{ran:#?}");
    assert_eq!(ran.err.matches("does not confine the programs that build").count(), 1, "{}", ran.err);
    // Nothing is built again.
    let ran = run_without(Lack::Both, &sandbox, "render --out out", &[]).unwrap();
    assert!(!ran.err.contains("does not confine"), "{}", ran.err);
}

#[test]
fn builds_have_a_limit_together() {
    let sandbox = repo(12, &format!("sleep 1\n{WRITE}"));
    let start = Instant::now();
    let ran = run(&sandbox, "render --out out --build-time 3");
    assert_eq!(ran.code, 2, "{ran:#?}");
    assert!(ran.err.contains("error[build-limit]"), "{}", ran.err);
    assert!(ran.err.contains("the builds of the run take longer than 3 seconds together"), "{}", ran.err);
    assert!(ran.err.contains("--build-time"), "{}", ran.err);
    assert!(start.elapsed() < Duration::from_secs(12), "{:?}", start.elapsed());
    // What was built costs nothing: the next runs go on from there.
    let mut runs = 1;
    while run(&sandbox, "render --out out --build-time 3").code != 0 {
        runs += 1;
        assert!(runs < 12, "each run builds more");
    }
    assert_eq!(run(&sandbox, "render --out out --build-time 0").code, 0, "all is in the cache");
}
