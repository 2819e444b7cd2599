//! Charts whose output is not the same each time, or not that of an installation: functions that draw random values or ask for
//! the time, and `lookup`, which finds nothing without a cluster.

use std::io::Read as _;

use flate2::read::GzDecoder;

use federate_repo::build::{BuildJob, BuildWarning, is_packaged_chart};

use crate::inputs::BuildInputs;

/// Functions whose results differ each time.
const RANDOM_FUNCTIONS: [&str; 16] = [
    "randAlpha",
    "randAlphaNum",
    "randAscii",
    "randBytes",
    "randInt",
    "randNumeric",
    "uuidv4",
    "genCA",
    "genCAWithKey",
    "genPrivateKey",
    "genSelfSignedCert",
    "genSignedCert",
    "bcrypt",
    "htpasswd",
    "now",
    "encryptAES",
];

/// The most bytes of a packaged chart that are looked at.
const MAX_UNPACKED_BYTES: u64 = 64 << 20;

/// A call of a function in a template.
pub(crate) struct TemplateCall {
    file: String,
    line: u32,
    name: &'static str,
}

/// The first call of each function whose result differs each time.
pub(crate) fn find_places(inputs: &BuildInputs) -> Vec<TemplateCall> {
    find_calls(inputs, &RANDOM_FUNCTIONS)
}

/// Warns of an output that differs each time, and of `lookup`.
pub(crate) fn list_warnings(job: &BuildJob, inputs: &BuildInputs, differs: bool) -> Vec<BuildWarning> {
    let BuildJob::Chart(chart) = job else { return Vec::new() };
    let mut warnings = Vec::new();
    if differs {
        let calls = find_places(inputs);
        let names: Vec<String> = calls.iter().map(|call| format!("`{}`", call.name)).collect();
        warnings.push(BuildWarning {
            code: "build-differs",
            message: format!(
                "the chart `{}` gives something else each time it is built ({}): what was built first is kept in the cache of \
                 this machine only",
                chart.path,
                names.join(", ")
            ),
            help: "set the value, or name an existing Secret, in the values of the chart".to_owned(),
            place: calls.into_iter().next().map(|call| (call.file, call.line)),
        });
    }
    if let Some(call) = find_calls(inputs, &["lookup"]).into_iter().next() {
        warnings.push(BuildWarning {
            code: "build-lookup",
            message: format!(
                "the chart `{}` calls `lookup`, which finds nothing here: what it would reuse of a cluster is made anew",
                chart.path
            ),
            help: "set the value, or name an existing object, in the values of the chart".to_owned(),
            place: Some((call.file, call.line)),
        });
    }
    warnings
}

fn find_calls(inputs: &BuildInputs, names: &[&'static str]) -> Vec<TemplateCall> {
    let mut calls: Vec<TemplateCall> = Vec::new();
    for (path, bytes) in &inputs.files {
        if is_packaged_chart(path) {
            let mut unpacked = Vec::new();
            // A chart that cannot be unpacked is an error of Helm.
            let _ = GzDecoder::new(bytes.as_slice()).take(MAX_UNPACKED_BYTES).read_to_end(&mut unpacked);
            add_calls(path, &String::from_utf8_lossy(&unpacked), names, false, &mut calls);
        } else if path.contains("/templates/") || path.starts_with("templates/") {
            add_calls(path, &String::from_utf8_lossy(bytes), names, true, &mut calls);
        }
    }
    calls
}

fn add_calls(path: &str, text: &str, names: &[&'static str], has_lines: bool, calls: &mut Vec<TemplateCall>) {
    let mut is_action = false;
    for (number, line) in (1..).zip(text.lines()) {
        let mut rest = line;
        loop {
            let (action, after) = if is_action {
                match rest.split_once("}}") {
                    Some((action, after)) => {
                        is_action = false;
                        (action, after)
                    }
                    None => (rest, ""),
                }
            } else {
                match rest.split_once("{{") {
                    Some((_, after)) => {
                        is_action = true;
                        ("", after)
                    }
                    None => break,
                }
            };
            let words =
                action.split(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '$' | '"')));
            for word in words {
                if let Some(name) = names.iter().find(|name| **name == word)
                    && calls.iter().all(|call| call.name != *name)
                {
                    calls.push(TemplateCall {
                        file: path.to_owned(),
                        line: if has_lines { number } else { 0 },
                        name,
                    });
                }
            }
            if after.is_empty() {
                break;
            }
            rest = after;
        }
    }
}
