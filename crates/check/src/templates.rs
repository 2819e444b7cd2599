//! What API servers drop or refuse of templates, by the schemas of Kubernetes and of the repo's CRDs.

use std::collections::BTreeMap;

use serde_json::Value;

use federate_apiserver_model::ResourceKind;
use federate_apiserver_model::lint::{KUBERNETES_VERSION, Problem, ProblemEffect, find_problems};
use federate_kubernetes::kinds::find_scope;
use federate_kubernetes::object::field_text;
use federate_kubernetes::schema::check_metadata;
use federate_kubernetes::unfilled::{holds_variable, list_unfilled};
use federate_kubernetes::{Finding, Object, ObjectRef, Severity, work};
use federate_repo::Repo;

use federate_engine::TemplateIndex;
use federate_engine::work_limit::map_charged;

/// The steps of checking a value.
const STEPS_PER_VALUE: u64 = 10;

/// The findings about templates, and about those in objects of control planes.
pub(super) fn find_refused(repo: &Repo, kinds: &RepoKinds, index: &TemplateIndex<'_>) -> Vec<Finding> {
    let templates = map_charged(&repo.templates, |template| {
        let object = &template.object;
        if kinds.get(&object.body).is_none() {
            return check_metadata(object);
        }
        let problems = kinds.find_problems(&object.body, "").into_iter();
        problems.map(|problem| build_finding(object, problem, &schema_name(&object.id))).collect()
    });
    let mut found: Vec<Finding> = templates.into_iter().flatten().collect();
    let carried = map_charged(index.carried(), |template| {
        let body = template.to_manifest().unwrap_or_default();
        let problems = kinds.find_problems(&body, &template.pointer).into_iter();
        let by = schema_name(&template.object);
        problems.map(|problem| build_finding(template.carrier, problem, &by)).collect::<Vec<Finding>>()
    });
    found.extend(carried.into_iter().flatten());
    found
}

/// By whose schema an object is checked, if not by those of its clusters.
pub(super) fn schema_name(id: &ObjectRef) -> String {
    let custom = find_scope(id.group(), &id.kind).is_none();
    if custom { "its CRD".to_owned() } else { format!("Kubernetes {KUBERNETES_VERSION}") }
}

/// The finding about a problem in the text of `object`; `by` names the schema.
pub(super) fn build_finding(object: &Object, problem: Problem, by: &str) -> Finding {
    let Problem { pointer, effect, message, help } = problem;
    let (severity, code, message) = match effect {
        ProblemEffect::Dropped => {
            let end = "an API server drops it, and `kubectl apply` and server-side apply refuse the object";
            (Severity::Warning, "unknown-field", format!("{message} ({by}): {end}"))
        }
        ProblemEffect::Gated => (
            Severity::Warning,
            "feature-gate",
            format!("{message} ({by}): without it, an API server drops the field"),
        ),
        ProblemEffect::GatedValue => (
            Severity::Warning,
            "feature-gate",
            format!("{message} ({by}): without it, an API server refuses the object"),
        ),
        ProblemEffect::Ambiguous => (Severity::Warning, "duplicate-item", message),
        ProblemEffect::BadName => (Severity::Error, "invalid-name", format!("{message} ({by} refuses it)")),
        ProblemEffect::Refused => (Severity::Error, "invalid-field", format!("{message} ({by} refuses it)")),
    };
    let finding = match severity {
        Severity::Error => Finding::error(code, object, message),
        Severity::Warning => Finding::warning(code, object, message),
    };
    Finding { help, ..finding.with_pointer(pointer) }
}

/// The kinds that the repo defines, by kind and version.
pub(super) struct RepoKinds(BTreeMap<String, BTreeMap<String, ResourceKind>>);

impl RepoKinds {
    pub(super) fn new(repo: &Repo) -> Self {
        let definitions = repo.templates.iter().map(|template| &template.object);
        let definitions = definitions.filter(|object| object.id.kind == "CustomResourceDefinition");
        let mut all: BTreeMap<String, BTreeMap<String, ResourceKind>> = BTreeMap::new();
        for kind in definitions.flat_map(|object| ResourceKind::from_definition(&object.body)) {
            all.entry(kind.kind.clone()).or_default().insert(kind.api_version(), kind);
        }
        Self(all)
    }

    /// The kind of an object; `None` if its schema is not known.
    pub(super) fn get(&self, body: &Value) -> Option<&ResourceKind> {
        let (api_version, kind) = (field_text(body, "apiVersion"), field_text(body, "kind"));
        let custom = self.0.get(kind).and_then(|versions| versions.get(api_version));
        custom.or_else(|| ResourceKind::find_builtin(api_version, kind).filter(|kind| kind.is_known()))
    }

    /// The problems of an object, as pointers below `prefix`. Files that are encrypted by SOPS have none.
    pub(super) fn find_problems(&self, body: &Value, prefix: &str) -> Vec<Problem> {
        let Some(kind) = self.get(body).filter(|_| body.get("sops").is_none()) else { return Vec::new() };
        work::charge_steps(STEPS_PER_VALUE * work::count_values(body));
        if work::is_exceeded() {
            return Vec::new();
        }
        // Nothing is said about values that are not known.
        let is_unfilled = !list_unfilled(body).is_empty();
        let is_known = |problem: &Problem| {
            let value = body.pointer(&problem.pointer).filter(|_| is_unfilled);
            value.is_none_or(|value| !holds_variable(&value.to_string()))
        };
        find_problems(kind, body)
            .into_iter()
            .filter(is_known)
            .map(|problem| Problem { pointer: format!("{prefix}{}", problem.pointer), ..problem })
            .collect()
    }

    /// The kinds of an API group that the repo defines, with their versions.
    pub(super) fn find_kinds(&self, group: &str) -> Vec<(&str, &str)> {
        let own = self.0.values().flat_map(BTreeMap::values).filter(|kind| kind.group == group);
        own.map(|kind| (kind.kind.as_str(), kind.version.as_str())).collect()
    }
}
