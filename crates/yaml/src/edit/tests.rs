//! Edits through the public interface.

use super::*;
use serde_json::json;

mod random;

/// The text after `(pointer, value)` edits of its first document; `None` removes. Fails if a document was
/// rewritten, or if the parsed result differs from the edited value.
#[track_caller]
fn after(text: &str, edits: &[(&str, Option<Value>)]) -> String {
    let edited = apply_edits(text.as_bytes(), &of(0, edits)).unwrap();
    assert_eq!(edited.rewritten, [0u32; 0], "{}", String::from_utf8_lossy(&edited.text));
    String::from_utf8(edited.text).unwrap()
}

fn of(document: u32, edits: &[(&str, Option<Value>)]) -> Vec<ValueEdit> {
    let edit = |(pointer, value): &(&str, Option<Value>)| ValueEdit {
        document,
        pointer: (*pointer).to_owned(),
        value: value.clone(),
    };
    edits.iter().map(edit).collect()
}

#[expect(clippy::unnecessary_wraps, reason = "an edit has an optional value")]
fn set(value: &str) -> Option<Value> {
    Some(json!(value))
}

const SERVICE: &str = "# The shop's front door.
apiVersion: v1
kind: Service   # plain
metadata:
    name: 'web'
    # Given by the server.
    uid: 1234

    labels: {app: web}   # short
spec:
    # Not this.

    # This
    # and this.
    clusterIP: 10.0.0.1 # one
    clusterIPs:
    - 10.0.0.1
      # inside
    ports:
    - port: 80
      name: http
# The end.
status: {}
";

#[test]
fn entries_go_with_their_lines_and_comments() {
    let got = after(
        SERVICE,
        &[("/metadata/uid", None), ("/spec/clusterIP", None), ("/spec/clusterIPs", None), ("/status", None)],
    );
    assert_eq!(
        got,
        "# The shop's front door.
apiVersion: v1
kind: Service   # plain
metadata:
    name: 'web'

    labels: {app: web}   # short
spec:
    # Not this.

    ports:
    - port: 80
      name: http
"
    );
}

#[test]
fn what_heads_a_document_stays() {
    assert_eq!(after("# Ours.\nstatus: {}\nkind: Pod\n", &[("/status", None)]), "# Ours.\nkind: Pod\n");
}

#[test]
fn entries_come_where_their_names_sort() {
    let edits = [
        ("/metadata/labels/tier", set("front")),
        ("/metadata/annotations/example.org~1a", set("yes")),
        ("/metadata/annotations/b", set("{\"x\": 1}")),
        ("/spec/type", set("ClusterIP")),
    ];
    let got = after(SERVICE, &edits);
    assert!(got.contains("labels: {app: web, tier: front}   # short\n"), "{got}");
    assert!(got.contains("    name: 'web'\n    # Given"), "{got}");
    let new = "labels: {app: web, tier: front}   # short\n    annotations:\n        example.org/a: \"yes\"\n        b: '{\"x\": 1}'\nspec:";
    assert!(got.contains(new), "the mapping is not sorted, so at its end: {got}");
    assert!(got.contains("      name: http\n    type: ClusterIP\n# The end.\n"), "{got}");
    let sorted =
        after("metadata:\n  labels:\n    a: b\n  # n\n  name: x\n", &[("/metadata/annotations/k", set("v"))]);
    assert_eq!(sorted, "metadata:\n  annotations:\n    k: v\n  labels:\n    a: b\n  # n\n  name: x\n");
    let second =
        after("metadata:\n  labels:\n    a: b\n  # n\n  name: x\n", &[("/metadata/laid/k", set("v"))]);
    assert_eq!(second, "metadata:\n  labels:\n    a: b\n  laid:\n    k: v\n  # n\n  name: x\n");
}

#[test]
fn scalars_keep_their_quotes_and_comments() {
    let got = after(
        "a: \"x\"  # c\nb:   y # d\nc:\nd: |\n  t\n\ne: 1\n",
        &[
            ("/a", set("z")),
            ("/b", Some(json!(7))),
            ("/c", set("m")),
            ("/d", set("u")),
            ("/e", Some(json!({"k": [1]}))),
        ],
    );
    assert_eq!(got, "a: \"z\"  # c\nb:   7 # d\nc: m\nd: u\n\ne:\n  k:\n  - 1\n");
}

#[test]
fn emptied_and_empty_mappings() {
    assert_eq!(after("a: # c\n  b: 1\nd: 2\n", &[("/a/b", None)]), "a: {} # c\nd: 2\n");
    assert_eq!(after("a: {b: 1} # c\n", &[("/a/b", None)]), "a: {} # c\n");
    assert_eq!(after("a:\n- 1\n", &[("/a/0", None)]), "a: []\n");
    assert_eq!(after("a: {} # c\nd: 2\n", &[("/a/b", set("x"))]), "a: # c\n  b: x\nd: 2\n");
    assert_eq!(after("a:\nd: 2\n", &[("/a/b", set("x"))]), "a:\n  b: x\nd: 2\n");
    assert_eq!(after("a: null\nd: 2", &[("/a/b", set("x"))]), "a:\n  b: x\nd: 2");
    assert_eq!(after("a:\n  b: 1\n", &[("/a/b", None), ("/a/c", set("x"))]), "a:\n  c: x\n");
}

#[test]
fn items_of_lists() {
    let text = "items:\n- a: 1\n  b: 2\n# two\n- a: 3\n  # about b\n  b: 4\n-\n  a: 5\n";
    assert_eq!(after(text, &[("/items/1", None)]), "items:\n- a: 1\n  b: 2\n-\n  a: 5\n");
    assert_eq!(
        after(text, &[("/items/0/a", None), ("/items/1/a", None), ("/items/2/b", set("x"))]),
        "items:\n- b: 2\n# two\n-\n  # about b\n  b: 4\n-\n  a: 5\n  b: x\n"
    );
    assert_eq!(after("- b: 2\n  c: 3\n", &[("/0/a", set("x"))]), "- a: x\n  b: 2\n  c: 3\n");
}

#[test]
fn the_last_line_may_lack_its_break() {
    assert_eq!(after("a: 1\nc: 2", &[("/d/e", set("x")), ("/f", set("g"))]), "a: 1\nc: 2\nd:\n  e: x\nf: g");
    assert_eq!(after("a: 1\nc: 2", &[("/c", None)]), "a: 1\n");
}

#[test]
fn line_ends_stay_what_they_are() {
    let text = "\u{FEFF}a: 1\r\nc:\r\n  - x # y\r\nd: 3\r\n";
    assert_eq!(after(text, &[("/c", None), ("/b/e", set("x"))]), "\u{FEFF}a: 1\r\nb:\r\n  e: x\r\nd: 3\r\n");
}

#[test]
fn blocks_of_text_are_kept_whole() {
    let text = "a: |\n  x\n\n  # no comment\n\nb: >-\n  y\n\n# c\nc: |\nd: 1\n";
    assert_eq!(after(text, &[("/a", None)]), "\nb: >-\n  y\n\n# c\nc: |\nd: 1\n");
    assert_eq!(after(text, &[("/b", None)]), "a: |\n  x\n\n  # no comment\n\n\n# c\nc: |\nd: 1\n");
    assert_eq!(after(text, &[("/c", None)]), "a: |\n  x\n\n  # no comment\n\nb: >-\n  y\n\nd: 1\n");
    assert_eq!(after(text, &[("/aa", set("z"))]).replace("aa: z\n", ""), text);
}

#[test]
fn json_stays_json() {
    let pretty = "{\n    \"a\": {\n        \"b\": 1,\n        \"c\": [1, 2]\n    },\n    \"d\": \"x\"\n}\n";
    assert_eq!(
        after(pretty, &[("/a/b", None), ("/a/e", set("y")), ("/d", set("z")), ("/f/g", set("h"))]),
        "{\n    \"a\": {\n        \"c\": [1, 2],\n        \"e\": \"y\"\n    },\n    \"d\": \"z\",\n    \"f\": {\n        \"g\": \"h\"\n    }\n}\n"
    );
    assert_eq!(after("{\"a\":1,\"c\":2}", &[("/b", set("x"))]), "{\"a\":1,\"b\":\"x\",\"c\":2}");
    assert_eq!(after("{\"a\":1,\"c\":2}", &[("/c", None), ("/d", set("x"))]), "{\"a\":1,\"d\":\"x\"}");
    assert_eq!(after("{\n\t\"a\": 1,\n\t\"c\": 2\n}\n", &[("/c", None)]), "{\n\t\"a\": 1\n}\n");
    assert_eq!(
        after("{a: [1, 2, 3], b: , c}\n", &[("/a/1", None), ("/b", set("x")), ("/c", set("y: z"))]),
        "{a: [1, 3], b: x , c: 'y: z'}\n"
    );
}

#[test]
fn each_document_by_itself() {
    let text = "# first\n---\na: 1 # x\n---\nb: 2 # y\n--- # again\n{\"c\": 1}\n{\"c\": 2}\n";
    let mut edits = of(2, &[("/b", Some(json!(3)))]);
    edits.extend(of(4, &[("/d", Some(json!(4)))]));
    let edited = apply_edits(text.as_bytes(), &edits).unwrap();
    assert_eq!(
        String::from_utf8(edited.text).unwrap(),
        "# first\n---\na: 1 # x\n---\nb: 3 # y\n--- # again\n{\"c\": 1}\n{\"c\": 2, \"d\": 4}\n"
    );
    assert!(edited.rewritten.is_empty());
    assert_eq!(apply_edits(text.as_bytes(), &of(0, &[("/b", None)])), Err(Error::NoDocument(0)));
    assert_eq!(apply_edits(text.as_bytes(), &of(9, &[("/b", None)])), Err(Error::NoDocument(9)));
    assert_eq!(apply_edits(b"a: [\n", &of(0, &[("/b", None)])), Err(Error::NoDocument(0)));
}

#[test]
fn there_must_be_room() {
    for (text, pointer) in [("a: 1\n", "/a/b"), ("a: [1]\n", "/a/1"), ("a: [1]\n", "/a/x")] {
        let at = if text == "a: 1\n" { "/a" } else { pointer };
        assert_eq!(
            apply_edits(text.as_bytes(), &of(0, &[(pointer, set("x"))])),
            Err(Error::NoRoom(at.to_owned()))
        );
        assert_eq!(after(text, &[(pointer, None)]), text);
    }
}

#[test]
fn a_document_whose_style_forbids_it_is_rewritten() {
    for (text, pointer) in [
        ("a: &x {b: 1}\nc: *x\n", "/c/b"),
        ("a: &x {b: 1}\nc: *x\n", "/a/b"),
        ("x: &x {b: 1}\na:\n  <<: *x\n  d: 1\n", "/a/b"),
        ("? a\n: b\n? c\n: d\n", "/a"),
        ("a: !!str 1\n", "/a"),
        ("- ? d\n---\nb: 1\n", "/0/d"),
    ] {
        for value in [None, set("new")] {
            let edits = of(0, &[(pointer, value)]);
            let edited = apply_edits(text.as_bytes(), &edits).unwrap();
            let mut plan = EditPlan::no_change();
            let steps: Vec<String> = pointer.split('/').skip(1).map(str::to_owned).collect();
            plan.add_edit(&steps, edits[0].value.as_ref());
            let before = crate::read_stream(text.as_bytes()).documents.remove(0).value;
            let documents = crate::read_stream(&edited.text).documents;
            assert_eq!(documents[0].value, plan.apply_to(Some(&before), "").unwrap().unwrap());
            if pointer == "/c/b" {
                assert_eq!(edited.rewritten, [0], "{}", String::from_utf8_lossy(&edited.text));
            }
        }
    }
}
