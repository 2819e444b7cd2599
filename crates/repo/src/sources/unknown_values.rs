//! Values of what objects of Flux describe that are not known: what is built with them is marked, and they are reported once for each
//! object that holds them.

use std::collections::{BTreeMap, BTreeSet};

use federate_gitops::{DescribedJob, DescribedSource, UnknownReason};
use federate_kubernetes::finding::join_names;
use federate_kubernetes::unfilled::{list_unfilled, mark_unfilled};
use federate_kubernetes::{Finding, Object};

use super::BuiltVariant;

/// The code of the warning about values that are not known.
const UNKNOWN_VALUES: &str = "unknown-values";

/// The most names that a finding has.
const MAX_NAMES: usize = 5;

/// The most names that the mark of an object has.
const MAX_MARKED: usize = 20;

/// What other commands do.
const REFUSED: &str = "`render`, `commit`, `push`, `apply`, `drift` and `sync` do not build without values";

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
        let names: Vec<&str> = names.into_iter().take(MAX_MARKED).collect();
        let mut holders: BTreeMap<&str, usize> = BTreeMap::new();
        for (at, values) in source.unknown.iter().enumerate() {
            holders.extend(values.keys.iter().map(|key| (key.as_str(), at)));
        }
        // What is missing may hold any variable.
        let of_missing = source.unknown.iter().position(|values| values.keys.is_empty());
        let mut noted = vec![(BTreeSet::new(), BTreeSet::new()); source.unknown.len()];
        if is_chart {
            // Also where it builds nothing without them.
            for (values, (keys, _)) in source.unknown.iter().zip(&mut noted) {
                keys.extend(values.keys.iter().cloned());
            }
        }
        for object in variants.iter_mut().flat_map(|variant| &mut variant.objects) {
            mark_unfilled(&mut object.body, names.iter().copied());
            for name in list_unfilled(&object.body) {
                let of_missing = of_missing.filter(|_| !inherited.contains(name));
                let Some(at) = holders.get(name).copied().or(of_missing) else { continue };
                if let Some((keys, built)) = noted.get_mut(at) {
                    keys.insert(name.to_owned());
                    built.insert(object.id.to_string());
                }
            }
        }
        for (values, (keys, built)) in source.unknown.iter().zip(noted) {
            let known = self.0.entry(values.holder.clone()).or_insert_with(|| UnknownUse {
                reason: values.reason.clone(),
                object: by.clone(),
                pointer: values.pointer.clone(),
                keys: BTreeSet::new(),
                built: BTreeSet::new(),
            });
            known.keys.extend(keys);
            known.built.extend(built);
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
        let effect = if built.is_empty() {
            format!("what {} builds with them is not known", object.id)
        } else {
            format!("what is built with them has `${{NAME}}` in their place: {built}")
        };
        let (message, help) = match reason {
            // Nothing that a Kustomization builds names one of its variables.
            UnknownReason::Encrypted if quoted.is_empty() => return None,
            UnknownReason::Encrypted => (
                format!("SOPS encrypted values of {holder} ({keys}): {effect}"),
                format!("keep what is not secret in a ConfigMap; {REFUSED}"),
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
                    None => format!("commit it, or mark the reference as `optional`; {REFUSED}"),
                },
            ),
        };
        Some(
            Finding::warning(UNKNOWN_VALUES, &object, message).with_pointer(pointer.as_str()).with_help(help),
        )
    }
}
