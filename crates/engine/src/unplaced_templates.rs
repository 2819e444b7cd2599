//! Why no policy places a template: what keeps the nearest policy from it.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

use federate_dialect::references::{LocatedName, TemplateSelector};
use federate_dialect::{UnplacedFollower, UnplacedFollowerReason};
use federate_kubernetes::schema::{find_nearest, find_similar};
use federate_kubernetes::selector::LabelSelector;
use federate_kubernetes::{Finding, Labels, Object, ObjectRef, work};
use federate_repo::{Role, find_source_key};

use crate::Engine;

/// The steps of comparing a template with a selector.
const STEPS_PER_COMPARISON: u64 = 2;

/// The selectors of all placement policies, to compare templates with.
pub(crate) struct PlacementSelectors<'e> {
    engine: &'e Engine<'e>,
    selectors: Vec<PlacementSelector<'e>>,
    /// The policies with errors.
    in_error: BTreeSet<&'e ObjectRef>,
    /// The templates that would follow another object.
    unfollowed: BTreeMap<ObjectRef, UnplacedFollower>,
    /// What to do about a template that no policy nearly selects.
    advice: &'static str,
}

/// A selector of a policy.
struct PlacementSelector<'e> {
    policy: &'e Object,
    selector: TemplateSelector,
    /// The labels that it asks for; `Err` if they cannot be read.
    labels: Result<Option<LabelSelector>, serde_json::Error>,
}

impl<'e> PlacementSelector<'e> {
    fn new(policy: &'e Object, selector: TemplateSelector) -> Self {
        let written = selector.labels.as_ref().map(|(written, _)| LabelSelector::deserialize(written));
        Self { policy, labels: written.transpose(), selector }
    }
}

/// Why a template is placed nowhere.
pub(crate) struct UnplacedReason {
    /// The reason, if that is more than that no policy selects the template.
    why: Option<String>,
    /// What to do.
    help: String,
    /// Whether a policy is responsible for the template.
    pub(crate) claimed: bool,
    /// Whether a policy nearly selects it.
    pub(crate) near: bool,
    /// Whether it would follow an object that is on no cluster.
    follows: bool,
}

impl UnplacedReason {
    fn new(why: Option<String>, help: String) -> Self {
        Self { why, help, claimed: false, near: false, follows: false }
    }

    /// The reason why a policy that is responsible for the template does not place it.
    fn by_policy(why: String, help: impl Into<String>) -> Self {
        Self { claimed: true, ..Self::new(Some(why), help.into()) }
    }

    /// The finding about the template.
    pub(crate) fn to_finding(&self, template: &Object, everywhere: bool) -> Finding {
        let (id, what) = (&template.id, "it is rendered for no cluster");
        let message = match &self.why {
            Some(why) if self.follows => {
                return Finding::warning("unschedulable", template, format!("{id}: {why}"))
                    .with_help(&self.help);
            }
            Some(why) if everywhere => {
                format!("`unplaced: everywhere` places {id} in every cluster, although {why}")
            }
            Some(why) => format!("no policy places {id}: {why}"),
            None => format!("no policy places {id}, so {what}"),
        };
        Finding::warning("unmatched", template, message).with_help(&self.help)
    }
}

/// How a selector relates to a template.
enum SelectorMatch {
    Selects,
    /// It selects what has this in place of that.
    Nearly {
        what: &'static str,
        wanted: String,
        has: String,
    },
    Differs,
}

impl<'e> PlacementSelectors<'e> {
    /// Reads the selectors of the repo's policies, valid or not. At most `max_selectors` are read.
    pub(crate) fn new(
        engine: &'e Engine<'e>,
        findings: &'e [Finding],
        unfollowed: BTreeMap<ObjectRef, UnplacedFollower>,
        max_selectors: usize,
    ) -> Self {
        let policies = engine.repo.claimed.iter().filter(|claimed| claimed.role == Role::Placement);
        let selectors = policies.flat_map(|claimed| {
            let dialect = engine.dialects.get(claimed.dialect);
            let all = dialect.map(|dialect| dialect.advice().find_references(&claimed.object).selectors);
            all.into_iter().flatten().map(|selector| PlacementSelector::new(&claimed.object, selector))
        });
        let in_error = findings.iter().filter(|finding| finding.is_error());
        let used = engine.repo.claimed.iter();
        let used = used.filter(|claimed| matches!(claimed.role, Role::Placement | Role::Bundle));
        let used: BTreeSet<&str> = used.map(|claimed| claimed.dialect).collect();
        let advice = engine.dialects.iter().filter(|dialect| used.contains(dialect.name()));
        let advice: BTreeSet<&str> = advice.map(|dialect| dialect.advice().selected_by()).collect();
        Self {
            engine,
            selectors: selectors.take(max_selectors).collect(),
            in_error: in_error.filter_map(|finding| finding.object.as_ref()).collect(),
            unfollowed,
            advice: match advice.iter().collect::<Vec<_>>().as_slice() {
                [one] => one,
                _ => "select it in a placement policy",
            },
        }
    }

    /// Why a template is placed nowhere, and what to do.
    pub(crate) fn find_reason(&self, template: &Object) -> UnplacedReason {
        let labels = template.labels();
        let (mut selecting, mut near) = (Vec::new(), None);
        for one in self.selectors.iter().take_while(|_| !work::is_exceeded()) {
            match compare_selector(one, template, &labels) {
                SelectorMatch::Selects => selecting.push(one.policy),
                SelectorMatch::Nearly { what, wanted, has } if near.is_none() => {
                    near = Some((one.policy, what, wanted, has));
                }
                SelectorMatch::Nearly { .. } | SelectorMatch::Differs => {}
            }
        }
        if let Some(why) = self.engine.never_propagated(template) {
            let selected = selecting
                .first()
                .map_or_else(String::new, |p| format!(", although {} selects it", with_origin(p)));
            let help =
                "keep it out of the repo with `.federateignore`, or apply it to the clusters by other means";
            return UnplacedReason {
                claimed: !selecting.is_empty(),
                ..UnplacedReason::new(Some(format!("{why}{selected}")), help.to_owned())
            };
        }
        if let Some(policy) = selecting.iter().find(|policy| self.in_error.contains(&policy.id)) {
            let why = format!(
                "{}, which selects it, has an error and takes part in no decision",
                with_origin(policy)
            );
            return UnplacedReason::by_policy(why, "correct the policy");
        }
        if let Some(why) = self.without_namespace(template) {
            return why;
        }
        if let Some(policy) = selecting.first() {
            let why = if policy.is_deleting() {
                format!("{}, which selects it, is being deleted", with_origin(policy))
            } else {
                format!("{} selects it, but does not place it", with_origin(policy))
            };
            let explain = format!("`federate explain {}/{}`", template.id.kind, template.id.name);
            return UnplacedReason::by_policy(why, format!("{explain} shows the decision"));
        }
        let unfollowed = self.unfollowed.get(&template.id);
        if let Some(UnplacedFollower { leader, reason: UnplacedFollowerReason::LeaderNowhere }) = unfollowed {
            let why = format!("it goes where {leader} goes, which is on no cluster");
            let explain = format!("`federate explain {}/{}`", leader.kind, leader.name);
            let help = format!("{explain} shows why; or select this object in a policy");
            return UnplacedReason { follows: true, ..UnplacedReason::new(Some(why), help) };
        }
        match near {
            Some((policy, what, wanted, has)) => {
                let why =
                    format!("{} nearly selects it, but requires the {what} `{wanted}`", with_origin(policy));
                let help = format!("the object has the {what} `{has}`: correct one of the two");
                UnplacedReason { near: true, ..UnplacedReason::new(Some(why), help) }
            }
            None => UnplacedReason::new(None, self.format_advice(template, unfollowed)),
        }
    }

    /// What to do about a template that no policy nearly selects.
    fn format_advice(&self, template: &Object, unfollowed: Option<&UnplacedFollower>) -> String {
        let source = find_source_key(template).map(|key| {
            format!("build what it describes with an item `{key}: FOLDER` of `sources` in federate.yaml, ")
        });
        let advice = format!(
            "{}{}, or keep it out of the repo with `.federateignore`",
            source.unwrap_or_default(),
            self.advice
        );
        match unfollowed {
            Some(UnplacedFollower {
                leader,
                reason: UnplacedFollowerReason::NotPropagated { policy, setting },
            }) => {
                format!("{leader} refers to it: set `{setting}` in {policy}, {advice}")
            }
            _ => advice,
        }
    }
}

/// Names the policy with an error in findings about templates for which it then does not exist.
pub fn blame_errors(found: &mut [Finding]) {
    let refused = found.iter().filter(|finding| finding.code == "invalid-policy");
    let refused: BTreeSet<ObjectRef> = refused.filter_map(|finding| finding.object.clone()).collect();
    for finding in found.iter_mut().filter(|finding| finding.code == "unschedulable") {
        let named = refused.iter().find(|id| finding.message.ends_with(&format!("there is no {id}")));
        if let Some(id) = named {
            finding.message = finding.message.replace(
                &format!("there is no {id}"),
                &format!("{id} has an error and takes part in no decision"),
            );
            finding.help = Some("correct the policy".to_owned());
        }
    }
}

impl PlacementSelectors<'_> {
    /// The reason for a template whose namespace is selected but is not an object of the repo.
    fn without_namespace(&self, template: &Object) -> Option<UnplacedReason> {
        let namespace = template.id.namespace.as_ref()?;
        let names_it = |selector: &TemplateSelector| {
            selector.with_content && selector.name.as_ref().is_some_and(|n| n.name == *namespace)
        };
        let PlacementSelector { policy, .. } = self.selectors.iter().find(|one| names_it(&one.selector))?;
        let is_namespace = |object: &Object| object.id.kind == "Namespace" && object.id.name == *namespace;
        if self.engine.repo.templates.iter().any(|template| is_namespace(&template.object)) {
            return None;
        }
        let why = format!(
            "{} ({}) selects the namespace `{namespace}`, but the repo has no Namespace `{namespace}`",
            policy.id, policy.origin
        );
        Some(UnplacedReason::by_policy(why, format!("add the Namespace `{namespace}` to the repo")))
    }
}

/// Compares a template with a selector. At most one field may differ, and only by what looks like a typo.
fn compare_selector(one: &PlacementSelector<'_>, template: &Object, labels: &Labels) -> SelectorMatch {
    work::charge_steps(STEPS_PER_COMPARISON);
    let selector = &one.selector;
    if selector.with_content && template.id.namespace.is_some() {
        return match_namespace(selector, template);
    }
    let id = &template.id;
    let version = match (&selector.api_version, &selector.group) {
        (Some(version), _) if !selector.any_version => Some((version, id.api_version.as_str())),
        (_, Some(group)) => Some((group, id.group())),
        (_, None) => None,
    };
    let namespace = id.namespace.as_deref().unwrap_or_default();
    let fields = [
        ("kind", Some((&selector.kind, id.kind.as_str()))),
        ("API version", version),
        ("namespace", selector.namespace.as_ref().map(|name| (name, namespace))),
        ("name", selector.name.as_ref().map(|name| (name, id.name.as_str()))),
    ];
    let mut near = None;
    for (what, compared) in fields {
        let Some((wanted, has)) = compared.filter(|(wanted, has)| wanted.name != *has) else { continue };
        if near.is_some() || !is_typo(what, &wanted.name, has, selector.name.as_ref()) {
            return SelectorMatch::Differs;
        }
        near = Some(SelectorMatch::Nearly { what, wanted: wanted.name.clone(), has: has.to_owned() });
    }
    match (differing_label(&one.labels, labels), near) {
        (Label::Equal, None) => SelectorMatch::Selects,
        (Label::Equal, Some(near)) => near,
        (Label::Typo(wanted, has), None) => SelectorMatch::Nearly { what: "label", wanted, has },
        _ => SelectorMatch::Differs,
    }
}

/// Whether a difference may be a mistake. An object with the selected name is meant, in whatever namespace it is.
fn is_typo(what: &str, wanted: &str, has: &str, name: Option<&LocatedName>) -> bool {
    match what {
        "API version" => true,
        // `FederatedDeployment` is no typo of `Deployment`.
        "kind" => find_nearest(wanted, &[has]).is_some(),
        "namespace" => !has.is_empty() && (name.is_some() || find_similar(wanted, &[has]).is_some()),
        _ => find_similar(wanted, &[has]).is_some(),
    }
}

/// Compares a template with a selector of whole namespaces.
fn match_namespace(selector: &TemplateSelector, template: &Object) -> SelectorMatch {
    let (Some(name), Some(namespace)) = (&selector.name, &template.id.namespace) else {
        return SelectorMatch::Differs;
    };
    if name.name == *namespace {
        return SelectorMatch::Selects;
    }
    match find_similar(&name.name, &[namespace]) {
        Some(_) => {
            SelectorMatch::Nearly { what: "namespace", wanted: name.name.clone(), has: namespace.clone() }
        }
        None => SelectorMatch::Differs,
    }
}

/// How the labels of an object differ from those that a selector wants.
enum Label {
    Equal,
    /// One label has a nearby key, or another value.
    Typo(String, String),
    Differ,
}

fn differing_label(wanted: &Result<Option<LabelSelector>, serde_json::Error>, labels: &Labels) -> Label {
    let wanted = match wanted {
        Ok(Some(wanted)) => wanted,
        Ok(None) => return Label::Equal,
        Err(_) => return Label::Differ,
    };
    if wanted.matches(labels) {
        return Label::Equal;
    }
    let missing: Vec<(&String, &String)> =
        wanted.match_labels.iter().filter(|(key, value)| labels.get(*key) != Some(value)).collect();
    let ([(key, value)], true) =
        (missing.as_slice(), wanted.match_expressions.iter().all(|r| r.matches(labels)))
    else {
        return Label::Differ;
    };
    let keys: Vec<&str> = labels.keys().map(String::as_str).collect();
    let key_there = if labels.contains_key(*key) { Some(key.as_str()) } else { find_similar(key, &keys) };
    let there = key_there.and_then(|key| Some((key, labels.get(key)?)));
    match there {
        Some((there, has)) if there != key.as_str() || find_similar(value, &[has]).is_some() => {
            Label::Typo(format!("{key}: {value}"), format!("{there}: {has}"))
        }
        _ => Label::Differ,
    }
}

/// A policy with its file and line.
fn with_origin(policy: &Object) -> String {
    format!("{} ({})", policy.id, policy.origin)
}
