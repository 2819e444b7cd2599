//! Edits of random documents in random styles: the parsed result is exactly the edited value, and every line
//! that an edit does not concern is unchanged and in the same order.

use super::*;
use proptest::prelude::*;

/// A line of a document, and the values whose removal may change it.
#[derive(Clone, Debug)]
struct Line {
    text: String,
    concerns: Vec<String>,
}

/// Writes a value in a random style.
struct Writer {
    choices: Vec<u8>,
    at: usize,
    lines: Vec<Line>,
    /// The additional indentation of nested mappings.
    step: usize,
    comments: usize,
}

impl Writer {
    fn choose(&mut self, of: u8) -> u8 {
        self.at += 1;
        self.choices[self.at % self.choices.len()] % of
    }

    fn line(&mut self, text: String, concerns: &[String]) {
        self.lines.push(Line { text, concerns: concerns.to_vec() });
    }

    fn comment(&mut self) -> String {
        self.comments += 1;
        format!("# note {}", self.comments)
    }

    /// A comment above an entry, and perhaps a blank line above that.
    fn head(&mut self, column: usize, concerns: &[String]) {
        if self.choose(6) == 0 {
            self.line(String::new(), concerns);
        }
        if self.choose(4) == 0 {
            let text = format!("{}{}", " ".repeat(column), self.comment());
            self.line(text, concerns);
        }
    }

    fn tail(&mut self) -> String {
        if self.choose(4) == 0 { format!(" {}", self.comment()) } else { String::new() }
    }

    /// The entries of a mapping, after `lead` (a dash with spaces) or on their own lines.
    fn mapping(
        &mut self,
        map: &serde_json::Map<String, Value>,
        column: usize,
        lead: Option<String>,
        pointer: &str,
        concerns: &[String],
    ) {
        let mut lead = lead;
        let (compact, mut before) = (lead.is_some(), Vec::new());
        for (key, value) in map {
            let own = format!("{pointer}/{key}");
            let mut all = concerns.to_vec();
            all.push(own.clone());
            let indent = lead.take().unwrap_or_else(|| {
                self.head(column, &all);
                " ".repeat(column)
            });
            // After a dash, the first remaining key takes the place of those before it.
            let mut first = all.clone();
            if compact {
                first.extend(before.iter().cloned());
                before.push(own.clone());
            }
            if map.len() == 1 {
                first.push(pointer.to_owned());
            }
            let key = if self.choose(5) == 0 { format!("\"{key}\"") } else { key.clone() };
            self.entry(&format!("{indent}{key}:"), value, column, &own, &all, &first);
        }
    }

    fn entry(
        &mut self,
        start: &str,
        value: &Value,
        column: usize,
        pointer: &str,
        all: &[String],
        first: &[String],
    ) {
        // A collection that becomes empty is written on the line of its key.
        let mut emptied = first.to_vec();
        match value {
            Value::Object(map) if !map.is_empty() && self.choose(5) > 0 => {
                emptied.extend(map.keys().map(|key| format!("{pointer}/{key}")));
                let text = format!("{start}{}", self.tail());
                self.line(text, &emptied);
                self.mapping(map, column + self.step, None, pointer, all);
            }
            Value::Array(items) if !items.is_empty() && self.choose(5) > 0 => {
                emptied.extend((0..items.len()).map(|item| format!("{pointer}/{item}")));
                let text = format!("{start}{}", self.tail());
                self.line(text, &emptied);
                let inner = column + if self.choose(2) == 0 { 0 } else { self.step };
                self.items(items, inner, pointer, all);
            }
            Value::String(text) if text.contains('\n') && self.choose(2) == 0 => {
                self.line(format!("{start} |"), first);
                for line in text.lines() {
                    self.line(format!("{}{line}", " ".repeat(column + 2)), all);
                }
                if self.choose(3) == 0 {
                    self.line(String::new(), all);
                }
            }
            other => {
                // Edits inside a value on one line change that line.
                let mut below = first.to_vec();
                below.push(format!("{pointer}/"));
                let tight =
                    if self.choose(2) == 0 { other.to_string() } else { new_text::format_flow(other, false) };
                let text = format!("{start} {tight}{}", self.tail());
                self.line(text, &below);
            }
        }
    }

    fn items(&mut self, items: &[Value], column: usize, pointer: &str, concerns: &[String]) {
        for (item, value) in items.iter().enumerate() {
            let own = format!("{pointer}/{item}");
            let mut all = concerns.to_vec();
            all.push(own.clone());
            self.head(column, &all);
            let dash = format!("{}- ", " ".repeat(column));
            match value {
                Value::Object(map) if !map.is_empty() => {
                    if self.choose(4) == 0 {
                        self.line(dash.trim_end().to_owned(), &all);
                        self.mapping(map, column + 2, None, &own, &all);
                    } else {
                        self.mapping(map, column + 2, Some(dash), &own, &all);
                    }
                }
                other => {
                    let mut below = all.clone();
                    below.push(format!("{own}/"));
                    let text = format!("{dash}{other}{}", self.tail());
                    self.line(text, &below);
                }
            }
        }
    }
}

fn value() -> impl Strategy<Value = Value> {
    let text =
        prop::sample::select(vec!["x", "", "yes", "a b", "10", "a: b", "two\nlines\n", "#c", "{", "é"]);
    let scalar = prop_oneof![
        4 => text.prop_map(|text| json!(text)),
        1 => any::<i8>().prop_map(|number| json!(number)),
        1 => Just(json!(true)),
        1 => Just(Value::Null),
    ];
    let tree = scalar.prop_recursive(4, 40, 5, |inner| {
        prop_oneof![
            3 => mapping(inner.clone()),
            1 => prop::collection::vec(inner, 0..4).prop_map(Value::Array),
        ]
    });
    mapping(tree)
}

fn mapping(inner: impl Strategy<Value = Value>) -> impl Strategy<Value = Value> {
    // Unique keys in any order.
    prop::collection::btree_map("[a-f]{1,2}", (any::<u8>(), inner), 1..5).prop_map(|map| {
        let mut entries: Vec<_> = map.into_iter().filter(|(key, _)| key != "f").collect();
        entries.sort_by_key(|(_, (order, _))| *order % 4);
        Value::Object(entries.into_iter().map(|(key, (_, value))| (format!("k{key}"), value)).collect())
    })
}

/// The pointers of all values.
fn pointers(value: &Value, pointer: &str, found: &mut Vec<String>) {
    let inner: Vec<(String, &Value)> = match value {
        Value::Object(map) => map.iter().map(|(key, value)| (key.clone(), value)).collect(),
        Value::Array(items) => items.iter().enumerate().map(|(at, item)| (at.to_string(), item)).collect(),
        _ => Vec::new(),
    };
    for (key, value) in inner {
        let pointer = format!("{pointer}/{key}");
        pointers(value, &pointer, found);
        found.push(pointer);
    }
}

/// Whether an edit at `pointer` may change a line that belongs to some values.
fn concerned(line: &Line, pointer: &str) -> bool {
    line.concerns.iter().any(|own| match own.strip_suffix('/') {
        Some(flow) => pointer.starts_with(own.as_str()) || pointer == flow,
        None => pointer == own,
    })
}

/// The removed values, and the collections that become empty.
fn emptied(value: &Value, pointer: &str, mut gone: Vec<String>) -> Vec<String> {
    let keys: Vec<String> = match value {
        Value::Object(map) => map.keys().cloned().collect(),
        Value::Array(items) => (0..items.len()).map(|at| at.to_string()).collect(),
        _ => return gone,
    };
    if keys.iter().all(|key| gone.contains(&format!("{pointer}/{key}"))) {
        gone.push(pointer.to_owned());
    }
    for key in keys {
        gone = emptied(value.pointer(&format!("/{key}")).unwrap(), &format!("{pointer}/{key}"), gone);
    }
    gone
}

fn written(lines: &[Line], eol: &str) -> String {
    lines.iter().flat_map(|line| [line.text.as_str(), eol]).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn nothing_else_changes(
        value in value(),
        choices in prop::collection::vec(any::<u8>(), 64),
        picks in prop::collection::vec((any::<prop::sample::Index>(), 0u8..4), 1..4),
        step in 2usize..5,
        crlf in any::<bool>(),
    ) {
        prop_assume!(value.as_object().is_some_and(|map| !map.is_empty()));
        let mut writer = Writer { choices, at: 0, lines: Vec::new(), step, comments: 0 };
        writer.mapping(value.as_object().unwrap(), 0, None, "", &[]);
        let eol = if crlf { "\r\n" } else { "\n" };
        let text = written(&writer.lines, eol);
        let read = crate::read_stream(text.as_bytes());
        prop_assert_eq!(&read.errors, &[], "{}", text);
        prop_assert_eq!(&read.documents[0].value, &value, "{}", text);

        let mut all = Vec::new();
        pointers(&value, "", &mut all);
        let edits: Vec<ValueEdit> = picks
            .iter()
            .map(|(index, what)| match what {
                0 => ValueEdit { document: 0, pointer: "/knew/kx".to_owned(), value: Some(json!("new")) },
                1 => ValueEdit { document: 0, pointer: format!("/k{what}"), value: Some(json!({"ka": "b"})) },
                _ => ValueEdit { document: 0, pointer: all[index.index(all.len())].clone(), value: None },
            })
            .collect();
        let mut plan = EditPlan::no_change();
        for edit in &edits {
            let steps: Vec<String> = edit.pointer.split('/').skip(1).map(str::to_owned).collect();
            plan.add_edit(&steps, edit.value.as_ref());
        }
        let want = plan.apply_to(Some(&value), "").unwrap().unwrap();
        let edited = apply_edits(text.as_bytes(), &edits).unwrap();
        let after = String::from_utf8(edited.text.clone()).unwrap();
        prop_assert_eq!(&crate::read_stream(&edited.text).documents[0].value, &want, "{}\n-->\n{}", text, after);
        let gone = emptied(&value, "", edits.iter().filter(|e| e.value.is_none()).map(|e| e.pointer.clone()).collect());
        if gone.contains(&String::new()) {
            return Ok(());
        }
        prop_assert!(edited.rewritten.is_empty(), "{:?}\n{}\n-->\n{}", edits, text, after);
        let mut rest = after.split_inclusive('\n');
        for line in &writer.lines {
            // A blank line may be removed with what it separates.
            if line.text.is_empty() || gone.iter().any(|pointer| concerned(line, pointer)) {
                continue;
            }
            let kept = format!("{}{eol}", line.text);
            prop_assert!(rest.any(|found| found == kept), "{:?} is gone after {:?}\n{}\n-->\n{}", line, edits, text, after);
        }
        let new = after.lines().filter(|line| writer.lines.iter().all(|old| old.text != *line)).count();
        prop_assert!(new <= 2 * edits.len(), "more than the edits is new:\n{}\n-->\n{}", text, after);
        prop_assert_eq!(apply_edits(after.as_bytes(), &[]).unwrap().text, after.as_bytes());
    }

    /// Every document that can be parsed can be edited, whatever its style.
    #[test]
    fn odd_texts_say_what_they_should(
        parts in prop::collection::vec(prop::sample::select(PARTS.to_vec()), 1..14),
        pick in any::<prop::sample::Index>(),
        set in any::<bool>(),
    ) {
        let text = parts.concat();
        let read = crate::read_stream(text.as_bytes());
        if !read.errors.is_empty() {
            return Ok(());
        }
        for document in read.documents {
            let mut all = vec!["/new/x".to_owned()];
            pointers(&document.value, "", &mut all);
            let pointer = all[pick.index(all.len())].clone();
            let edit = ValueEdit { document: document.index, pointer, value: set.then(|| json!("v")) };
            let mut plan = EditPlan::no_change();
            let steps: Vec<String> = edit.pointer.split('/').skip(1).map(|step| unescape(step).into_owned()).collect();
            plan.add_edit(&steps, edit.value.as_ref());
            match (plan.apply_to(Some(&document.value), ""), super::apply_edits(text.as_bytes(), &[edit])) {
                (Ok(want), Ok(edited)) => {
                    let after = crate::read_stream(&edited.text);
                    let got = after.documents.iter().find(|d| d.index == document.index).map(|d| &d.value);
                    prop_assert_eq!(got, want.as_ref().filter(|want| !want.is_null()), "{}", text);
                }
                (Err(want), Err(got)) => prop_assert_eq!(want, got),
                (want, got) => prop_assert!(false, "{:?} {:?}\n{}", want, got, text),
            }
        }
    }
}

const PARTS: [&str; 44] = [
    "a:",
    "b: ",
    "\"c\": ",
    "? d\n",
    ": e",
    "- ",
    "-\n",
    "\n",
    "\n  ",
    "\n    ",
    " ",
    "\t",
    "\r\n",
    "#c",
    " # c\n",
    "{",
    "}",
    "[",
    "]",
    ",",
    ", ",
    ":",
    "&x ",
    "*x",
    "<<: *x",
    "!!str ",
    "!t ",
    "|\n",
    ">-\n",
    "|+\n",
    "'s'",
    "\"t\"",
    "1",
    "x",
    "~",
    "---\n",
    "--- ",
    "...\n",
    "%YAML 1.1\n---\n",
    "{\"a\":1}",
    "\u{FEFF}",
    "é",
    "a: b\n",
    "- a: b\n  c: d\n",
];
