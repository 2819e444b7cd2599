//! The keys that identify items of a list.
//!
//! Facts: `x-kubernetes-list-map-keys` and `x-kubernetes-list-type` in the `OpenAPI` schema of Kubernetes (the keys
//! by which server-side apply merges lists). A field is identified by its name and, if the name is ambiguous, by the
//! enclosing field, because schemas of custom resources are not available, and custom resources use the same names
//! for the same things.

use serde_json::Value;

/// How the items of two lists are matched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Matching {
    /// By the values of these keys. A missing key has its default value.
    Keys(&'static [Key]),
    /// By value, in any order.
    Set,
    /// By index.
    Order,
}

/// A key of the items of a list, with its default value.
pub(super) type Key = (&'static str, Option<&'static str>);

const NAME: &[Key] = &[("name", None)];
const CONTAINER_PORT: &[Key] = &[("containerPort", None), ("protocol", Some("TCP"))];
const PORT: &[Key] = &[("port", None), ("protocol", Some("TCP"))];

/// Fields, their enclosing field (empty for any), and how their items are matched. Sorted.
const KNOWN: [(&str, &str, Matching); 30] = [
    ("additionalPrinterColumns", "", Matching::Keys(NAME)),
    ("claims", "resources", Matching::Keys(&[("name", None), ("request", Some(""))])),
    ("conditions", "", Matching::Keys(&[("type", None)])),
    ("containers", "", Matching::Keys(NAME)),
    ("env", "", Matching::Keys(NAME)),
    ("ephemeralContainers", "", Matching::Keys(NAME)),
    ("finalizers", "metadata", Matching::Set),
    ("hostAliases", "", Matching::Keys(&[("ip", None)])),
    ("imagePullSecrets", "", Matching::Keys(NAME)),
    ("initContainers", "", Matching::Keys(NAME)),
    ("matchConditions", "", Matching::Keys(NAME)),
    ("ownerReferences", "metadata", Matching::Keys(&[("uid", None)])),
    ("paramKinds", "", Matching::Keys(NAME)),
    ("podIPs", "", Matching::Keys(&[("ip", None)])),
    ("ports", "containers", Matching::Keys(CONTAINER_PORT)),
    ("ports", "ephemeralContainers", Matching::Keys(CONTAINER_PORT)),
    ("ports", "initContainers", Matching::Keys(CONTAINER_PORT)),
    ("ports", "spec", Matching::Keys(PORT)),
    ("ports", "subsets", Matching::Keys(PORT)),
    ("resourceClaims", "", Matching::Keys(NAME)),
    ("schedulingGates", "", Matching::Keys(NAME)),
    ("secrets", "", Matching::Keys(NAME)),
    (
        "topologySpreadConstraints",
        "",
        Matching::Keys(&[("topologyKey", None), ("whenUnsatisfiable", Some("DoNotSchedule"))]),
    ),
    ("variables", "", Matching::Keys(NAME)),
    ("versions", "", Matching::Keys(NAME)),
    ("volumeClaimTemplates", "", Matching::Order),
    ("volumeDevices", "", Matching::Keys(&[("devicePath", None)])),
    ("volumeMounts", "", Matching::Keys(&[("mountPath", None)])),
    ("volumes", "", Matching::Keys(NAME)),
    ("webhooks", "", Matching::Keys(NAME)),
];

/// Returns how the items of two lists are matched. `field` is the name of the list, `around` that of the enclosing
/// field. If the items do not fit the rule for the field (a key is missing, or not unique), they are matched by `name`
/// if all names are unique, and otherwise by index.
pub(super) fn matching(field: &str, around: &str, lists: [&[Value]; 2]) -> Matching {
    let known = KNOWN.iter().find(|(name, within, _)| *name == field && ["", around].contains(within));
    let known = known.map(|(_, _, matching)| *matching);
    let all_fit = |matching: &Matching| lists.iter().all(|items| fits(*matching, items));
    known.filter(all_fit).or(Some(Matching::Keys(NAME)).filter(all_fit)).unwrap_or(Matching::Order)
}

/// Whether a rule identifies each item of a list.
fn fits(matching: Matching, items: &[Value]) -> bool {
    let mut ids: Vec<String> = match matching {
        Matching::Order => return true,
        Matching::Set if items.iter().all(Value::is_string) => {
            items.iter().filter_map(Value::as_str).map(str::to_owned).collect()
        }
        Matching::Set => return false,
        Matching::Keys(keys) => match items.iter().map(|item| identity(item, keys)).collect() {
            Some(ids) => ids,
            None => return false,
        },
    };
    ids.sort_unstable();
    ids.windows(2).all(|pair| pair[0] != pair[1])
}

/// Returns the step of an item in a path, without the brackets: `port=80,protocol=TCP`. `None` if a key is missing.
pub(super) fn identity(item: &Value, keys: &[Key]) -> Option<String> {
    let item = item.as_object()?;
    let pair = |(key, default): &Key| {
        let value = match (item.get(*key), default) {
            (Some(Value::String(text)), _) => plain(text),
            (Some(Value::Number(number)), _) => number.to_string(),
            (None | Some(Value::Null), Some(default)) => plain(default),
            _ => return None,
        };
        Some(format!("{key}={value}"))
    };
    Some(keys.iter().map(pair).collect::<Option<Vec<_>>>()?.join(","))
}

/// Returns a value for use within brackets: unquoted if it has no special characters, otherwise as a JSON string.
pub(super) fn plain(text: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "-_./:@+*".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) {
        return text.to_owned();
    }
    Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_sorted() {
        assert!(KNOWN.windows(2).all(|pair| (pair[0].0, pair[0].1) < (pair[1].0, pair[1].1)));
    }
}
