//! Ratios that are kept in a file, and compared with those of a later run.

use std::collections::BTreeMap;
use std::fmt::Write as _;

/// A ratio by the name of its row.
pub(crate) type Ratios = BTreeMap<String, f64>;

/// How many times its kept ratio a row may have.
pub(crate) const LIMIT: f64 = 1.3;

/// The rows that are beyond the limit, or on one side only, each in a line.
pub(crate) fn find_excesses(kept: &Ratios, now: &Ratios) -> Vec<String> {
    let names = kept.keys().chain(now.keys().filter(|name| !kept.contains_key(*name)));
    let excess = |name: &String| match (kept.get(name), now.get(name)) {
        (Some(before), Some(now)) if *now > before * LIMIT => {
            Some(format!("{name}: before {before:.2}, now {now:.2}, {:.2} times as much", now / before))
        }
        (Some(_), Some(_)) => None,
        (None, _) => Some(format!("{name}: no ratio is kept; `--update` keeps that of this run")),
        (_, None) => Some(format!("{name}: a ratio is kept, but nothing is measured")),
    };
    names.filter_map(excess).collect()
}

/// Reads kept ratios.
pub(crate) fn read_ratios(text: &str) -> Ratios {
    serde_json::from_str(text).unwrap()
}

/// The file with ratios: two decimals, so that an update changes few lines.
pub(crate) fn write_ratios(ratios: &Ratios) -> String {
    let mut text = "{".to_owned();
    for (at, (name, ratio)) in ratios.iter().enumerate() {
        let comma = if at > 0 { "," } else { "" };
        let _ = write!(text, "{comma}\n  {}: {ratio:.2}", serde_json::Value::from(name.as_str()));
    }
    text + "\n}\n"
}
