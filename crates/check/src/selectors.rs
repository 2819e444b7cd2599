//! Selectors of policies and overrides that match no object of the repo, with the field that is the cause.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

use federate_apiserver_model::served_versions::{NEWEST, VersionSupport, check_version};
use federate_dialect::ObjectReferences;
use federate_dialect::references::{LocatedName, TemplateSelector};
use federate_kubernetes::selector::LabelSelector;
use federate_kubernetes::{Finding, Labels, Object, ObjectRef, Origin, kinds, work};
use federate_repo::Repo;

use super::suggestions::{Suggestions, distinct_names};

/// The steps of comparing an object with a name or with a label selector.
const STEPS_PER_OBJECT: u64 = 2;

/// An object that a selector may select, with its labels.
struct Candidate<'o> {
    object: &'o Object,
    labels: Labels,
}

/// Objects of one kind, sorted by name, and the parts of them that selectors ask for. Each part is made when the first
/// selector asks for it, so that a selector costs no look at every object.
struct Scope<'c, 'o> {
    objects: Vec<&'c Candidate<'o>>,
    groups: OnceCell<Parts<'c, 'o>>,
    versions: OnceCell<Parts<'c, 'o>>,
    namespaces: OnceCell<Parts<'c, 'o>>,
    names: OnceCell<Vec<&'o str>>,
}

/// The parts of a scope, by what the objects of each have in common.
struct Parts<'c, 'o> {
    scopes: BTreeMap<&'o str, Scope<'c, 'o>>,
    /// The keys of the parts.
    known: Vec<&'o str>,
}

impl<'c, 'o> Scope<'c, 'o> {
    fn new(objects: Vec<&'c Candidate<'o>>) -> Self {
        Self {
            objects,
            groups: OnceCell::new(),
            versions: OnceCell::new(),
            namespaces: OnceCell::new(),
            names: OnceCell::new(),
        }
    }

    fn by_group(&self) -> &Parts<'c, 'o> {
        self.groups.get_or_init(|| self.split_by(|id| Some(id.group())))
    }

    fn by_version(&self) -> &Parts<'c, 'o> {
        self.versions.get_or_init(|| self.split_by(|id| Some(&id.api_version)))
    }

    /// The objects that have a namespace, by it.
    fn by_namespace(&self) -> &Parts<'c, 'o> {
        self.namespaces.get_or_init(|| self.split_by(|id| id.namespace.as_deref()))
    }

    fn split_by(&self, property: fn(&ObjectRef) -> Option<&str>) -> Parts<'c, 'o> {
        let mut lists = BTreeMap::<&'o str, Vec<&'c Candidate<'o>>>::new();
        for one in &self.objects {
            let object: &'o Object = one.object;
            if let Some(key) = property(&object.id) {
                lists.entry(key).or_default().push(one);
            }
        }
        Parts {
            known: lists.keys().copied().collect(),
            scopes: lists.into_iter().map(|(key, objects)| (key, Self::new(objects))).collect(),
        }
    }

    /// The distinct names of its objects, sorted.
    fn names(&self) -> &[&'o str] {
        self.names.get_or_init(|| {
            let mut names: Vec<&str> = self.objects.iter().map(|one| one.object.id.name.as_str()).collect();
            names.dedup();
            names
        })
    }

    /// Its objects of a name.
    fn find_named(&self, name: &str) -> &[&'c Candidate<'o>] {
        let start = self.objects.partition_point(|one| one.object.id.name.as_str() < name);
        let rest = self.objects.get(start..).unwrap_or_default();
        let length = rest.partition_point(|one| one.object.id.name == name);
        rest.get(..length).unwrap_or_default()
    }
}

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
    let misspelt_by_name: BTreeMap<&str, &ObjectRef> =
        misspelt.iter().rev().map(|id| (id.name.as_str(), *id)).collect();
    let candidates = list_candidates(repo, &misspelt);
    let mut search = MissSearch { kinds: split_by_kind(&candidates), suggestions: Suggestions::new() };
    let without_effect: BTreeMap<ObjectRef, &Finding> =
        unused.iter().filter_map(|finding| Some((finding.object.clone()?, finding))).collect();
    let mut explained = BTreeSet::new();
    let mut found = Vec::new();
    for (object, selector) in
        references.iter().flat_map(|(o, all)| all.selectors.iter().map(move |s| (*o, s)))
    {
        let Some(mut one) = search.find_miss(object, selector) else { continue };
        if let Some(id) = selector.name.as_ref().and_then(|name| misspelt_by_name.get(name.name.as_str())) {
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

/// The objects that selectors may select, sorted by name.
fn list_candidates<'r>(repo: &'r Repo, misspelt: &BTreeSet<&ObjectRef>) -> Vec<Candidate<'r>> {
    let templates = repo.templates.iter().map(|template| &template.object);
    let all = templates.chain(repo.claimed.iter().map(|claimed| &claimed.object));
    let all = all.filter(|object| !misspelt.contains(&object.id));
    let mut candidates: Vec<Candidate<'_>> =
        all.map(|object| Candidate { object, labels: object.labels() }).collect();
    candidates.sort_by_key(|one| &one.object.id.name);
    candidates
}

fn split_by_kind<'c, 'o>(candidates: &'c [Candidate<'o>]) -> Parts<'c, 'o> {
    Scope::new(candidates.iter().collect()).split_by(|id| Some(&id.kind))
}

/// Searches what keeps selectors from matching.
struct MissSearch<'c, 'o> {
    kinds: Parts<'c, 'o>,
    suggestions: Suggestions,
}

impl MissSearch<'_, '_> {
    /// The field of a selector that leaves no object, tried in the order in which people read them: kind, API version,
    /// namespace, name, labels.
    fn find_miss(&mut self, policy: &Object, selector: &TemplateSelector) -> Option<Miss> {
        let kind = selector.kind.name.as_str();
        if kind.is_empty() || work::is_exceeded() {
            return None;
        }
        work::charge_steps(STEPS_PER_OBJECT);
        let Self { kinds, suggestions } = self;
        let Some(of_kind) = kinds.scopes.get(kind) else { return Some(self.explain_kind(selector)) };
        let missed = narrow_to_version(selector, of_kind, suggestions)
            .and_then(|scope| narrow_to_namespace(policy, selector, scope, suggestions))
            .and_then(|scope| check_name(selector, scope, of_kind, suggestions).map(|()| scope))
            .and_then(|scope| check_labels(selector, scope, suggestions));
        missed.err()
    }

    /// Says that the repo has no object of the selector's kind.
    fn explain_kind(&mut self, selector: &TemplateSelector) -> Miss {
        let kind = selector.kind.name.as_str();
        let builtin: Vec<&str> = kinds::kind_names().collect();
        let near = self.suggestions.find_similar(kind, &self.kinds.known);
        let near = near
            .or_else(|| self.suggestions.find_similar(kind, &builtin).filter(|_| !builtin.contains(&kind)));
        let help = match near {
            Some(near) => format!("did you mean `{near}`?"),
            None => match &selector.name {
                Some(name) => format!("add the {kind} `{}`, or remove the selector", name.name),
                None => format!("add a {kind}, or remove the selector"),
            },
        };
        Miss::new(&selector.kind, format!("the repo has no {kind}"), help)
    }
}

/// The objects of the selector's API version or group.
fn narrow_to_version<'s, 'c, 'o>(
    selector: &TemplateSelector,
    scope: &'s Scope<'c, 'o>,
    suggestions: &mut Suggestions,
) -> Result<&'s Scope<'c, 'o>, Miss> {
    let scope = match &selector.group {
        Some(group) => narrow_to(selector, group, scope.by_group(), suggestions)?,
        None => scope,
    };
    match &selector.api_version {
        Some(version) if !selector.any_version || is_unserved(&version.name, &selector.kind.name) => {
            narrow_to(selector, version, scope.by_version(), suggestions)
        }
        _ => Ok(scope),
    }
}

/// Whether no API server serves an API version of a built-in kind any more.
fn is_unserved(api_version: &str, kind: &str) -> bool {
    !matches!(check_version(api_version, kind, NEWEST), VersionSupport::Yes | VersionSupport::Unknown)
}

/// The part that a selector asks for.
fn narrow_to<'s, 'c, 'o>(
    selector: &TemplateSelector,
    wanted: &LocatedName,
    parts: &'s Parts<'c, 'o>,
    suggestions: &mut Suggestions,
) -> Result<&'s Scope<'c, 'o>, Miss> {
    if let Some(part) = parts.scopes.get(wanted.name.as_str()) {
        return Ok(part);
    }
    let why = format!("the repo has no {} in `{}`", selector.kind.name, quote_empty(&wanted.name));
    let help = match parts.known.as_slice() {
        [one] => format!("did you mean `{}`?", quote_empty(one)),
        several => suggestions.suggest_instead(&wanted.name, several, "other API version"),
    };
    Err(Miss::new(wanted, why, help))
}

/// The objects of the selector's namespace.
fn narrow_to_namespace<'s, 'c, 'o>(
    policy: &Object,
    selector: &TemplateSelector,
    scope: &'s Scope<'c, 'o>,
    suggestions: &mut Suggestions,
) -> Result<&'s Scope<'c, 'o>, Miss> {
    let Some(namespace) = &selector.namespace else { return Ok(scope) };
    let namespaces = scope.by_namespace();
    if let Some(part) = namespaces.scopes.get(namespace.name.as_str()) {
        return Ok(part);
    }
    let kind = &selector.kind.name;
    if namespaces.known.is_empty() {
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
    let named = selector.name.as_ref().map(|name| scope.find_named(&name.name)).unwrap_or_default();
    work::charge_steps(STEPS_PER_OBJECT * named.len() as u64);
    let named = distinct_names(named.iter().filter_map(|one| one.object.id.namespace.as_deref()));
    let help = match (named.as_slice(), &selector.name) {
        ([one], Some(name)) => format!("{kind} `{}` is in the namespace `{one}`", name.name),
        ([], _) => suggestions.suggest_instead(&namespace.name, &namespaces.known, "namespace"),
        (several, _) => suggestions.suggest_instead(&namespace.name, several, "namespace"),
    };
    Err(Miss::new(namespace, why, help.replace("the repo has", "the namespaces with such objects are")))
}

/// Whether a scope has an object of the selector's name.
fn check_name(
    selector: &TemplateSelector,
    scope: &Scope<'_, '_>,
    of_kind: &Scope<'_, '_>,
    suggestions: &mut Suggestions,
) -> Result<(), Miss> {
    let Some(name) = &selector.name else { return Ok(()) };
    if !scope.find_named(&name.name).is_empty() {
        return Ok(());
    }
    let kind = &selector.kind.name;
    let place = selector.namespace.as_ref();
    let place = place.map_or_else(String::new, |namespace| format!(" in the namespace `{}`", namespace.name));
    let why = format!("the repo has no {kind} `{}`{place}", name.name);
    let elsewhere = of_kind.find_named(&name.name).first();
    let help = match elsewhere.and_then(|one| one.object.id.namespace.as_ref()) {
        Some(namespace) => format!("{kind} `{}` is in the namespace `{namespace}`", name.name),
        None => suggestions.suggest_instead(&name.name, scope.names(), kind),
    };
    Err(Miss::new(name, why, help))
}

fn quote_empty(name: &str) -> &str {
    if name.is_empty() { "\"\"" } else { name }
}

/// Whether the label selector of a selector matches an object of a scope.
fn check_labels(
    selector: &TemplateSelector,
    scope: &Scope<'_, '_>,
    suggestions: &mut Suggestions,
) -> Result<(), Miss> {
    let Some((labels, pointer)) = selector.labels.as_ref() else { return Ok(()) };
    let read = LabelSelector::deserialize(labels).ok();
    let Some(read) = read.filter(|selector| selector.find_mistake().is_none()) else { return Ok(()) };
    work::charge_steps(STEPS_PER_OBJECT * scope.objects.len() as u64);
    if scope.objects.iter().any(|one| read.matches(&one.labels)) {
        return Ok(());
    }
    let kind = &selector.kind.name;
    let all: Vec<&Labels> = scope.objects.iter().map(|one| &one.labels).collect();
    for (key, value) in &read.match_labels {
        work::charge_steps(STEPS_PER_OBJECT * all.len() as u64);
        let place = format!("{pointer}/matchLabels/{}", federate_kubernetes::pointer::escape(key));
        let values = distinct_names(all.iter().filter_map(|labels| labels.get(key)).map(String::as_str));
        if values.is_empty() {
            let keys = distinct_names(all.iter().flat_map(|labels| labels.keys()).map(String::as_str));
            let help =
                suggestions.suggest_instead(key, &keys, "label").replace("the repo has", "the labels are");
            let why = format!("no {kind} that it could select has the label `{key}`");
            return Err(Miss { pointer: place, why, help });
        }
        if !values.contains(&value.as_str()) {
            let help = suggestions
                .suggest_instead(value, &values, "value")
                .replace("the repo has", "its values are");
            let why = format!("no {kind} that it could select has the label `{key}: {value}`");
            return Err(Miss { pointer: place, why, help });
        }
    }
    let why = format!("no {kind} that it could select has labels that match");
    let help = "correct the label selector, or label the objects".to_owned();
    Err(Miss { pointer: pointer.clone(), why, help })
}
