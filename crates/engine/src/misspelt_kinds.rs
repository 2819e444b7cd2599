//! Kinds and API groups that are nearly one of Kubernetes, of a control plane, or of a CRD of the repo.

use std::collections::BTreeSet;

use federate_apiserver_model::served_versions::{NEWEST, preferred_version};
use federate_kubernetes::kinds;
use federate_kubernetes::schema::{find_nearest, find_similar};
use federate_kubernetes::{Finding, Object};
use federate_repo::{Repo, Role};

use super::Engine;
use super::lookalike::find_lookalike;

/// The groups and kinds of the repo's CRDs.
pub struct DefinedKinds(BTreeSet<(String, String)>);

impl DefinedKinds {
    /// Reads the names of the CRDs among the templates.
    pub fn new(repo: &Repo) -> Self {
        let definitions = repo.templates.iter().map(|template| &template.object);
        let definitions = definitions.filter(|object| object.id.kind == "CustomResourceDefinition");
        let kinds = definitions.map(|definition| {
            let group = definition.text_at(&["spec", "group"]).to_owned();
            (group, definition.text_at(&["spec", "names", "kind"]).to_owned())
        });
        Self(kinds.collect())
    }

    /// Whether a CRD of the repo defines the kind of an object.
    pub fn contains(&self, object: &Object) -> bool {
        self.0.contains(&(object.id.group().to_owned(), object.id.kind.clone()))
    }
}

/// The finding about a template with a kind or an API group that is nearly one of Kubernetes.
pub fn find_misspelt(defined: &DefinedKinds, object: &Object) -> Option<Finding> {
    let (group, kind) = (object.id.group(), object.id.kind.as_str());
    let own = kinds::api_groups().find(|known| known.group == group);
    if own.is_some_and(|own| own.find_scope(kind).is_some()) {
        return None;
    }
    let elsewhere = preferred_version(kind, NEWEST);
    let shown =
        if group.is_empty() { "the core API group".to_owned() } else { format!("the API group `{group}`") };
    match (own, elsewhere) {
        (Some(_), Some(right)) => {
            let message = format!("{shown} has no kind `{kind}`");
            Some(misspelt_version("unknown-kind", object, message, &right))
        }
        (Some(own), None) => {
            let of_group: Vec<&str> = own.kind_names().collect();
            let near = find_similar(kind, &of_group)?;
            let message = format!("{shown} has no kind `{kind}`");
            Some(
                Finding::warning("unknown-kind", object, message)
                    .with_pointer("/kind")
                    .with_help(format!("did you mean `{near}`?")),
            )
        }
        (None, Some(right)) => {
            let groups: Vec<&str> =
                kinds::api_groups().map(|known| known.group).filter(|g| !g.is_empty()).collect();
            // The groups of custom resources have a domain.
            let near = find_nearest(group, &groups).is_some() || !group.contains('.');
            let message = format!("Kubernetes has no API group `{group}`");
            near.then(|| misspelt_version("unknown-group", object, message, &right))
        }
        (None, None) => report_crd(defined, object).or_else(|| report_other_group(defined, object)),
    }
}

fn misspelt_version(code: &'static str, object: &Object, message: String, right: &str) -> Finding {
    let finding = Finding::warning(code, object, message).with_pointer("/apiVersion");
    finding.with_help(format!("did you mean `{right}`?"))
}

/// The finding about a kind that is nearly that of a CRD in the same group.
fn report_crd(defined: &DefinedKinds, object: &Object) -> Option<Finding> {
    let of_group = defined.0.iter().filter(|(group, _)| group == object.id.group());
    let known: Vec<&str> = of_group.map(|(_, kind)| kind.as_str()).collect();
    let near = find_similar(&object.id.kind, &known)?;
    let message =
        format!("no CRD of the repo defines the kind `{}` of `{}`", object.id.kind, object.id.group());
    Some(
        Finding::warning("unknown-kind", object, message)
            .with_pointer("/kind")
            .with_help(format!("did you mean `{near}`?")),
    )
}

/// The finding about a group that is nearly the one in which a CRD defines the kind.
fn report_other_group(defined: &DefinedKinds, object: &Object) -> Option<Finding> {
    let of_kind = defined.0.iter().filter(|(_, kind)| *kind == object.id.kind);
    let groups: Vec<&str> = of_kind.map(|(group, _)| group.as_str()).collect();
    let near = find_nearest(object.id.group(), &groups)?;
    let message =
        format!("no CRD of the repo defines {} in the API group `{}`", object.id.kind, object.id.group());
    Some(
        Finding::warning("unknown-group", object, message)
            .with_pointer("/apiVersion")
            .with_help(format!("did you mean the group `{near}`?")),
    )
}

impl Engine<'_> {
    /// The findings about objects in a group of a control plane that does not have their kind.
    pub fn unknown_own_kinds(&self) -> Vec<Finding> {
        let own = self.repo.claimed.iter().filter(|claimed| claimed.role == Role::ControlPlane);
        let unknown = own
            .map(|claimed| &claimed.object)
            .filter(|object| self.dialects.find_scope(object.id.group(), &object.id.kind).is_none());
        let mut unknown = unknown.peekable();
        if unknown.peek().is_none() {
            return Vec::new();
        }
        let defined = DefinedKinds::new(self.repo);
        unknown.filter_map(|object| self.find_misspelt_kind(&defined, object)).collect()
    }

    /// The finding about an object whose kind or API group is nearly one of a control plane or of Kubernetes.
    pub fn find_misspelt_kind(&self, defined: &DefinedKinds, object: &Object) -> Option<Finding> {
        if defined.contains(object) {
            return None;
        }
        find_lookalike(self.dialects, object).or_else(|| find_misspelt(defined, object))
    }
}
