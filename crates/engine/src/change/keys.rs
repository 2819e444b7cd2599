//! The keys that identify the items of a list.
//!
//! Facts: the list types of Kubernetes' own schema, by which server-side apply merges lists, as
//! `federate_apiserver_model::schema` knows them. Here a field is known by its name, where that is not enough together
//! with the field around it: schemas of custom resources are not at hand, and they use the same names for the same
//! things.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use federate_apiserver_model::ResourceKind;
use federate_apiserver_model::schema::{ListType, Struct, Type, WhenWritten};
use serde_json::Value;

/// How the items of two lists are matched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ItemMatching {
    /// By the values of these keys; a key that an item leaves out has its default.
    Keys(Vec<ListKey>),
    /// By their value, in any order.
    Set,
    /// By position.
    Order,
}

/// A key of a list's items, with its default.
pub(super) type ListKey = (String, Option<String>);

static BY_POSITION: ItemMatching = ItemMatching::Order;
static BY_NAME: LazyLock<ItemMatching> =
    LazyLock::new(|| ItemMatching::Keys(vec![("name".to_owned(), None)]));
static BUILTIN_LISTS: LazyLock<Lists> = LazyLock::new(Lists::from_builtins);

/// The lists of the built-in kinds: by field, then by the field around it. `Order` is for lists that are replaced as
/// a whole.
#[derive(Default)]
struct Lists {
    by_field: BTreeMap<String, BTreeMap<String, ItemMatching>>,
    seen: BTreeSet<(&'static str, String)>,
}

impl Lists {
    fn from_builtins() -> Self {
        let mut lists = Self::default();
        for kind in ResourceKind::all_builtins() {
            lists.visit_type(&kind.schema, "");
        }
        lists
    }

    fn visit_type(&mut self, ty: &Type, around: &str) {
        match ty {
            Type::Named(name) if !self.seen.insert((name, around.to_owned())) => {}
            Type::Named(_) => {
                if let Type::Struct(structure) = ty.resolve_name() {
                    self.visit_fields(structure, around);
                }
            }
            Type::Struct(structure) => self.visit_fields(structure, around),
            Type::Map { value, .. } => self.visit_type(value, around),
            Type::List { item, .. } => self.visit_type(item, around),
            _ => {}
        }
    }

    fn visit_fields(&mut self, structure: &Struct, around: &str) {
        for (name, field) in &structure.fields {
            if let Type::List { item, list_type } = field.ty.resolve_name() {
                let matching = match_items_of_type(list_type, item);
                self.by_field.entry(name.clone()).or_default().insert(around.to_owned(), matching);
            }
            self.visit_type(&field.ty, name);
        }
    }

    /// The rule for a field within another: its own where there is one, else the one that the field has everywhere.
    fn find_rule(&self, field: &str, around: &str) -> Option<&ItemMatching> {
        let rules = self.by_field.get(field)?;
        rules
            .get(around)
            .or_else(|| {
                let mut all = rules.values();
                let first = all.next()?;
                all.all(|other| other == first).then_some(first)
            })
            .filter(|rule| **rule != ItemMatching::Order)
    }
}

fn match_items_of_type(list: &ListType, item: &Type) -> ItemMatching {
    let fields = match item.resolve_name() {
        Type::Struct(structure) => Some(&structure.fields),
        _ => None,
    };
    // The empty text of a field that is always written identifies nothing.
    match list {
        ListType::Atomic => ItemMatching::Order,
        ListType::Set => ItemMatching::Set,
        ListType::Keys(keys) => {
            let keys = keys.iter().map(|key| {
                let field = fields.and_then(|fields| fields.get(key));
                let optional = field.filter(|field| field.written != WhenWritten::Always);
                let default = optional.and_then(|field| field.default.as_ref()?.as_str());
                (key.clone(), default.map(str::to_owned))
            });
            ItemMatching::Keys(keys.collect())
        }
    }
}

/// How the items of a list are matched: `field` is its name, `around` that of the field it lies in.
/// A rule that these items do not keep (a key is missing or given twice) gives way to the next; lists of
/// objects that all have a `name` of their own are matched by it, all others by position.
pub(super) fn choose_matching(field: &str, around: &str, lists: [&[Value]; 2]) -> &'static ItemMatching {
    let rules = BUILTIN_LISTS.find_rule(field, around).into_iter().chain([&*BY_NAME]);
    let mut kept = rules.filter(|matching| lists.iter().all(|items| is_kept(matching, items)));
    kept.next().unwrap_or(&BY_POSITION)
}

fn is_kept(matching: &ItemMatching, items: &[Value]) -> bool {
    let mut ids: Vec<String> = match matching {
        ItemMatching::Order => return true,
        ItemMatching::Set if items.iter().all(Value::is_string) => {
            items.iter().filter_map(Value::as_str).map(str::to_owned).collect()
        }
        ItemMatching::Set => return false,
        ItemMatching::Keys(keys) => match items.iter().map(|item| item_identity(item, keys)).collect() {
            Some(ids) => ids,
            None => return false,
        },
    };
    ids.sort_unstable();
    ids.windows(2).all(|pair| pair[0] != pair[1])
}

/// The items of a list, each with its name in paths. Items without a name are left out.
pub(super) struct NamedItems<'v>(pub(super) Vec<(String, &'v Value)>);

impl<'v> NamedItems<'v> {
    pub(super) fn new(items: &'v [Value], name: &dyn Fn(&Value) -> Option<String>) -> Self {
        Self(items.iter().filter_map(|item| Some((name(item)?, item))).collect())
    }

    pub(super) fn find(&self, name: &str) -> Option<&'v Value> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, item)| *item)
    }
}

/// An item's step in a path, without the brackets: `port=80,protocol=TCP`. `None` if a key is missing.
pub(super) fn item_identity(item: &Value, keys: &[ListKey]) -> Option<String> {
    let item = item.as_object()?;
    Some(
        keys.iter()
            .map(|(key, default)| {
                let value = match (item.get(key), default) {
                    (Some(Value::String(text)), _) => quote_value(text),
                    (Some(Value::Number(number)), _) => number.to_string(),
                    (None | Some(Value::Null), Some(default)) => quote_value(default),
                    _ => return None,
                };
                Some(format!("{key}={value}"))
            })
            .collect::<Option<Vec<_>>>()?
            .join(","),
    )
}

/// A value within brackets: as it is, or as a JSON string where it would be mistaken for something else.
pub(super) fn quote_value(text: &str) -> String {
    if !text.is_empty() && text.chars().all(|c| c.is_alphanumeric() || "-_./:@+*".contains(c)) {
        return text.to_owned();
    }
    Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(field: &str, around: &str) -> Option<String> {
        BUILTIN_LISTS.find_rule(field, around).map(|rule| match rule {
            ItemMatching::Keys(keys) => keys
                .iter()
                .map(|(key, default)| {
                    default.as_ref().map_or(key.clone(), |default| format!("{key}={default}"))
                })
                .collect::<Vec<_>>()
                .join(","),
            ItemMatching::Set => "set".to_owned(),
            ItemMatching::Order => "order".to_owned(),
        })
    }

    #[test]
    fn lists_are_known_by_the_schema() {
        for (field, around, expected) in [
            ("containers", "spec", Some("name")),
            ("conditions", "anything", Some("type")),
            ("ports", "containers", Some("containerPort,protocol=TCP")),
            ("ports", "spec", Some("port,protocol=TCP")),
            // Containers and Services differ, so that elsewhere the items decide.
            ("ports", "anything", None),
            ("finalizers", "metadata", Some("set")),
            ("finalizers", "spec", None),
            ("ownerReferences", "metadata", Some("uid")),
            ("topologySpreadConstraints", "spec", Some("topologyKey,whenUnsatisfiable")),
            ("volumeClaimTemplates", "spec", None),
            ("volumeMounts", "containers", Some("mountPath")),
            ("claims", "resources", Some("name")),
        ] {
            assert_eq!(rule(field, around).as_deref(), expected, "{field} in {around}");
        }
    }
}
