//! Values of what objects of Flux describe that are not known: what is built with them is marked, and they are reported once for each
//! object that holds them.

use std::collections::{BTreeMap, BTreeSet};

use federate_gitops::{DescribedJob, DescribedSource, UnknownReason};
use federate_kubernetes::finding::join_names;
use federate_kubernetes::unfilled::{list_unfilled, mark_unfilled};
use federate_kubernetes::{Finding, Object};

use super::BuiltVariant;

/// The code of the warning about values that are not known. Where objects with them are to be sent, it is an error.
pub const UNKNOWN_VALUES: &str = "unknown-values";

/// The most names that a finding has.
const MAX_NAMES: usize = 5;

/// Where values are used that are not known, by what holds them.
#[derive(Default)]
pub(super) struct UnknownUses(BTreeMap<String, UnknownUse>);

struct UnknownUse {
    reason: UnknownReason,
    /// The first object that refers to them, and where.
    object: Object,
    pointer: String,
    keys: BTreeSet<String>,
    /// What was built with them.
    built: BTreeSet<String>,
}

impl UnknownUses {
    /// Marks what was built with values that are not known, and notes it. `by` describes the source.
    pub(super) fn mark_built(
        &mut self,
        by: &Object,
        source: &DescribedSource,
        variants: &mut [BuiltVariant],
    ) {
        let inherited = list_unfilled(&by.body);
        if inherited.is_empty() && source.unknown.is_empty() {
            return;
        }
        let is_chart = matches!(source.job, DescribedJob::Chart(_));
        let mut names = inherited.clone();
        if is_chart {
            // A chart may make anything of its values.
            names.extend(source.unknown.iter().flat_map(|values| &values.keys).map(String::as_str));
        }
        for object in variants.iter_mut().flat_map(|variant| &mut variant.objects) {
            mark_unfilled(&mut object.body, names.iter().copied());
        }
        let encrypted: BTreeSet<&str> =
            source.unknown.iter().flat_map(|values| &values.keys).map(String::as_str).collect();
        for values in &source.unknown {
            let noted = self.0.entry(values.holder.clone()).or_insert_with(|| UnknownUse {
                reason: values.reason.clone(),
                object: by.clone(),
                pointer: values.pointer.clone(),
                keys: BTreeSet::new(),
                built: BTreeSet::new(),
            });
            for object in variants.iter().flat_map(|variant| &variant.objects) {
                let unfilled = list_unfilled(&object.body).into_iter();
                let keys: BTreeSet<&str> = if values.keys.is_empty() {
                    // What is missing may hold any variable.
                    unfilled.filter(|name| !encrypted.contains(name) && !inherited.contains(*name)).collect()
                } else {
                    unfilled.filter(|name| values.keys.contains(*name)).collect()
                };
                if !keys.is_empty() {
                    noted.built.insert(object.id.to_string());
                    noted.keys.extend(keys.into_iter().map(str::to_owned));
                }
            }
        }
    }

    /// The findings about all of them.
    pub(super) fn into_findings(self) -> impl Iterator<Item = Finding> {
        self.0.into_iter().filter_map(|(holder, unknown)| unknown.into_finding(&holder))
    }
}

impl UnknownUse {
    fn into_finding(self, holder: &str) -> Option<Finding> {
        let Self { reason, object, pointer, keys, built } = self;
        let quoted: Vec<String> = keys.iter().map(|key| format!("`{key}`")).collect();
        let keys = join_names(&quoted.iter().map(String::as_str).collect::<Vec<_>>(), MAX_NAMES);
        let built = join_names(&built.iter().map(String::as_str).collect::<Vec<_>>(), MAX_NAMES);
        let effect = format!(
            "what is built with them has `${{NAME}}` in their place, and is sent to no cluster: {built}"
        );
        let (message, help) = match reason {
            UnknownReason::Encrypted if quoted.is_empty() => return None,
            UnknownReason::Encrypted => (
                format!("SOPS encrypted values of {holder} ({keys}): {effect}"),
                "let `apply` and `sync` decrypt them (`--decrypt sops`), or keep what is not secret in a ConfigMap"
                    .to_owned(),
            ),
            UnknownReason::Missing { similar } => (
                if quoted.is_empty() {
                    format!(
                        "the repo has no {holder}, of which {} takes values: what it gives other values is not known",
                        object.id
                    )
                } else {
                    format!("the repo has no {holder}, so that values are not known ({keys}): {effect}")
                },
                match similar {
                    Some(similar) => format!("did you mean {similar}?"),
                    None => "commit it, encrypted by SOPS if it is secret, or mark the reference as `optional`".to_owned(),
                },
            ),
        };
        Some(
            Finding::warning(UNKNOWN_VALUES, &object, message).with_pointer(pointer.as_str()).with_help(help),
        )
    }
}
