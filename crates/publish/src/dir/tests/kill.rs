//! Publishing that is interrupted.

use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use super::*;

/// Publishes until the new tree is staged next to the old one.
fn staged(sandbox: &Sandbox, new: &OutputTree) -> OutputFolder {
    let folder = open(&sandbox.out()).unwrap();
    let root = folder.root.as_ref().map(AsFd::as_fd);
    let index = FileIndex::default();
    let owned = OwnedFiles::new(folder.previous.as_ref(), &index);
    let comparison = comparison::compare_tree(&sandbox.out(), root, new, &owned).unwrap();
    stage::stage_tree(&folder.location, root, new, &comparison).unwrap();
    folder
}

/// Publishes up to a step at which the process is "killed" without cleanup.
fn killed(step: &str, sandbox: &Sandbox, new: &OutputTree) {
    let folder = staged(sandbox, new);
    match step {
        "half staged" => {
            fs::remove_dir_all(folder.location.path_beside(stage::NEW_FOLDER).join("m1/shop")).unwrap();
        }
        "staged" => {}
        "between two renames" => swap::set_aside(&folder.location).unwrap(),
        _ => unreachable!(),
    }
    let lock = folder.location.path_beside("lock");
    drop(folder);
    fs::write(lock, "").unwrap();
}

#[test]
fn a_file_system_that_cannot_exchange_folders_serves_too() {
    let (sandbox, _) = Sandbox::published();
    let new = tree(&[("m1", "shop/web", "x: 2\n")]);
    let folder = staged(&sandbox, &new);
    swap::in_two_steps(&folder.location).unwrap();
    drop(folder);
    sandbox.assert_holds(&new);
}

#[test]
fn the_run_after_a_kill_finds_the_old_tree_and_clears_up() {
    for step in ["half staged", "staged", "between two renames"] {
        let (sandbox, old) = Sandbox::published();
        let new = tree(&[("m1", "shop/web", "x: 2\n"), ("m3", "shop/db", "x: 1\n")]);
        killed(step, &sandbox, &new);
        assert!(!sandbox.litter().is_empty());
        drop(open(&sandbox.out()).unwrap());
        sandbox.assert_holds(&old);
        killed(step, &sandbox, &new);
        sandbox.publish(&new).unwrap();
        sandbox.assert_holds(&new);
    }
}

/// Two trees with unchanged, changed and added or removed files.
fn alternating() -> [OutputTree; 2] {
    [0, 1].map(|turn| {
        let rows: Vec<_> = (0..60)
            .filter(|i| i % 3 != turn)
            .map(|i| {
                (format!("shop{}/app{i}", i % 4), format!("value: {}\n", if i % 5 == 0 { turn } else { 7 }))
            })
            .collect();
        let rows: Vec<_> =
            rows.iter().map(|(name, text)| ("m1 m2 m3", name.as_str(), text.as_str())).collect();
        tree(&rows)
    })
}

/// Not a test: the process that the next test kills.
#[test]
#[ignore = "publishes for ever; started and killed by another test"]
fn publish_for_ever() {
    let Some(out) = std::env::var_os("FEDERATE_TEST_OUT") else { return };
    let trees = alternating();
    loop {
        for tree in &trees {
            publish(Path::new(&out), tree).unwrap();
        }
    }
}

#[test]
fn a_kill_at_any_moment_leaves_one_whole_tree() {
    let sandbox = Sandbox::new();
    let whole = alternating().map(|tree| expected(&tree));
    sandbox.publish(&alternating()[0]).unwrap();
    let lock = sandbox.0.path().join(".out.federate-lock");
    let (mut seen, mut litter) = ([0, 0], 0);
    // Later and later, until every state was met, however slow the machine.
    for round in 0..400 {
        if round >= 40 && seen.iter().all(|&n| n > 0) && litter > 0 {
            break;
        }
        let _ = fs::remove_file(&lock);
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["dir::tests::kill::publish_for_ever", "--exact", "--ignored"])
            .env("FEDERATE_TEST_OUT", sandbox.out())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        while !lock.exists() {
            assert!(child.try_wait().unwrap().is_none(), "the publisher must not end by itself");
            thread::yield_now();
        }
        thread::sleep(Duration::from_micros(round * 977));
        child.kill().unwrap();
        child.wait().unwrap();
        let found = files(&sandbox.out());
        let which = whole.iter().position(|tree| *tree == found).expect("one of the two trees, whole");
        seen[which] += 1;
        litter += usize::from(sandbox.litter().contains(&".out.federate-new".to_owned()));
    }
    assert!(seen.iter().all(|&n| n > 0) && litter > 0, "kills must have met every state: {seen:?}, {litter}");
    sandbox.publish(&alternating()[1]).unwrap();
    sandbox.assert_holds(&alternating()[1]);
}
