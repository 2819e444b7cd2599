//! Parsing, locating and writing through the public interface.

use super::*;
use proptest::prelude::*;
use serde_json::json;

fn one(text: &str) -> Value {
    let stream = read_stream(text.as_bytes());
    assert_eq!(stream.errors, [], "{text}");
    assert_eq!(stream.documents.len(), 1, "{text}");
    stream.documents[0].value.clone()
}

fn error(text: &str) -> Error {
    let stream = read_stream(text.as_bytes());
    assert_eq!(stream.errors.len(), 1, "{text}: {:?}", stream.errors);
    stream.errors[0].clone()
}

fn written(value: &Value) -> String {
    let mut out = String::new();
    write_document(value, &mut out);
    out
}

#[test]
fn every_document_counts_and_empty_ones_are_left_out() {
    let text = "# nothing\n---\na: 1\n--- # again\n# nothing here\n---\n\nb: 2\n...\n---   \n- 3\n---\n";
    let stream = read_stream(text.as_bytes());
    let found: Vec<_> = stream.documents.iter().map(|d| (d.index, d.line, d.value.clone())).collect();
    assert_eq!(found, [(1, 3, json!({"a": 1})), (3, 8, json!({"b": 2})), (4, 11, json!([3]))]);
    assert_eq!(stream.errors, []);
}

#[test]
fn a_leading_separator_begins_the_first_document() {
    let stream = read_stream(b"---\na: 1\n---\nb: 2\n");
    assert_eq!(stream.documents.iter().map(|d| d.index).collect::<Vec<_>>(), [0, 1]);
}

#[test]
fn an_error_in_one_document_leaves_the_others_alone() {
    let stream = read_stream(b"a: 1\n---\nb: [1,\n---\nc: 3\n---\nd: \xff\n---\ne: 5\n");
    let values: Vec<_> = stream.documents.iter().map(|d| d.value.clone()).collect();
    assert_eq!(values, [json!({"a": 1}), json!({"c": 3}), json!({"e": 5})]);
    assert_eq!(stream.errors.len(), 2);
    assert_eq!(stream.errors[1].at, Position { line: 7, column: 4 });
    assert!(stream.errors[1].message.contains("UTF-8"));
}

#[test]
fn marks_line_ends_tabs_and_directives_are_taken() {
    assert_eq!(one("\u{FEFF}a: 1\r\nb:\r\n- x\r\n"), json!({"a": 1, "b": ["x"]}));
    assert_eq!(one("a:\tb\t# c\n"), json!({"a": "b"}));
    // `kubectl` splits a file before it reads directives, so that these have no document.
    let lines =
        |text: &str| read_stream(text.as_bytes()).errors.iter().map(|e| e.at.line).collect::<Vec<_>>();
    let version = "%YAML 1.1\n# c\n---\na: 1\n";
    assert_eq!((lines(version), read_stream(version.as_bytes()).documents.len()), (vec![1], 1));
    assert_eq!(
        lines("%TAG !e! tag:yaml.org,2002:\n---\na: !e!str 1\n"),
        [1, 3],
        "the tag is not known there"
    );
    let after_end = read_stream(b"a: 1\n...\n%YAML 1.1\n---\nb: 2\n");
    assert!(after_end.errors.is_empty() && after_end.warnings.is_empty(), "{after_end:?}");
    assert_eq!(after_end.documents.len(), 2);
    assert_eq!(lines("--- {a: 1}\n"), [1], "kubectl takes it for a wrong separator");
}

#[test]
fn control_characters_are_refused_where_they_stand() {
    let found = error("a: 1\nb: x\u{7}y\n");
    assert_eq!(found.at, Position { line: 2, column: 5 });
    assert!(found.message.contains("U+0007"), "{found}");
}

#[test]
fn json_is_read_with_the_same_numbers() {
    assert_eq!(
        one(r#"{"a": 1.0, "b": "\/\ud83d\ude00", "c": [1e3, 9223372036854775808]}"#).to_string(),
        r#"{"a":1,"b":"/😀","c":[1000,9223372036854776000]}"#
    );
    let several = read_stream(b"{\"a\": 1}\n{\"a\": 2}\n---\n[3]\n");
    assert_eq!(
        several.documents.iter().map(|d| (d.index, d.line)).collect::<Vec<_>>(),
        [(0, 1), (1, 2), (2, 4)]
    );
    let duplicate = read_stream(b"{\"a\": 1,\n\"a\": 2}");
    assert!(duplicate.warnings[0].message.contains("first on line 1, again on line 2"), "{duplicate:?}");
    assert_eq!(duplicate.documents[0].value, json!({"a": 2}));
}

#[test]
fn duplicate_keys_name_both_lines() {
    let stream = read_stream(b"a:\n  image: x\n  b: {c: 1}\n  image: y\na: 2\n1: x\n\"1\": y\n");
    let found: Vec<_> = stream.warnings.iter().map(|e| (e.at.line, e.message.as_str())).collect();
    assert_eq!(
        found,
        [
            (4, "key `image` is defined twice in this mapping: first on line 2, again on line 4"),
            (5, "key `a` is defined twice in this mapping: first on line 1, again on line 5"),
            (7, "key `1` is defined twice in this mapping: first on line 6, again on line 7"),
        ]
    );
    // The last one counts, as in `kubectl`.
    assert_eq!(stream.documents[0].value, json!({"a": 2, "1": true}));
    assert_eq!(read_stream("[\n---\n".repeat(5000).as_bytes()).errors.len(), 1001);
    let many = read_stream("a: 1\n".repeat(5000).as_bytes());
    assert_eq!((many.errors.len(), many.warnings.len()), (0, 100));
}

#[test]
fn merge_keys_take_effect_where_they_stand() {
    let base = "base: &b {x: 1, w: 1}\nother: &o {w: 2, z: 2}\n";
    let t = |rest: &str| one(&format!("{base}t: {rest}\n"))["t"].clone();
    assert_eq!(t("{<<: *b, x: 5}"), json!({"x": 5, "w": 1}));
    assert_eq!(t("{x: 5, <<: *b}"), json!({"x": 1, "w": 1}));
    assert_eq!(t("{<<: [*b, *o]}"), json!({"w": 1, "z": 2, "x": 1}));
    assert_eq!(t("{\"<<\": 1}"), json!({"<<": 1}));
    assert_eq!(t("{x: 1, <<: *b, <<: *o}"), json!({"x": 1, "w": 2, "z": 2}));
    assert!(error("a: &a 1\nb: {<<: *a}\n").message.contains("merge key"));
    let twice = read_stream(b"a: &a {x: 1}\nb: {<<: *a, x: 1, x: 2}\n");
    assert!(twice.warnings[0].message.contains("defined twice"), "{twice:?}");
}

#[test]
fn what_follows_the_end_of_a_document_is_read_only_after_a_separator() {
    let stream = read_stream(b"a: 1\n...\nb: 2\n---\nc: 3\n");
    let values: Vec<_> = stream.documents.iter().map(|d| (d.index, d.value.to_string())).collect();
    assert_eq!(values, [(0, "{\"a\":1}".to_owned()), (1, "{\"c\":3}".to_owned())]);
    let [warning] = stream.warnings.as_slice() else { panic!("{stream:?}") };
    assert_eq!((warning.kind, warning.at.line), (WarningKind::UnreadDocument, 3));
    assert!(read_stream(b"a: 1\n...\n# nothing\n").warnings.is_empty());
    assert_eq!(locate_value(b"a: 1\n...\nb: 2\n---\nc: 3\n", 1, "/c"), Some(Position { line: 5, column: 1 }));
}

#[test]
fn content_on_the_line_of_a_separator_is_refused() {
    let stream = read_stream(b"a: 1\n---\n--- {b: 2}\n---\nc: 3\n");
    assert_eq!(stream.errors.iter().map(|e| e.at.line).collect::<Vec<_>>(), [3]);
    assert_eq!(stream.documents.len(), 2);
    assert!(read_stream(b"--- # a comment\na: 1\n").errors.is_empty());
}

#[test]
fn the_items_of_a_list_have_lines() {
    for text in [
        "kind: List\nitems:\n- a: 1\n- [b]\n-\n  c: 3\n",
        "{\"x\": [1, {\"items\": [2]}],\n\"items\":\n[{\"items\": [\n1]},\n\n3]}",
    ] {
        let document = read_stream(text.as_bytes()).documents.remove(0);
        let items = document.value["items"].as_array().unwrap().len();
        let located: Vec<u32> = (0..items)
            .map(|item| locate_value(text.as_bytes(), 0, &format!("/items/{item}")).unwrap().line)
            .collect();
        assert_eq!(document.item_lines, located, "{text}");
    }
    assert!(read_stream(b"{\"items\": [], \"a\": [1]}").documents[0].item_lines.is_empty());
    assert!(read_stream(b"a: {items: [1]}").documents[0].item_lines.is_empty());
}

#[test]
fn anchors_repeat_values_and_keys() {
    assert_eq!(
        one("a: &x [1, &y yes]\nb: *x\n*y : c\n"),
        json!({"a": [1, true], "b": [1, true], "true": "c"})
    );
    assert_eq!(error("a: &x [*x]\n").at, Position { line: 1, column: 8 });
    assert_eq!(error("a: *x\n").at, Position { line: 1, column: 4 });
}

#[test]
fn tags_are_obeyed() {
    assert_eq!(
        one("[!!str 1, !!int '7', !!binary 'aGk=', !!timestamp 2001-1-2, !x 1, ! 2]"),
        json!(["1", 7, "hi", "2001-1-2", "1", "2"])
    );
    for text in ["!!int x", "!!float ''", "!!bool 1", "!!null x", "!!timestamp 2001-2-29", "!!binary a"] {
        assert_eq!(error(&format!("a: {text}\n")).at.line, 1);
    }
}

#[test]
fn quoted_lines_and_comments_stand_where_yaml_1_1_lets_them() {
    assert_eq!(
        one("- k: \"a\n  b\"\n  l: 'c\nd'#e\n  m: [1]#f\n"),
        json!([{"k": "a b", "l": "c d", "m": [1]}])
    );
    assert_eq!(locate_value(b"a: 'b\nc'\nd: 1\n", 0, "/d"), Some(Position { line: 3, column: 1 }));
}

#[test]
fn escapes_are_those_of_yaml_1_1() {
    assert_eq!(one(r#"a: "\\/\x41\u00e9\U0001F600\N\L\e/""#), json!({"a": "\\/Aé😀\u{85}\u{2028}\u{1B}/"}));
    assert!(error(r#"a: "x\/y""#).message.contains("`\\/`"));
    assert!(error(r#"a: "\ud83d\ude00""#).message.contains("`\\ud83d`"));
}

#[test]
fn bombs_end_quickly() {
    let rows = (1..12).map(|row| format!("a{row}: &a{row} [{}]\n", format!("*a{}, ", row - 1).repeat(9)));
    let bomb = format!("a0: &a0 [x, x, x]\n{}", rows.collect::<String>());
    assert!(error(&bomb).message.contains("aliases repeat too much"));
    for deep in ["[".repeat(10_000), "- ".repeat(10_000), "{a: ".repeat(10_000)] {
        assert!(error(&deep).message.contains("nested deeper"), "{}", error(&deep));
    }
    assert!(error(&"? ".repeat(10_000)).message.contains("scalar"));
    let wide = format!("a: [{}]\n", "1,".repeat(1_000_001));
    assert!(error(&wide).message.contains("more than 1000000 values"));
    let large = vec![b'x'; (64 << 20) + 1];
    assert!(read_stream(&large).errors[0].message.contains("64 MiB"));
}

#[test]
fn depth_up_to_the_limit_is_read_and_written() {
    let deep = format!("{}1{}", "[".repeat(500), "]".repeat(500));
    let value = one(&deep);
    assert_eq!(one(&written(&value)), value);
}

#[test]
fn places_are_found() {
    let text =
        "# c\n---\na:\n  b: 1\n  c:\n  - x\n  - k: y\nm: &m\n  p/q: 2\nt:\n  <<: *m\n  o: *m\n1.0: z\n";
    let at = |pointer: &str| locate_value(text.as_bytes(), 1, pointer).map(|p| (p.line, p.column));
    assert_eq!(at(""), Some((3, 1)));
    assert_eq!(at("/a/b"), Some((4, 3)));
    assert_eq!(at("/a/c/0"), Some((6, 5)));
    assert_eq!(at("/a/c/1/k"), Some((7, 5)));
    assert_eq!(at("/t/p~1q"), Some((9, 3)));
    assert_eq!(at("/t/o/p~1q"), Some((9, 3)));
    assert_eq!(at("/1"), Some((13, 1)));
    assert_eq!(at("/a/x"), None);
    assert_eq!(locate_value(text.as_bytes(), 0, "/a"), None);
    assert_eq!(
        locate_value(b"{\"a\": 1}\n{\"b\":\n {\"c\": 2}}", 1, "/b/c"),
        Some(Position { line: 3, column: 3 })
    );
}

#[test]
fn writing_has_the_shape_people_expect() {
    let value = json!({
        "apiVersion": "apps/v1",
        "metadata": {"labels": {}, "name": "web"},
        "spec": {
            "replicas": 3,
            "on": "yes",
            "args": ["--port=80", "a: b", "it's", "0644", "say \"hi\"", "\"hi\" # it's", ""],
            "nested": [[1, [2]], {"a": [{"b": null}]}, []],
            "script": "#!/bin/sh\n\techo hi\n\nexit 0\n",
            "keep": "a\n\n",
            "strip": "  a\nb",
            "bad": "a\n \r\n",
        },
    });
    let expected = r#"apiVersion: apps/v1
metadata:
  labels: {}
  name: web
spec:
  replicas: 3
  "on": "yes"
  args:
  - --port=80
  - 'a: b'
  - it's
  - "0644"
  - say "hi"
  - '"hi" # it''s'
  - ""
  nested:
  - - 1
    - - 2
  - a:
    - b: null
  - []
  script: |
    #!/bin/sh
    	echo hi

    exit 0
  keep: |+
    a

  strip: |2-
      a
    b
  bad: "a\n \r\n"
"#;
    assert_eq!(written(&value), expected);
    assert_eq!(one(expected), value);
}

/// What `kubectl` makes of the numbers of a value.
fn normal(value: &Value) -> Value {
    match value {
        Value::Number(number) => Value::Number(match (number.as_i64(), number.as_f64()) {
            (Some(whole), _) => whole.into(),
            (None, float) => scalar::float_to_number(float.unwrap()).unwrap(),
        }),
        Value::Array(items) => items.iter().map(normal).collect(),
        Value::Object(map) => map.iter().map(|(key, value)| (key.clone(), normal(value))).collect(),
        _ => value.clone(),
    }
}

const NASTY: &[&str] = &[
    "",
    " ",
    "\n",
    "\t",
    "\r",
    "yes",
    "no",
    "y",
    "N",
    "null",
    "~",
    "true",
    "0",
    "0x1f",
    "0b1",
    "0o7",
    "0644",
    "1_0",
    "1e3",
    "1.",
    ".5",
    ".inf",
    "-.INF",
    ".nan",
    "-",
    "- a",
    "a: b",
    "a:",
    ":",
    "?",
    "? a",
    "a #c",
    "#",
    "a#b",
    "---",
    "--- a",
    "...",
    "%",
    "@",
    "`",
    "!",
    "!!str",
    "&a",
    "*a",
    "|",
    ">",
    "<<",
    "=",
    "'",
    "\"",
    "\\",
    "[",
    "]",
    "{",
    "}",
    ",",
    "a, b",
    " a",
    "a ",
    "\ta",
    "a\t",
    "a\n",
    "\na",
    "a\n\n",
    "a\n b",
    " a\nb",
    "\ta\nb",
    "a\n \n",
    "a\nb ",
    "a\n\tb",
    "a \nb",
    "a\r\nb",
    "\u{85}",
    "\u{2028}",
    "\u{2029}",
    "\u{FEFF}",
    "\u{A0}",
    "é",
    "日本",
    "😀",
    "\u{7F}",
    "\u{0}",
    "\u{1B}",
    "2001-01-01",
    "12:30",
    "0b-1",
    "-_1",
    "._1",
    ".1_1",
    "+",
    "-a",
    "--a",
    "key",
];

fn nasty() -> impl Strategy<Value = String> {
    let atom = prop::sample::select(NASTY);
    prop_oneof![
        3 => prop::collection::vec(atom, 1..4).prop_map(|parts| parts.concat()),
        1 => any::<String>(),
        1 => "[-+._:#0-9xXoObBeE a\n]{0,8}",
    ]
}

fn values() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        1 => Just(Value::Null),
        1 => any::<bool>().prop_map(Value::Bool),
        1 => any::<i64>().prop_map(Value::from),
        1 => any::<u64>().prop_map(Value::from),
        1 => any::<f64>().prop_filter("JSON has no others", |f| f.is_finite()).prop_map(Value::from),
        1 => (-1000i32..1000).prop_map(|n| Value::from(f64::from(n) / 8.0)),
        6 => nasty().prop_map(Value::String),
    ];
    leaf.prop_recursive(5, 40, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::Array),
            prop::collection::vec((nasty(), inner), 0..5)
                .prop_map(|entries| Value::Object(entries.into_iter().collect())),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn what_is_written_reads_back(value in values()) {
        let text = written(&value);
        let stream = read_stream(text.as_bytes());
        prop_assert_eq!(&stream.errors, &[], "{}", text);
        let read_back = stream.documents.first().map(|d| d.value.clone()).unwrap_or_default();
        prop_assert_eq!(&read_back, &normal(&value), "{}", &text);
        prop_assert_eq!(written(&read_back), written(&normal(&value)));
    }

    #[test]
    fn no_input_is_too_odd(bytes in prop::collection::vec(any::<u8>(), 0..200), text in nasty()) {
        drop(read_stream(&bytes));
        drop(read_stream(text.as_bytes()));
    }
}

#[test]
fn long_keys_are_marked() {
    let value =
        json!({"a": {"k".repeat(2000): {"x": 1}, "\n".repeat(600): [1, {"k".repeat(2001): "a\nb"}]}, "b": 2});
    assert_eq!(one(&written(&value)), value);
}
