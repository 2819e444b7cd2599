//! References between templates that nearly name an object of the repo: a `ConfigMap`, a Service, the target of an
//! autoscaler.
//!
//! What a template refers to can be created by other means, so only a likely typo is reported. The target of an
//! autoscaler is always in the repo.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use federate_kubernetes::schema::{Cursor, find_nearest, find_similar};
use federate_kubernetes::{Finding, Object, ObjectRef, work};
use federate_repo::Repo;

use super::suggestions::list_available;
use federate_engine::TemplateIndex;
use federate_engine::work_limit::map_charged;

/// References in the spec of pods: the path of the name, and the kind. `*` stands for the items of a list.
const POD_REFERENCES: [(&str, &str); 14] = [
    ("containers/*/env/*/valueFrom/configMapKeyRef", "ConfigMap"),
    ("containers/*/env/*/valueFrom/secretKeyRef", "Secret"),
    ("containers/*/envFrom/*/configMapRef", "ConfigMap"),
    ("containers/*/envFrom/*/secretRef", "Secret"),
    ("initContainers/*/env/*/valueFrom/configMapKeyRef", "ConfigMap"),
    ("initContainers/*/env/*/valueFrom/secretKeyRef", "Secret"),
    ("initContainers/*/envFrom/*/configMapRef", "ConfigMap"),
    ("initContainers/*/envFrom/*/secretRef", "Secret"),
    ("volumes/*/configMap", "ConfigMap"),
    ("volumes/*/secret|secretName", "Secret"),
    ("volumes/*/persistentVolumeClaim|claimName", "PersistentVolumeClaim"),
    ("volumes/*/projected/sources/*/configMap", "ConfigMap"),
    ("volumes/*/projected/sources/*/secret", "Secret"),
    ("imagePullSecrets/*", "Secret"),
];

/// References of other kinds.
const OTHER_REFERENCES: [(&str, &str, &str); 6] = [
    ("Ingress", "spec/rules/*/http/paths/*/backend/service", "Service"),
    ("Ingress", "spec/defaultBackend/service", "Service"),
    ("Ingress", "spec/tls/*|secretName", "Secret"),
    ("StatefulSet", "spec|serviceName", "Service"),
    ("RoleBinding", "roleRef", ""),
    ("ClusterRoleBinding", "roleRef", ""),
];

/// The paths of the specs of pods.
const POD_SPECS: [&str; 3] = ["spec", "spec/template/spec", "spec/jobTemplate/spec/template/spec"];

/// The findings.
pub(super) fn find_missing(repo: &Repo, index: &TemplateIndex<'_>) -> Vec<Finding> {
    let mut names = Names::default();
    let templates = repo.templates.iter().map(|template| &template.object.id);
    let carried = index.carried().iter().map(|template| &template.object);
    for id in templates.chain(repo.claimed.iter().map(|claimed| &claimed.object.id)).chain(carried) {
        names.entry((&id.kind, id.namespace.as_deref())).or_default().insert(&id.name);
    }
    let found = map_charged(&repo.templates, |template| -> Vec<Finding> {
        let references = object_references(&template.object).into_iter();
        references.filter_map(|one| one.into_finding(&template.object, &names)).collect()
    });
    found.into_iter().flatten().collect()
}

/// The finding about a Job that its cluster deletes when it has finished, so that the next apply creates it again. `body`
/// is a manifest: some control planes leave the field out.
pub(super) fn runs_again(
    repo: &Repo,
    index: &TemplateIndex<'_>,
    object: &ObjectRef,
    body: &Value,
) -> Option<Finding> {
    const FIELD: &str = "/spec/ttlSecondsAfterFinished";
    if object.kind != "Job" || object.group() != "batch" {
        return None;
    }
    let seconds = body.pointer(FIELD).filter(|value| !value.is_null())?;
    let template = repo.find_template(object).map(|template| (&template.object, FIELD.to_owned()));
    let (source, pointer) = template.or_else(|| {
        let template = index.find_carried(object)?;
        Some((template.carrier, format!("{}{FIELD}", template.pointer)))
    })?;
    let message = format!(
        "the cluster deletes {object} {seconds} seconds after it has finished, and the next apply runs it again"
    );
    let help =
        "remove `ttlSecondsAfterFinished`, or use a CronJob for a task that is meant to run more than once";
    Some(Finding::warning("job-runs-again", source, message).with_pointer(&pointer).with_help(help))
}

/// The names of objects, by kind and namespace.
type Names<'r> = BTreeMap<(&'r str, Option<&'r str>), BTreeSet<&'r str>>;

/// Among more names, no similar one is searched.
const MAX_SEARCHED: usize = 1000;

/// A reference to an object in the same namespace.
struct Reference {
    kind: String,
    name: String,
    pointer: String,
    /// What follows if the object does not exist; `None` where it may be created by other means.
    consequence: Option<&'static str>,
}

impl Reference {
    fn into_finding(self, object: &Object, names: &Names<'_>) -> Option<Finding> {
        let Self { kind, name, pointer, consequence } = self;
        let cluster = kind.starts_with("Cluster");
        let namespace = object.id.namespace.as_deref().filter(|_| !cluster);
        let known = names.get(&(kind.as_str(), namespace));
        if name.is_empty() || known.is_some_and(|known| known.contains(name.as_str())) {
            return None;
        }
        let known = known.filter(|known| known.len() <= MAX_SEARCHED);
        let known: Vec<&str> = known.into_iter().flatten().copied().collect();
        let near = find_similar(&name, &known);
        work::charge_steps(names.len() as u64);
        if work::is_exceeded() {
            return None;
        }
        // The kind itself can be mistyped.
        let named = names.iter().filter(|((_, of), all)| *of == namespace && all.contains(name.as_str()));
        let kinds: Vec<&str> = named.map(|((kind, _), _)| *kind).collect();
        let other = find_nearest(&kind, &kinds).filter(|_| consequence.is_some());
        let (what, help) = match (consequence, near) {
            _ if other.is_some() => {
                (consequence, format!("did you mean the kind `{}`?", other.unwrap_or_default()))
            }
            (_, Some(near)) => (consequence, format!("did you mean `{near}`?")),
            (Some(_), None) if known.is_empty() => (consequence, format!("add the {kind} to the repo")),
            (Some(_), None) => (consequence, list_available(&known, &kind)),
            (None, None) => return None,
        };
        let place =
            namespace.map_or_else(String::new, |namespace| format!(" in the namespace `{namespace}`"));
        let what = what.map_or_else(String::new, |what| format!(": {what}"));
        let message = format!("the repo has no {kind} `{name}`{place}{what}");
        Some(Finding::warning("unknown-reference", object, message).with_pointer(pointer).with_help(help))
    }
}

fn object_references(object: &Object) -> Vec<Reference> {
    let mut all = Vec::new();
    let body = Cursor::new(&object.body);
    let kind = object.id.kind.as_str();
    let workload = matches!(object.id.group(), "" | "apps" | "batch");
    for spec in POD_SPECS
        .iter()
        .flat_map(|path| find_places(&body, path))
        .filter(|spec| workload && spec.field("containers").is_present())
    {
        for (path, kind) in POD_REFERENCES {
            all.extend(named_references(&spec, path, kind));
        }
        let account = spec.field("serviceAccountName");
        all.extend(read_reference(&account, "ServiceAccount").filter(|account| account.name != "default"));
    }
    for (_, path, target) in OTHER_REFERENCES.into_iter().filter(|(of, ..)| *of == kind) {
        match target {
            "" => all.extend(
                find_places(&body, path)
                    .iter()
                    .filter_map(|role| read_reference(&role.field("name"), role.field("kind").as_text())),
            ),
            target => all.extend(named_references(&body, path, target)),
        }
    }
    if matches!(kind, "HorizontalPodAutoscaler" | "FederatedHPA" | "CronFederatedHPA") {
        let target = body.field("spec").field("scaleTargetRef");
        let scaled = read_reference(&target.field("name"), target.field("kind").as_text());
        let consequence = Some("the autoscaler scales nothing");
        all.extend(scaled.map(|reference| Reference { consequence, ..reference }));
    }
    all
}

/// The references at a path: of the field `name`, or of the one after `|`.
fn named_references(from: &Cursor<'_>, path: &str, kind: &str) -> Vec<Reference> {
    let (path, field) = path.split_once('|').unwrap_or((path, "name"));
    let required = find_places(from, path).into_iter().filter(|place| !place.field("optional").is_true());
    required.filter_map(|place| read_reference(&place.field(field), kind)).collect()
}

fn read_reference(name: &Cursor<'_>, kind: &str) -> Option<Reference> {
    let (kind, pointer) = (kind.to_owned(), name.pointer().to_owned());
    let name = name.value().as_str()?.to_owned();
    Some(Reference { kind, name, pointer, consequence: None })
}

/// The places that a path leads to.
fn find_places<'v>(from: &Cursor<'v>, path: &str) -> Vec<Cursor<'v>> {
    path.split('/').fold(vec![from.clone()], |places, key| {
        let below = places.iter().flat_map(|place| match key {
            "*" => place.items().collect(),
            key => vec![place.field(key)],
        });
        below.filter(|place| *place.value() != Value::Null).collect()
    })
}
