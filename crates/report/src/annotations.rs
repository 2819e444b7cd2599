//! Findings for machines that show them beside the lines of files: workflow commands of GitHub, SARIF, GitLab's code quality
//! report, and `JUnit` XML.
//!
//! Facts: GitHub's workflow commands, with `%`, line breaks and, in properties, `:` and `,` as percent codes; SARIF 2.1.0, and
//! what GitHub requires of it (`fullDescription` and `help` of a rule, `primaryLocationLineHash` to know a result again);
//! GitLab's report, whose fingerprints tell new findings from old ones; the attributes of `JUnit` XML that CI systems read.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::findings::{FINDINGS_PAGE_URL, FindingRow};
use crate::table::format_count;
use federate_kubernetes::Severity;
use federate_kubernetes::hex::to_hex;

/// The path of the file of a finding from the root of the git repository. `prefix` is the repo's folder there.
fn file_from_root(row: &FindingRow, prefix: &str) -> Option<String> {
    let file = row.file.as_ref()?;
    Some(match prefix.trim_end_matches('/') {
        "" => file.clone(),
        prefix => format!("{prefix}/{file}"),
    })
}

/// How many characters of a rule's description GitHub takes.
const MAX_DESCRIPTION: usize = 1_000;

fn severity_name(row: &FindingRow) -> &'static str {
    match row.severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
    }
}

/// The message with the remedy.
fn format_message(row: &FindingRow) -> String {
    row.help.as_ref().map_or_else(|| row.message.clone(), |help| format!("{}\nhelp: {help}", row.message))
}

/// A workflow command of GitHub for each finding.
pub fn format_github(rows: &[FindingRow], prefix: &str) -> String {
    let mut out = String::new();
    for row in rows {
        let mut properties = Vec::new();
        if let Some(file) = file_from_root(row, prefix) {
            properties.push(format!("file={}", escape_property(&file)));
            properties.extend(row.line.map(|line| format!("line={line}")));
            properties.extend(row.line.and(row.column).map(|column| format!("col={column}")));
        }
        properties.push(format!("title={}", escape_property(row.code)));
        let _ = writeln!(
            out,
            "::{} {}::{}",
            severity_name(row),
            properties.join(","),
            escape_data(&format_message(row))
        );
    }
    out
}

/// The message of a workflow command.
fn escape_data(text: &str) -> String {
    text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

/// The value of a property of a workflow command.
fn escape_property(text: &str) -> String {
    escape_data(text).replace(':', "%3A").replace(',', "%2C")
}

/// What the same finding has in the next report, too, each once: it does not change with lines that are added above. It is made of
/// the code, the file, the object and the message without the lines that it names; equal ones are counted.
fn compute_fingerprints(rows: &[FindingRow], prefix: &str) -> Vec<String> {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    let mut fingerprints = Vec::with_capacity(rows.len());
    for row in rows {
        let parts = json!([row.code, file_from_root(row, prefix), row.object, remove_lines(&row.message)]);
        let digest = to_hex(&Sha256::digest(parts.to_string()).as_slice()[..16]);
        let count = counts.entry(digest.clone()).or_default();
        *count += 1;
        fingerprints.push(format!("{digest}:{count}"));
    }
    fingerprints
}

/// A message without numbers of lines and columns: `a.yaml:3:5` as `a.yaml`, `line 3` as `line`.
fn remove_lines(message: &str) -> String {
    let mut out = String::with_capacity(message.len());
    let mut rest = message;
    while let Some(first) = rest.chars().next() {
        let digits = rest[first.len_utf8()..].bytes().take_while(u8::is_ascii_digit).count();
        let follows_line = ["line", "lines", "column"].iter().any(|word| out.ends_with(word));
        if digits > 0 && (first == ':' || (first == ' ' && follows_line)) {
            rest = &rest[first.len_utf8() + digits..];
        } else {
            out.push(first);
            rest = &rest[first.len_utf8()..];
        }
    }
    out
}

/// What SARIF says of a rule: GitHub shows the description in a list and the help beside a result.
fn describe_rule(code: &str, explain: &dyn Fn(&str) -> Option<String>) -> Value {
    let help = explain(code).unwrap_or_else(|| code.replace('-', " "));
    let first = help.split("\n\n").next().unwrap_or_default().replace('\n', " ");
    let description: String = first.chars().take(MAX_DESCRIPTION).collect();
    json!({
        "id": code,
        "name": code,
        "shortDescription": {"text": code.replace('-', " ")},
        "fullDescription": {"text": description},
        "help": {"text": help, "markdown": help},
        "helpUri": format!("{FINDINGS_PAGE_URL}#{code}"),
    })
}

/// A SARIF 2.1.0 log with one run. `explain` returns what is known of a code, as Markdown.
pub fn format_sarif(rows: &[FindingRow], prefix: &str, explain: &dyn Fn(&str) -> Option<String>) -> Value {
    let codes: Vec<&str> = rows.iter().map(|row| row.code).collect::<BTreeSet<_>>().into_iter().collect();
    let rules: Vec<Value> = codes.iter().map(|code| describe_rule(code, explain)).collect();
    let driver = json!({
        "name": "federate",
        "informationUri": env!("CARGO_PKG_REPOSITORY"),
        "semanticVersion": env!("CARGO_PKG_VERSION"),
        "rules": rules,
    });
    let mut results = Vec::new();
    for (row, fingerprint) in rows.iter().zip(compute_fingerprints(rows, prefix)) {
        let uri = encode_uri(&file_from_root(row, prefix).unwrap_or_else(|| ".".to_owned()));
        let mut place = json!({"artifactLocation": {"uri": uri}});
        if let Some(line) = row.line {
            place["region"] = match row.column {
                Some(column) => json!({"startLine": line, "startColumn": column}),
                None => json!({"startLine": line}),
            };
        }
        results.push(json!({
            "ruleId": row.code,
            "ruleIndex": codes.binary_search(&row.code).unwrap_or(0),
            "level": severity_name(row),
            "message": {"text": format_message(row)},
            "locations": [{"physicalLocation": place}],
            "partialFingerprints": {"primaryLocationLineHash": fingerprint},
        }));
    }
    json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{"tool": {"driver": driver}, "columnKind": "unicodeCodePoints", "results": results}],
    })
}

/// A path as a relative URI.
fn encode_uri(path: &str) -> String {
    let mut out = String::with_capacity(path.len());
    for byte in path.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'.' | b'-' | b'_' | b'~' => {
                out.push(char::from(byte));
            }
            byte => {
                let _ = write!(out, "%{byte:02X}");
            }
        }
    }
    out
}

/// GitLab's code quality report. Findings without a file are not in it: GitLab requires a place.
pub fn format_gitlab(rows: &[FindingRow], prefix: &str) -> Value {
    let mut report = Vec::new();
    for (row, fingerprint) in rows.iter().zip(compute_fingerprints(rows, prefix)) {
        let Some(path) = file_from_root(row, prefix) else { continue };
        report.push(json!({
            "description": format_message(row),
            "check_name": row.code,
            "fingerprint": fingerprint,
            "severity": match row.severity {
                Severity::Error => "major",
                Severity::Warning => "minor",
            },
            "location": {"path": path, "lines": {"begin": row.line.unwrap_or(1)}},
        }));
    }
    Value::Array(report)
}

/// `JUnit` XML with one case for each finding, or one case if there is none. An error is a failure; a warning succeeds, with its
/// text as output.
pub fn format_junit(rows: &[FindingRow], prefix: &str) -> String {
    let tests = rows.len().max(1);
    let failures = rows.iter().filter(|row| row.severity == Severity::Error).count();
    let mut out = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n  <testsuite name=\"federate check\" tests=\"{tests}\" failures=\"{failures}\">\n"
    );
    if rows.is_empty() {
        out.push_str("    <testcase classname=\"federate check\" name=\"no findings\"/>\n");
    }
    for row in rows {
        let file = file_from_root(row, prefix);
        let name = match (&file, row.line) {
            (Some(file), Some(line)) => format!("{file}:{line}"),
            (Some(file), None) => file.clone(),
            (None, _) => format_count(1, "finding"),
        };
        let (code, message) = (escape_xml(row.code), escape_xml(&format_message(row)));
        let mut place = file.map(|file| format!(" file=\"{}\"", escape_xml(&file))).unwrap_or_default();
        if let (false, Some(line)) = (place.is_empty(), row.line) {
            let _ = write!(place, " line=\"{line}\"");
        }
        let result = match row.severity {
            Severity::Error => format!("<failure type=\"error\" message=\"{message}\"/>"),
            Severity::Warning => format!("<system-out>warning: {message}</system-out>"),
        };
        let name = escape_xml(&name);
        let _ =
            writeln!(out, "    <testcase classname=\"{code}\" name=\"{name}\"{place}>{result}</testcase>");
    }
    out.push_str("  </testsuite>\n</testsuites>\n");
    out
}

/// Text within an element or an attribute. Characters that XML does not allow are replaced.
pub(crate) fn escape_xml(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\n' => out.push_str("&#10;"),
            '\t' => out.push(' '),
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(file: Option<&str>, message: &str) -> FindingRow {
        FindingRow {
            severity: Severity::Error,
            code: "unknown-field",
            file: file.map(str::to_owned),
            line: file.map(|_| 3),
            column: file.map(|_| 5),
            object: None,
            message: message.to_owned(),
            help: Some("remove it".to_owned()),
            page: "https://example.com/findings#unknown-field".to_owned(),
        }
    }

    #[test]
    fn a_workflow_command_cannot_be_left() {
        let out = format_github(&[row(Some("a,b:c.yaml"), "100% wrong\n::error::forged")], "apps");
        assert_eq!(
            out,
            "::error file=apps/a%2Cb%3Ac.yaml,line=3,col=5,title=unknown-field::100%25 wrong%0A::error::forged%0Ahelp: remove it\n"
        );
        assert_eq!(
            format_github(&[row(None, "x")], ""),
            "::error title=unknown-field::x%0Ahelp: remove it\n"
        );
    }

    #[test]
    fn a_log_has_what_the_schema_requires() {
        let log = format_sarif(&[row(Some("a b.yaml"), "x"), row(None, "y")], "", &|_| None);
        assert_eq!(
            (&log["version"], &log["runs"][0]["tool"]["driver"]["name"]),
            (&json!("2.1.0"), &json!("federate"))
        );
        let results = &log["runs"][0]["results"];
        let place = &results[0]["locations"][0]["physicalLocation"];
        assert_eq!(place["artifactLocation"]["uri"], "a%20b.yaml");
        assert_eq!(place["region"], json!({"startLine": 3, "startColumn": 5}));
        assert_eq!(log["runs"][0]["tool"]["driver"]["rules"][0]["fullDescription"]["text"], "unknown field");
        for result in results.as_array().unwrap() {
            assert!(result["message"]["text"].is_string() && result["level"] == "error", "{result}");
            assert_eq!(log["runs"][0]["tool"]["driver"]["rules"][0]["id"], result["ruleId"]);
        }
    }

    #[test]
    fn a_finding_is_known_again_when_its_line_moves() {
        let known = |line: u32, message: &str| {
            let mut moved = row(Some("a.yaml"), message);
            moved.line = Some(line);
            compute_fingerprints(&[moved.clone(), moved], "deploy")
        };
        let before = known(3, "as in b.yaml:7:1, line 12: 3 replicas");
        assert_eq!(before, known(9, "as in b.yaml:8:2, line 13: 3 replicas"));
        assert_ne!(before[0], before[1]);
        assert_ne!(before, known(3, "as in b.yaml:7:1, line 12: 4 replicas"));
    }

    #[test]
    fn xml_stays_well_formed() {
        let out = format_junit(&[row(Some("a.yaml"), "<b> & \"c\"\u{1b}")], "");
        assert!(
            out.contains("message=\"&lt;b&gt; &amp; &quot;c&quot;\u{fffd}&#10;help: remove it\""),
            "{out}"
        );
        assert!(format_junit(&[], "").contains("tests=\"1\" failures=\"0\""));
    }
}
