//! Kills and races: the branch is at the old or the new commit, and the next run succeeds.

use std::process::Stdio;
use std::time::Instant;

use super::{count, replicas, sound, web};
use crate::sandbox::kills;

#[test]
fn a_kill_at_any_moment_loses_nothing() {
    let sandbox = web();
    sandbox.git("clone -q --bare . .remote.git");
    sandbox.git(&format!("remote add origin file://{}", sandbox.path(".remote.git").display()));
    let started = Instant::now();
    sandbox.run("commit --branch rendered --push").code(0);
    let whole = started.elapsed();
    let rounds = kills(40);
    for round in 0..rounds {
        let before = sandbox.git("-C .remote.git rev-parse rendered");
        replicas(&sandbox, 5 + round as usize);
        let mut command = sandbox.command("commit --branch rendered --push");
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        std::thread::sleep(whole * (round + 1) / rounds);
        child.kill().unwrap();
        child.wait().unwrap();
        // git's push may outlive this process, so the remote can still move: it is read last.
        let local = sandbox.git("rev-parse rendered");
        let remote = sandbox.git("-C .remote.git rev-parse rendered");
        let parent = |at: &str| sandbox.git(&format!("-C .remote.git rev-parse {}^", at.trim()));
        assert!(
            remote == before || parent(&remote) == before,
            "the remote is at the old commit or at the new one"
        );
        assert!(local == before || local == remote, "and so is the local branch");
        sandbox.run("commit --branch rendered --push").code(0);
        let commits = count(&sandbox, "rendered");
        assert_eq!(commits, (round + 2).to_string(), "one commit a change, whoever made it");
    }
    sound(&sandbox);
    sandbox.git("-C .remote.git fsck --full --strict");
    assert_eq!(sandbox.git("rev-parse rendered"), sandbox.git("-C .remote.git rev-parse rendered"));
}

#[test]
fn a_lock_that_a_killed_run_left_is_cleared_away() {
    let sandbox = web();
    sandbox.run("commit --branch rendered").code(0);
    // The state after a kill between locking and moving.
    sandbox.write(".git/federate.lock", "rendered");
    sandbox.write(".git/refs/heads/rendered.lock", "");
    replicas(&sandbox, 6);
    sandbox.run("commit --branch rendered").code(0);
    assert_eq!(count(&sandbox, "rendered"), "2");
    assert!(!sandbox.path(".git/federate.lock").exists());
    // The lock of another process stays.
    sandbox.write(".git/refs/heads/rendered.lock", "");
    replicas(&sandbox, 8);
    let said = sandbox.run("commit --branch rendered").code(2).err;
    assert!(said.contains("branch `rendered` is locked"), "{said}");
    assert!(said.contains("`refs/heads/rendered.lock` in the repository's folder"), "{said}");
    assert_eq!(count(&sandbox, "rendered"), "2");
}

#[test]
fn commits_that_race_lose_nothing() {
    let sandbox = web();
    sandbox.run("commit --branch rendered").code(0);
    let folders: Vec<String> = (0..6).map(|number| format!("copy{number}")).collect();
    for (number, folder) in folders.iter().enumerate() {
        sandbox.git(&format!("worktree add -q --detach {folder} main"));
        let text = sandbox.read("web.yaml").replace("replicas: 4", &format!("replicas: {}", 10 + number * 2));
        sandbox.write(&format!("{folder}/web.yaml"), text);
    }
    let command = |folder: &String| {
        let mut command = sandbox.command(&format!("commit {folder} --branch rendered --quiet"));
        command.stderr(Stdio::piped()).spawn().unwrap()
    };
    let children: Vec<_> = folders.iter().map(command).collect();
    for child in children {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    assert_eq!(count(&sandbox, "rendered"), "7", "one commit each, in a line");
    sound(&sandbox);
}
