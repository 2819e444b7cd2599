//! Findings for machines that show them beside the lines of files: workflow commands of GitHub, SARIF, and `JUnit` XML.
//!
//! Facts: GitHub's workflow commands, with `%`, line breaks and, in properties, `:` and `,` as percent codes; SARIF 2.1.0;
//! the attributes of `JUnit` XML that CI systems read.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::findings::FindingRow;
use crate::table::format_count;
use federate_kubernetes::Severity;

/// The path of the file of a finding from the root of the git repository. `prefix` is the repo's folder there.
fn file_from_root(row: &FindingRow, prefix: &str) -> Option<String> {
    let file = row.file.as_ref()?;
    Some(match prefix.trim_end_matches('/') {
        "" => file.clone(),
        prefix => format!("{prefix}/{file}"),
    })
}

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

/// A SARIF 2.1.0 log with one run.
pub fn format_sarif(rows: &[FindingRow], prefix: &str) -> Value {
    let codes: Vec<&str> = rows.iter().map(|row| row.code).collect::<BTreeSet<_>>().into_iter().collect();
    let mut rules = Vec::new();
    for code in &codes {
        let page = rows.iter().find(|row| row.code == *code).map(|row| row.page.as_str());
        rules
            .push(json!({"id": code, "shortDescription": {"text": code.replace('-', " ")}, "helpUri": page}));
    }
    let driver = json!({"name": "federate", "semanticVersion": env!("CARGO_PKG_VERSION"), "rules": rules});
    let mut results = Vec::new();
    for row in rows {
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

/// `JUnit` XML with one failed case for each finding, or one case that succeeds.
pub fn format_junit(rows: &[FindingRow], prefix: &str) -> String {
    let tests = rows.len().max(1);
    let mut out = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n  <testsuite name=\"federate check\" tests=\"{tests}\" failures=\"{}\">\n",
        rows.len()
    );
    if rows.is_empty() {
        out.push_str("    <testcase classname=\"federate check\" name=\"no findings\"/>\n");
    }
    for row in rows {
        let at = file_from_root(row, prefix);
        let at =
            at.map(|file| row.line.map_or(file.clone(), |line| format!("{file}:{line}"))).unwrap_or_default();
        let (code, message) = (escape_xml(row.code), escape_xml(&format_message(row)));
        let _ = writeln!(
            out,
            "    <testcase classname=\"{code}\" name=\"{}\"><failure type=\"{}\" message=\"{message}\"/></testcase>",
            escape_xml(&if at.is_empty() { format_count(1, "finding") } else { at }),
            severity_name(row)
        );
    }
    out.push_str("  </testsuite>\n</testsuites>\n");
    out
}

/// Text within an attribute. Characters that XML does not allow are replaced.
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
        let log = format_sarif(&[row(Some("a b.yaml"), "x"), row(None, "y")], "");
        assert_eq!(
            (&log["version"], &log["runs"][0]["tool"]["driver"]["name"]),
            (&json!("2.1.0"), &json!("federate"))
        );
        let results = &log["runs"][0]["results"];
        let place = &results[0]["locations"][0]["physicalLocation"];
        assert_eq!(place["artifactLocation"]["uri"], "a%20b.yaml");
        assert_eq!(place["region"], json!({"startLine": 3, "startColumn": 5}));
        for result in results.as_array().unwrap() {
            assert!(result["message"]["text"].is_string() && result["level"] == "error", "{result}");
            assert_eq!(log["runs"][0]["tool"]["driver"]["rules"][0]["id"], result["ruleId"]);
        }
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
