//! By what the items of a list are told apart.
//!
//! Facts: the `x-kubernetes-list-map-keys` and `x-kubernetes-list-type` of Kubernetes' own `OpenAPI`
//! schema (the keys by which server-side apply merges lists). A field is known by its name, where that
//! is not enough together with the field around it: schemas of custom resources are not at hand, and
//! they use the same names for the same things.

use serde_json::Value;

/// How items are matched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Matching {
    /// By the values of these keys; what an item leaves out has the default.
    Keys(&'static [Key]),
    /// By their value: order does not count.
    Set,
    /// By place.
    Order,
}

/// A key of a list's items, with what it is when it is left out.
pub(super) type Key = (&'static str, Option<&'static str>);

const NAME: &[Key] = &[("name", None)];
const CONTAINER_PORT: &[Key] = &[("containerPort", None), ("protocol", Some("TCP"))];
const PORT: &[Key] = &[("port", None), ("protocol", Some("TCP"))];

/// Fields, what they lie in (empty: anything), and the keys of their items.
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

/// How the items of a list are matched: `field` is its name, `around` that of the field it lies in.
/// A rule that these items do not keep (a key missing, or given twice) gives way to the next; lists of
/// objects that all have a `name` of their own are matched by it, all others by place.
pub(super) fn matching(field: &str, around: &str, lists: [&[Value]; 2]) -> Matching {
    let known = KNOWN.iter().find(|(name, within, _)| *name == field && ["", around].contains(within));
    let known = known.map(|(_, _, matching)| *matching);
    let fits = |matching: &Matching| lists.iter().all(|items| is_kept(*matching, items));
    known.filter(fits).or(Some(Matching::Keys(NAME)).filter(fits)).unwrap_or(Matching::Order)
}

fn is_kept(matching: Matching, items: &[Value]) -> bool {
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

/// An item's step in a path, without the brackets: `port=80,protocol=TCP`. `None` where a key is missing.
pub(super) fn identity(item: &Value, keys: &[Key]) -> Option<String> {
    let item = item.as_object()?;
    let word = |(key, default): &Key| {
        let value = match (item.get(*key), default) {
            (Some(Value::String(text)), _) => plain(text),
            (Some(Value::Number(number)), _) => number.to_string(),
            (None | Some(Value::Null), Some(default)) => plain(default),
            _ => return None,
        };
        Some(format!("{key}={value}"))
    };
    Some(keys.iter().map(word).collect::<Option<Vec<_>>>()?.join(","))
}

/// A value within brackets: as it is, or as a JSON string where it would be mistaken for something else.
pub(super) fn plain(text: &str) -> String {
    let harmless = |c: char| c.is_alphanumeric() || "-_./:@+*".contains(c);
    if !text.is_empty() && text.chars().all(harmless) {
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
