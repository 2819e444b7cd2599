//! Selectors of policies and overrides that match no object of the repo, with the field that is the cause.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

use federate_apiserver::served_versions::{NEWEST, VersionSupport, check_version};
use federate_dialect::ObjectReferences;
use federate_dialect::references::{LocatedName, TemplateSelector};
use federate_kubernetes::schema::find_similar;
use federate_kubernetes::selector::LabelSelector;
use federate_kubernetes::{Finding, Labels, Object, ObjectRef, Origin, kinds, work};
use federate_repo::Repo;

use super::{distinct_names, suggest_instead};

/// The steps of an object in a list of distinct names.
const STEPS_PER_NAME: u64 = 2;

/// An object that a selector may select, with its labels.
struct Candidate<'o> {
    object: &'o Object,
    labels: Labels,
}

/// The candidates of each kind, sorted by name.
type CandidatesByKind<'o> = BTreeMap<&'o str, Vec<Candidate<'o>>>;

/// Why a selector matches nothing.
struct Miss {
    pointer: String,
    why: String,
    help: String,
}

impl Miss {
    fn new(at: &LocatedName, why: String, help: String) -> Self {
        Self { pointer: at.pointer.clone(), why, help }
    }
}

/// The findings about selectors without a match, and about policies and overrides without effect (`unused`), where
/// no such selector explains them. `unread` is the place of a document that cannot be read.
pub(super) fn without_match(
    repo: &Repo,
    references: &[(&Object, ObjectReferences)],
    unused: &[Finding],
    misspelt: &[Finding],
    unread: Option<&Origin>,
) -> Vec<Finding> {
    let misspelt: BTreeSet<&ObjectRef> =
        misspelt.iter().filter_map(|finding| finding.object.as_ref()).collect();
    let by_kind = by_kind(repo, &misspelt);
    let without_effect: BTreeMap<ObjectRef, &Finding> =
        unused.iter().filter_map(|finding| Some((finding.object.clone()?, finding))).collect();
    let mut explained = BTreeSet::new();
    let mut found = Vec::new();
    for (object, selector) in
        references.iter().flat_map(|(o, all)| all.selectors.iter().map(move |s| (*o, s)))
    {
        let Some(mut one) = find_miss(object, selector, &by_kind) else { continue };
        work::charge_items(misspelt.len());
        if let Some(id) =
            misspelt.iter().find(|id| selector.name.as_ref().is_some_and(|name| name.name == id.name))
        {
            one.help = format!("correct {id}, whose kind or API version is wrong");
        }
        if let Some(origin) = unread.filter(|_| !one.help.starts_with("did you mean")) {
            one.help = format!("correct {origin} first: its error keeps an object from being read");
        }
        let Miss { pointer, why, help } = one;
        let (code, message) = match without_effect.get(&object.id) {
            Some(unused) => {
                // The field is a better cause than that it has no effect.
                let what = unused.message.split(": ").next().unwrap_or_default();
                (unused.code, format!("{what}: {why}"))
            }
            None => ("unused-selector", format!("a selector of {} matches no object: {why}", object.id)),
        };
        explained.insert(object.id.clone());
        found.push(Finding::warning(code, object, message).with_pointer(pointer).with_help(help));
    }
    let others = unused.iter();
    let others = others.filter(|one| one.object.as_ref().is_none_or(|id| !explained.contains(id)));
    found.extend(others.cloned());
    found
}

fn by_kind<'r>(repo: &'r Repo, misspelt: &BTreeSet<&ObjectRef>) -> CandidatesByKind<'r> {
    let mut by_kind = CandidatesByKind::new();
    let templates = repo.templates.iter().map(|template| &template.object);
    let all = templates.chain(repo.claimed.iter().map(|claimed| &claimed.object));
    for object in all.filter(|object| !misspelt.contains(&object.id)) {
        by_kind.entry(&object.id.kind).or_default().push(Candidate { object, labels: object.labels() });
    }
    for candidates in by_kind.values_mut() {
        candidates.sort_by_key(|one| &one.object.id.name);
    }
    by_kind
}

/// The field of a selector that leaves no object, tried in the order in which people read them: kind, API version,
/// namespace, name, labels.
fn find_miss(policy: &Object, selector: &TemplateSelector, by_kind: &CandidatesByKind<'_>) -> Option<Miss> {
    let kind = selector.kind.name.as_str();
    if kind.is_empty() {
        return None;
    }
    let Some(of_kind) = by_kind.get(kind) else { return Some(unknown_kind(selector, by_kind)) };
    work::charge_items(4 * of_kind.len());
    if work::is_exceeded() {
        return None;
    }
    let in_namespace = match other_version(selector, of_kind) {
        Ok(objects) => other_namespace(policy, selector, objects),
        Err(miss) => return Some(miss),
    };
    match in_namespace {
        Ok(objects) => other_name(selector, &objects, of_kind).or_else(|| other_labels(selector, &objects)),
        Err(miss) => Some(miss),
    }
}

fn unknown_kind(selector: &TemplateSelector, by_kind: &CandidatesByKind<'_>) -> Miss {
    let kind = selector.kind.name.as_str();
    let there: Vec<&str> = by_kind.keys().copied().collect();
    let builtin: Vec<&str> = kinds::kind_names().collect();
    let near = find_similar(kind, &there)
        .or_else(|| find_similar(kind, &builtin).filter(|_| !builtin.contains(&kind)));
    let help = match near {
        Some(near) => format!("did you mean `{near}`?"),
        None => match &selector.name {
            Some(name) => format!("add the {kind} `{}`, or remove the selector", name.name),
            None => format!("add a {kind}, or remove the selector"),
        },
    };
    Miss::new(&selector.kind, format!("the repo has no {kind}"), help)
}

/// The objects of the selector's API version or group.
fn other_version<'c, 'o>(
    selector: &TemplateSelector,
    objects: &'c [Candidate<'o>],
) -> Result<Vec<&'c Candidate<'o>>, Miss> {
    let objects: Vec<&Candidate<'o>> = objects.iter().collect();
    let objects = match &selector.group {
        Some(group) => select_matching(selector, group, &objects, |object| object.id.group())?,
        None => objects,
    };
    let Some(version) = &selector.api_version else { return Ok(objects) };
    if selector.any_version && !is_unserved(&version.name, &selector.kind.name) {
        return Ok(objects);
    }
    select_matching(selector, version, &objects, |object| object.id.api_version.as_str())
}

/// Whether no API server serves an API version of a built-in kind any more.
fn is_unserved(api_version: &str, kind: &str) -> bool {
    !matches!(check_version(api_version, kind, NEWEST), VersionSupport::Yes | VersionSupport::Unknown)
}

/// The objects with a property that a selector asks for.
fn select_matching<'c, 'o>(
    selector: &TemplateSelector,
    wanted: &LocatedName,
    objects: &[&'c Candidate<'o>],
    of: fn(&Object) -> &str,
) -> Result<Vec<&'c Candidate<'o>>, Miss> {
    let matching: Vec<&Candidate<'_>> =
        objects.iter().copied().filter(|one| of(one.object) == wanted.name).collect();
    if !matching.is_empty() {
        return Ok(matching);
    }
    let known = distinct_names(objects.iter().map(|one| of(one.object)));
    let why = format!("the repo has no {} in `{}`", selector.kind.name, quote_empty(&wanted.name));
    let help = match known.as_slice() {
        [one] => format!("did you mean `{}`?", quote_empty(one)),
        several => suggest_instead(&wanted.name, several, "other API version"),
    };
    Err(Miss::new(wanted, why, help))
}

/// The objects of the selector's namespace.
fn other_namespace<'c, 'o>(
    policy: &Object,
    selector: &TemplateSelector,
    objects: Vec<&'c Candidate<'o>>,
) -> Result<Vec<&'c Candidate<'o>>, Miss> {
    let Some(namespace) = &selector.namespace else { return Ok(objects) };
    let matching: Vec<&Candidate<'_>> = objects
        .iter()
        .filter(|one| one.object.id.namespace.as_deref() == Some(namespace.name.as_str()))
        .copied()
        .collect();
    if !matching.is_empty() {
        return Ok(matching);
    }
    let kind = &selector.kind.name;
    work::charge_steps(STEPS_PER_NAME * objects.len() as u64);
    let ids = || objects.iter().map(|one| &one.object.id);
    if ids().all(|id| id.namespace.is_none()) {
        let why = format!(
            "a {} only selects in its namespace, and {kind} objects have no namespace",
            policy.id.kind
        );
        let help = format!("select it in a `Cluster{}`", policy.id.kind.trim_start_matches("Cluster"));
        return Err(Miss::new(&selector.kind, why, help));
    }
    let own = namespace.pointer == "/metadata/namespace";
    let of_policy = if own { format!(" of the {}", policy.id.kind) } else { String::new() };
    let why = format!("the repo has no {kind} in the namespace `{}`{of_policy}", namespace.name);
    let named = ids().filter(|id| selector.name.as_ref().is_none_or(|name| name.name == id.name));
    let named = distinct_names(named.filter_map(|id| id.namespace.as_deref()));
    let help = match (named.as_slice(), &selector.name) {
        ([one], Some(name)) => format!("{kind} `{}` is in the namespace `{one}`", name.name),
        ([], _) => {
            let all = distinct_names(ids().filter_map(|id| id.namespace.as_deref()));
            suggest_instead(&namespace.name, &all, "namespace")
        }
        (several, _) => suggest_instead(&namespace.name, several, "namespace"),
    };
    Err(Miss::new(namespace, why, help.replace("the repo has", "the namespaces with such objects are")))
}

fn other_name(
    selector: &TemplateSelector,
    objects: &[&Candidate<'_>],
    of_kind: &[Candidate<'_>],
) -> Option<Miss> {
    let name = selector.name.as_ref()?;
    if objects.iter().any(|one| one.object.id.name == name.name) {
        return None;
    }
    let kind = &selector.kind.name;
    let place = selector.namespace.as_ref();
    let place = place.map_or_else(String::new, |namespace| format!(" in the namespace `{}`", namespace.name));
    let why = format!("the repo has no {kind} `{}`{place}", name.name);
    let elsewhere = of_kind.iter().find(|one| one.object.id.name == name.name);
    let help = if let Some(namespace) = elsewhere.and_then(|one| one.object.id.namespace.as_ref()) {
        format!("{kind} `{}` is in the namespace `{namespace}`", name.name)
    } else {
        work::charge_steps(STEPS_PER_NAME * objects.len() as u64);
        let mut names: Vec<&str> = objects.iter().map(|one| one.object.id.name.as_str()).collect();
        names.dedup();
        suggest_instead(&name.name, &names, kind)
    };
    Some(Miss::new(name, why, help))
}

fn quote_empty(name: &str) -> &str {
    if name.is_empty() { "\"\"" } else { name }
}

fn other_labels(selector: &TemplateSelector, objects: &[&Candidate<'_>]) -> Option<Miss> {
    let (labels, pointer) = selector.labels.as_ref()?;
    let read =
        LabelSelector::deserialize(labels).ok().filter(|selector| selector.find_mistake().is_none())?;
    if objects.iter().any(|one| read.matches(&one.labels)) {
        return None;
    }
    let kind = &selector.kind.name;
    let all: Vec<&Labels> = objects.iter().map(|one| &one.labels).collect();
    for (key, value) in &read.match_labels {
        work::charge_steps(STEPS_PER_NAME * all.len() as u64);
        let place = format!("{pointer}/matchLabels/{}", federate_kubernetes::pointer::escape(key));
        let values = distinct_names(all.iter().filter_map(|labels| labels.get(key)).map(String::as_str));
        if values.is_empty() {
            let keys = distinct_names(all.iter().flat_map(|labels| labels.keys()).map(String::as_str));
            let help = suggest_instead(key, &keys, "label").replace("the repo has", "the labels are");
            let why = format!("no {kind} that it could select has the label `{key}`");
            return Some(Miss { pointer: place, why, help });
        }
        if !values.contains(&value.as_str()) {
            let help = suggest_instead(value, &values, "value").replace("the repo has", "its values are");
            let why = format!("no {kind} that it could select has the label `{key}: {value}`");
            return Some(Miss { pointer: place, why, help });
        }
    }
    let why = format!("no {kind} that it could select has labels that match");
    let help = "correct the label selector, or label the objects".to_owned();
    Some(Miss { pointer: pointer.clone(), why, help })
}
