//! What a selector of a policy wants and an object does not have.

use serde::Deserialize;

use federate_dialect::references::TemplateSelector;
use federate_kubernetes::Object;
use federate_kubernetes::schema::find_similar;
use federate_kubernetes::selector::LabelSelector;

/// Something that a selector wants and an object does not have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SelectorMismatch {
    /// What differs: `kind`, `namespace`, `label` and so on.
    pub what: &'static str,
    /// What the selector wants.
    pub wanted: String,
    /// What the object has in its place, if anything.
    pub has: Option<String>,
}

/// What a selector wants and an object does not have.
pub fn find_mismatches(selector: &TemplateSelector, object: &Object) -> Vec<SelectorMismatch> {
    let id = &object.id;
    let namespace = id.namespace.as_deref().unwrap_or_default();
    if selector.with_content && id.namespace.is_some() {
        let wanted = selector.name.as_ref().filter(|wanted| wanted.name != namespace);
        return wanted.map(|wanted| new_mismatch("namespace", &wanted.name, namespace)).into_iter().collect();
    }
    let version = selector.api_version.as_ref().filter(|_| !selector.any_version);
    let mut all: Vec<SelectorMismatch> = [
        ("kind", Some(&selector.kind), id.kind.as_str()),
        ("API version", version, &id.api_version),
        ("API group", selector.group.as_ref(), id.group()),
        ("namespace", selector.namespace.as_ref(), namespace),
        ("name", selector.name.as_ref(), &id.name),
    ]
    .into_iter()
    .filter_map(|(what, wanted, has)| {
        wanted.filter(|wanted| wanted.name != has).map(|wanted| new_mismatch(what, &wanted.name, has))
    })
    .collect();
    if let Some((written, _)) = &selector.labels {
        match LabelSelector::deserialize(written) {
            Ok(wanted) if wanted.matches(&object.labels()) => {}
            Ok(wanted) => all.extend(find_label_mismatches(&wanted, object, &written.to_string())),
            Err(_) => all.push(new_mismatch("labels", &written.to_string(), "")),
        }
    }
    all
}

fn new_mismatch(what: &'static str, wanted: &str, has: &str) -> SelectorMismatch {
    let has = (!has.is_empty()).then(|| has.to_owned());
    SelectorMismatch { what, wanted: wanted.to_owned(), has }
}

/// The labels that an object lacks; the whole selector, `written`, if it is more than a list of labels.
fn find_label_mismatches(wanted: &LabelSelector, object: &Object, written: &str) -> Vec<SelectorMismatch> {
    let labels = object.labels();
    if !wanted.match_expressions.iter().all(|requirement| requirement.matches(&labels))
        || wanted.find_mistake().is_some()
    {
        return vec![new_mismatch("labels", written, "")];
    }
    let keys: Vec<&str> = labels.keys().map(String::as_str).collect();
    let missing = wanted.match_labels.iter().filter(|(key, value)| labels.get(*key) != Some(value));
    missing
        .map(|(key, value)| {
            let there = if labels.contains_key(key) { Some(key.as_str()) } else { find_similar(key, &keys) };
            let has = there.and_then(|there| Some(format!("{there}: {}", labels.get(there)?)));
            new_mismatch("label", &format!("{key}: {value}"), &has.unwrap_or_default())
        })
        .collect()
}
