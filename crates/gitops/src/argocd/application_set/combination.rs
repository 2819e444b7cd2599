//! The generators `matrix` and `merge`, which combine what others give.
//!
//! Facts: of a matrix without Go's templates, a key of both must have the same text; with them, the first generator wins. Of a merge, rows
//! of the first generator are overridden by those of the others with the same values of all keys, which must be unique in
//! each; keys are looked up as they are written.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::generators::{Generation, read_list};
use super::parameters::{Parameter, Parameters, count_bytes, merge_parameters, print_parameter};
use super::usage::MAX_APPLICATIONS;
use crate::description::DescriptionError;

impl Generation<'_> {
    pub(super) fn combine_matrix(
        &self,
        matrix: &Value,
        at: &str,
        depth: usize,
    ) -> Result<Vec<Parameters>, DescriptionError> {
        let [first, second] = read_list(matrix, "generators", at)? else {
            return Err(DescriptionError::new(at, "a matrix has two generators"));
        };
        let mut rows = Vec::new();
        let pointer = format!("{at}/generators/1");
        for outer in self.run_child(first, &Parameters::new(), &format!("{at}/generators/0"), depth + 1)? {
            // A second generator takes work also where it gives nothing.
            self.charge_work(1 + count_bytes(&outer), at)?;
            for inner in self.run_child(second, &outer, &pointer, depth + 1)? {
                self.charge_work(1 + count_bytes(&outer) + count_bytes(&inner), at)?;
                rows.push(self.join_rows(&outer, inner, at)?);
                if rows.len() > MAX_APPLICATIONS {
                    return Ok(rows);
                }
            }
        }
        Ok(rows)
    }

    /// A row of a matrix.
    fn join_rows(
        &self,
        outer: &Parameters,
        mut inner: Parameters,
        at: &str,
    ) -> Result<Parameters, DescriptionError> {
        if self.engine.is_go() {
            merge_rows(&mut inner, outer, at)?;
            return Ok(inner);
        }
        let mut joined = print_row(outer);
        for (key, inner) in print_row(&inner) {
            match joined.get(&key) {
                Some(outer) if *outer != inner => {
                    let why = format!("both generators give `{key}`, with different values");
                    return Err(DescriptionError::new(at, why).with_help(
                        "rename one of them, or set `goTemplate: true`, where the first one wins",
                    ));
                }
                Some(_) => {}
                None => drop(joined.insert(key, inner)),
            }
        }
        Ok(joined.into_iter().map(|(key, text)| (key, Parameter::from_text(text))).collect())
    }

    pub(super) fn merge_generators(
        &self,
        merge: &Value,
        at: &str,
        depth: usize,
    ) -> Result<Vec<Parameters>, DescriptionError> {
        let generators = read_list(merge, "generators", at)?;
        if generators.len() < 2 {
            return Err(DescriptionError::new(at, "a merge has at least two generators"));
        }
        let keys: BTreeSet<&str> =
            read_list(merge, "mergeKeys", at)?.iter().filter_map(Value::as_str).collect();
        let keys_bytes: usize = keys.iter().map(|key| 8 + key.len()).sum();
        if keys.is_empty() {
            return Err(DescriptionError::new(at, "a merge has at least one of `mergeKeys`"));
        }
        let mut rows: Option<Vec<(String, Parameters)>> = None;
        for (index, generator) in generators.iter().enumerate() {
            let pointer = format!("{at}/generators/{index}");
            let given = self.run_child(generator, &Parameters::new(), &pointer, depth + 1)?;
            let mut keyed = BTreeMap::new();
            let mut order = Vec::new();
            for row in given {
                self.charge_work(count_bytes(&row) + keys_bytes, at)?;
                let key = describe_keys(&row, &keys);
                order.push(key.clone());
                if keyed.insert(key, row).is_some() {
                    let why = "two of its sets of parameters have the same values of `mergeKeys`";
                    return Err(DescriptionError::new(&pointer, why));
                }
            }
            let Some(rows) = &mut rows else {
                let given = order.into_iter().filter_map(|key| keyed.remove_entry(&key));
                rows = Some(given.collect());
                continue;
            };
            for (key, row) in rows {
                let Some(over) = keyed.get(key) else { continue };
                self.charge_work(count_bytes(row) + count_bytes(over), at)?;
                if self.engine.is_go() {
                    merge_rows(row, over, at)?;
                } else {
                    let joined = print_row(row).into_iter().chain(print_row(over));
                    *row = joined.map(|(key, text)| (key, Parameter::from_text(text))).collect();
                }
            }
        }
        Ok(rows.into_iter().flatten().map(|(_, row)| row).collect())
    }
}

fn merge_rows(into: &mut Parameters, over: &Parameters, at: &str) -> Result<(), DescriptionError> {
    merge_parameters(into, over).map_err(|_| {
        DescriptionError::new(
            at,
            "Argo CD stops at `values` of a generator that are merged with `values` of the element of a list",
        )
        .with_help("name one of them otherwise")
    })
}

/// The parameters as the texts that Go prints of them.
fn print_row(row: &Parameters) -> BTreeMap<String, String> {
    row.iter().map(|(key, value)| (key.clone(), print_parameter(value))).collect()
}

/// The values of keys, in a form in which equal ones are equal.
fn describe_keys(row: &Parameters, keys: &BTreeSet<&str>) -> String {
    let values: Vec<String> =
        keys.iter().map(|key| row.get(*key).map_or_else(|| "null".to_owned(), describe_value)).collect();
    values.join(",")
}

fn describe_value(value: &Parameter) -> String {
    match value {
        Parameter::Json(Value::Number(_)) => print_parameter(value),
        Parameter::Json(value) => value.to_string(),
        Parameter::Map(map) => describe_map(map.iter().map(|(key, value)| (key, describe_value(value)))),
        Parameter::Texts(texts) => {
            describe_map(texts.iter().map(|(key, text)| (key, Value::from(text.as_str()).to_string())))
        }
        Parameter::TextList(texts) => Value::from(texts.as_slice()).to_string(),
        Parameter::Rows(rows) => {
            let rows: Vec<String> = rows
                .iter()
                .map(|row| describe_map(row.iter().map(|(key, value)| (key, describe_value(value)))))
                .collect();
            format!("[{}]", rows.join(","))
        }
    }
}

fn describe_map<'m>(entries: impl Iterator<Item = (&'m String, String)>) -> String {
    let entries: Vec<String> =
        entries.map(|(key, value)| format!("{}:{value}", Value::from(key.as_str()))).collect();
    format!("{{{}}}", entries.join(","))
}
