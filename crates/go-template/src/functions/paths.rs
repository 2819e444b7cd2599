//! Sprig's functions for paths, of `/` and of the operating system, which is one with `/`.

use super::FunctionParameter::Text;
use super::{Arguments, GoFunction, make_text};
use crate::budget::TemplateBudget;
use crate::error::TemplateFailure;
use crate::value::GoValue;

/// The code of a function under two names.
type Code = fn(&Arguments, &mut TemplateBudget) -> Result<GoValue, TemplateFailure>;

pub(super) const FUNCTIONS: &[GoFunction] = &[
    GoFunction::new("base", &[Text], BASE),
    GoFunction::new("osBase", &[Text], BASE),
    GoFunction::new("dir", &[Text], DIR),
    GoFunction::new("osDir", &[Text], DIR),
    GoFunction::new("clean", &[Text], CLEAN),
    GoFunction::new("osClean", &[Text], CLEAN),
    GoFunction::new("ext", &[Text], EXT),
    GoFunction::new("osExt", &[Text], EXT),
    GoFunction::new("isAbs", &[Text], IS_ABSOLUTE),
    GoFunction::new("osIsAbs", &[Text], IS_ABSOLUTE),
];

const BASE: Code = |a, budget| {
    let path = a.text(0);
    let end = path.iter().rposition(|byte| *byte != b'/');
    let base: &[u8] = match end {
        _ if path.is_empty() => b".",
        None => b"/",
        Some(end) => {
            path.get(..=end).unwrap_or_default().rsplit(|byte| *byte == b'/').next().unwrap_or_default()
        }
    };
    make_text(base, budget)
};

const DIR: Code = |a, budget| {
    let path = a.text(0);
    let end = path.iter().rposition(|byte| *byte == b'/').map_or(0, |at| at + 1);
    make_text(clean(path.get(..end).unwrap_or_default()), budget)
};

const CLEAN: Code = |a, budget| make_text(clean(a.text(0)), budget);

const EXT: Code = |a, budget| {
    let name = a.text(0).rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    let start = name.iter().rposition(|byte| *byte == b'.');
    make_text(start.and_then(|start| name.get(start..)).unwrap_or_default(), budget)
};

const IS_ABSOLUTE: Code = |a, _| Ok(GoValue::Bool(a.text(0).starts_with(b"/")));

/// The shortest path that leads to the same place.
fn clean(path: &[u8]) -> Vec<u8> {
    let is_absolute = path.starts_with(b"/");
    let mut parts: Vec<&[u8]> = Vec::new();
    for part in path.split(|byte| *byte == b'/') {
        match part {
            b"" | b"." => {}
            b".." if parts.last().is_some_and(|last| *last != b"..") => {
                parts.pop();
            }
            b".." if is_absolute => {}
            part => parts.push(part),
        }
    }
    let cleaned = parts.join(b"/".as_slice());
    match (is_absolute, cleaned.is_empty()) {
        (true, _) => [b"/".as_slice(), &cleaned].concat(),
        (false, true) => b".".to_vec(),
        (false, false) => cleaned,
    }
}
