//! Comments stay within the size limit, and text from the repo stays text.

use serde_json::json;

use super::markdown::{CommentOptions, format_comment};
use super::text::{DiffDetail, format_diff};
use super::*;
use crate::size_budget::MAX_COMMENT_BYTES;
use crate::table::TextStyle;
use federate_engine::change::{
    ClusterShare, ObjectChange, ObjectChangeKind, Pair, PathChange, PlacementChange, PlacementChangeKind,
    ReplicaShift, SetDifference, SideTotal, SideTotals,
};

const PLAIN: TextStyle = TextStyle { width: None, color: false, full: false, quiet: false };

fn changes(objects: Vec<ObjectChange>) -> RenderingChanges {
    let total = SideTotal { clusters: 100, placed: 1, replicas: 1, manifests: 1 };
    RenderingChanges {
        totals: SideTotals { from: total, to: total },
        clusters: SetDifference { added: Vec::new(), removed: Vec::new() },
        placements: Vec::new(),
        objects,
        pruned: Vec::new(),
        unmatched: SetDifference { added: Vec::new(), removed: Vec::new() },
        lost_policies: Vec::new(),
        settings: Vec::new(),
        destinations: Vec::new(),
        causes: Vec::new(),
    }
}

fn changed(name: &str, path: &str, to: &str, diff: &str) -> ObjectChange {
    let object = serde_json::from_value(json!({"apiVersion": "v1", "kind": "ConfigMap", "name": name}));
    let path = PathChange { path: path.to_owned(), from: None, to: Some(json!(to)) };
    ObjectChange {
        object: object.unwrap(),
        kind: ObjectChangeKind::Changed,
        clusters: (0..9).map(|at| format!("m{at}").into()).collect(),
        elsewhere: true,
        replicas_at: None,
        paths: vec![path],
        diff: diff.to_owned(),
        restarts_pods: false,
        pods: None,
        caused_by: Vec::new(),
    }
}

fn comment(objects: Vec<ObjectChange>) -> String {
    format_comment(
        &Diff::new("main", "work tree", &changes(objects)),
        &CommentOptions::default(),
        "federate diff . --from main",
    )
}

#[test]
fn the_same_change_of_many_objects_is_one_entry() {
    let changes =
        changes((0..300).map(|at| changed(&format!("c{at:03}"), "/data/a", "b", "@@ @@\n+b\n")).collect());
    let diff = Diff::new("main", "work tree", &changes);
    let comment = format_comment(&diff, &CommentOptions::default(), "federate diff");
    assert_eq!(comment.matches("<details>").count(), 1);
    assert!(comment.contains("<code>ConfigMap c000</code></b>, "), "{comment}");
    assert!(comment.contains("(+297)") && comment.contains("`ConfigMap c299`"), "{comment}");
    let text = format_diff(&diff, DiffDetail::Manifests, PLAIN);
    assert_eq!(text.matches("/data/a").count(), 1, "{text}");
}

#[test]
fn a_comment_gives_up_the_largest_details_first() {
    let large = |at: usize| {
        let diff = "+ x\n".repeat(if at == 0 { 12_000 } else { 400 });
        changed(&format!("c{at}"), &format!("/data/k{at}"), "b", &diff)
    };
    let comment = comment((0..20).map(large).collect());
    assert!(comment.len() < MAX_COMMENT_BYTES);
    assert_eq!(comment.matches("```diff").count(), 19);
    let tail = &comment[comment.len() - 200..];
    assert!(
        tail.contains("Left out to fit the size limit of comments: the manifests of 1 change. "),
        "{tail}"
    );
    assert!(comment.contains("`federate diff . --from main`"));
}

#[test]
fn any_number_of_changes_fits_and_what_is_missing_is_said() {
    let many = (0..20_000).map(|at| changed(&format!("c{at}"), &format!("/data/k{at}"), "b", "+ x\n"));
    let comment = comment(many.collect());
    assert!(comment.len() < MAX_COMMENT_BYTES, "{}", comment.len());
    assert!(comment.contains("of 20000 lines of “Manifest changes”"), "{}", &comment[comment.len() - 400..]);
}

#[test]
fn nothing_comes_out_of_its_place() {
    let evil = "x` | </summary></details> <img src=x> @team [a](http://b.example) \u{202e}```";
    let mut object = changed(evil, "/data/a|b`c", evil, "@@ @@\n ```\n+</details>\n");
    object.object.namespace = Some("<script>".to_owned());
    let mut changes = changes(vec![object]);
    changes.unmatched.added = vec![changes.objects[0].object.clone()];
    let mut diff = Diff::new("a`b|c", "work tree", &changes);
    diff.findings.push(FindingRow {
        severity: federate_kubernetes::Severity::Warning,
        code: "unmatched",
        file: Some("a|b`.yaml".to_owned()),
        line: Some(1),
        column: None,
        object: None,
        message: evil.to_owned(),
        help: Some(evil.to_owned()),
        page: String::new(),
    });
    let comment = format_comment(&diff, &CommentOptions::default(), "federate diff 'a`b|c'");
    let (prose, fence) = comment.split_once("````diff\n").unwrap();
    let (_, rest) = fence.split_once("\n````\n").unwrap();
    for part in [prose, rest] {
        let spoken = part.replace("&#64;<!-- -->", "");
        for raw in ["<script", "<img", "@team", "](http", "\u{202e}"] {
            assert!(!spoken.contains(raw), "{raw}: {part}");
        }
    }
    assert_eq!(comment.matches("<details>").count(), 1);
    let table =
        prose.lines().filter(|line| line.starts_with("| <code>&#47;") || line.starts_with("| <code>/"));
    for row in table {
        assert_eq!(row.matches('|').count(), 4, "{row}");
    }
    let text = format_diff(&diff, DiffDetail::Manifests, PLAIN);
    assert!(!text.contains('\u{202e}') && text.contains("\\u{202e}"), "{text}");
}

#[test]
fn nothing_different_is_one_sentence() {
    let none = changes(Vec::new());
    let diff = Diff::new("main", "work tree", &none);
    assert_eq!(format_diff(&diff, DiffDetail::Manifests, PLAIN), "main and work tree render the same\n");
    assert!(
        format_comment(&diff, &CommentOptions::default(), "")
            .ends_with("`main` → `work tree`: both revisions render the same manifests for every cluster.\n")
    );
}

#[test]
fn values_are_distinguished_from_words() {
    let shown = |of: serde_json::Value| format_value(Some(&of));
    assert_eq!(shown(json!("nginx:1.27")), "nginx:1.27");
    assert_eq!(shown(json!("80")), "\"80\"");
    assert_eq!(shown(json!(80)), "80");
    assert_eq!(shown(json!("")), "\"\"");
    assert_eq!(shown(json!("a\nb\nc\n")), "a (3 lines)");
    assert_eq!(shown(json!("x".repeat(500))).chars().count(), MAX_VALUE_CHARACTERS);
}

#[test]
fn long_values_are_shown_where_they_differ() {
    let path = |from: &str, to: &str| PathChange {
        path: "/a".to_owned(),
        from: Some(json!(from)),
        to: Some(json!(to)),
    };
    let same = "x".repeat(300);
    let (from, to) = format_values(&path(&format!("{same}good"), &format!("{same}evil")));
    assert!(from.ends_with("good") && to.ends_with("evil") && from.starts_with('…'), "{from} {to}");
    assert!(fits_in_line(&path(&format!("{same}good"), &format!("{same}evil"))));
    assert!(!fits_in_line(&path("a", &same)) && !fits_in_line(&path("a", "b\nc")));
}

#[test]
fn values_are_folded_only_by_a_pattern_that_is_shown() {
    let images = |at: usize| match at {
        4 => ("good.example.com/c4:1".to_owned(), "other.example.com/c4:1".to_owned()),
        7 => ("good.example.com/c7:1".to_owned(), "good.example.com/c7:1-evil".to_owned()),
        at => (format!("good.example.com/c{at}:1"), format!("good.example.com/c{at}:2")),
    };
    let one = |at: usize| {
        let (from, to) = images(at);
        let mut change = changed(&format!("c{at}"), "/data/image", &to, "");
        change.paths[0].from = Some(json!(from));
        change
    };
    let changes = changes((0..9).map(one).collect());
    let diff = Diff::new("main", "work tree", &changes);
    let text = format_diff(&diff, DiffDetail::Manifests, PLAIN);
    let rows: Vec<&str> = text.lines().skip_while(|line| !line.contains("BEFORE")).skip(1).collect();
    assert!(rows[0].contains("ConfigMap c4") && rows[0].contains("other.example.com/c4:1"), "{text}");
    assert!(rows[1].contains("ConfigMap c7") && rows[1].contains("good.example.com/c7:1-evil"), "{text}");
    assert!(rows[2].contains("7 objects") && rows[2].contains(":1") && rows[2].contains(":2"), "{text}");
    let comment = format_comment(&diff, &CommentOptions::default(), "federate diff");
    assert!(comment.contains("| `good.example.com/c4:1` | `other.example.com/c4:1` |"), "{comment}");
}

#[test]
fn what_moves_is_not_new() {
    let share = |replicas| Some(ClusterShare { replicas: Some(replicas) });
    let moved = |name: &str, to: i64| PlacementChange {
        object: changed(name, "/data/a", "b", "").object,
        dialect: "karmada".to_owned(),
        kind: PlacementChangeKind::Moved,
        policy: Pair { from: None, to: None },
        required_by: Vec::new(),
        replicas: Pair { from: Some(2), to: Some(to) },
        clusters: vec![
            ReplicaShift { name: "m1".into(), from: share(2), to: None },
            ReplicaShift { name: "m2".into(), from: None, to: share(to) },
        ],
        unschedulable: Pair { from: None, to: None },
        suspended: Vec::new(),
        resumed: Vec::new(),
        runs_nowhere: false,
        caused_by: Vec::new(),
    };
    let added =
        |name: &str| ObjectChange { kind: ObjectChangeKind::Added, ..changed(name, "/data/a", "b", "") };
    let mut changes = changes(["moved", "new", "scaled"].map(added).to_vec());
    changes.placements = vec![moved("moved", 2), moved("scaled", 4)];
    let verdict = Diff::new("main", "work tree", &changes).verdict;
    assert_eq!((verdict.counts.added, verdict.counts.moves), (1, 2), "{}", verdict.sentence);
    let new = verdict.with_flag(VerdictFlag::Added).map(|object| object.name.as_str()).collect::<Vec<_>>();
    assert_eq!(new, ["new"]);
}
