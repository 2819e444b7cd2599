//! Overrides that make objects that an API server refuses, and paths and containers that do not exist.

use std::borrow::Cow;
use std::collections::HashSet;

use serde_json::Value;

use federate_apiserver_model::lint::{Problem, is_plain, near_metadata_path, near_path};
use federate_dialect::{ClusterNames, ObjectReferences, OverrideChange, RenderedManifest};
use federate_kubernetes::{Finding, Object, ObjectRef, work};
use federate_repo::Repo;

use super::releases::ClusterReleases;
use super::suggestions::{Suggestions, distinct_names};
use super::templates::{RepoKinds, build_finding, schema_name};
use federate_engine::TemplateIndex;

/// Problems of a manifest that its template does not have, at the override that causes each.
pub(super) fn find_broken(
    repo: &Repo,
    kinds: &RepoKinds,
    index: &TemplateIndex<'_>,
    object: &ObjectRef,
    rendered: &RenderedManifest,
) -> Vec<Finding> {
    if rendered.changes.iter().all(|change| change.paths.is_empty()) {
        return Vec::new();
    }
    let mut found = find_renamed(repo, &rendered.changes, object);
    let template = repo.find_template(object).map(|template| Cow::Borrowed(&template.object.body));
    let template = template.or_else(|| Some(Cow::Owned(index.find_carried(object)?.to_manifest()?)));
    let template = template.unwrap_or_default();
    let mut paths = rendered.changes.iter().flat_map(|change| &change.paths);
    let Some(kind) = kinds.get(&rendered.body) else { return found };
    if paths.all(|path| is_plain(kind, path, &template, &rendered.body)) {
        return found;
    }
    let now = kinds.find_problems(&rendered.body, "");
    if now.is_empty() {
        return found;
    }
    let before: HashSet<String> =
        kinds.find_problems(&template, "").into_iter().map(|problem| problem.pointer).collect();
    let new = now.into_iter().filter(|new| !before.contains(&new.pointer));
    let by = schema_name(object);
    found.extend(new.filter_map(|problem| attribute_problem(repo, &rendered.changes, problem, object, &by)));
    found
}

/// Fields and values of an overridden manifest that the clusters that receive it do not serve. Those of templates are
/// reported with the templates.
pub(super) fn find_unserved(
    repo: &Repo,
    kinds: &RepoKinds,
    releases: &ClusterReleases<'_>,
    object: &ObjectRef,
    clusters: &ClusterNames,
    rendered: &RenderedManifest,
) -> Vec<Finding> {
    if rendered.changes.is_empty() {
        return Vec::new();
    }
    let now = releases
        .find_problems(kinds, &rendered.body, || releases.group_clusters(clusters.iter().map(AsRef::as_ref)));
    let template = repo.find_template(object).map(|template| &template.object.body);
    let new = now
        .into_iter()
        .filter(|(problem, _)| template.is_none_or(|body| body.pointer(&problem.pointer).is_none()));
    new.filter_map(|(problem, by)| attribute_problem(repo, &rendered.changes, problem, object, &by)).collect()
}

/// The fields that identify an object.
const IDENTITY_FIELDS: [&str; 4] = ["/apiVersion", "/kind", "/metadata/name", "/metadata/namespace"];

/// The findings about overrides that turn an object into another one.
fn find_renamed(repo: &Repo, changes: &[OverrideChange], object: &ObjectRef) -> Vec<Finding> {
    changes
        .iter()
        .filter_map(|change| {
            let field =
                IDENTITY_FIELDS.into_iter().find(|field| change.paths.iter().any(|path| path == field))?;
            let claimed = repo.claimed.iter().find(|claimed| claimed.object.id == change.policy)?;
            let pointer = find_written_path(&claimed.object.body, field).unwrap_or_default();
            let message =
                format!("{} changes `{field}` of {object}, so that another object is sent", change.policy);
            let finding =
                Finding::warning("invalid-override", &claimed.object, message).with_pointer(pointer);
            Some(
                finding.with_help("write a template for the other object, and a policy that places it there"),
            )
        })
        .collect()
}

/// The finding about a problem, at the override that changed the field.
fn attribute_problem(
    repo: &Repo,
    changes: &[OverrideChange],
    problem: Problem,
    object: &ObjectRef,
    by: &str,
) -> Option<Finding> {
    work::charge_items(repo.claimed.len() + changes.iter().map(|change| change.paths.len()).sum::<usize>());
    if work::is_exceeded() {
        return None;
    }
    let change = changes.iter().rev().find(|change| {
        change.paths.iter().any(|path| is_below(&problem.pointer, path) || is_below(path, &problem.pointer))
    })?;
    let claimed = repo.claimed.iter().find(|claimed| claimed.object.id == change.policy)?;
    let pointer = find_written_path(&claimed.object.body, &problem.pointer).unwrap_or_default();
    let message = format!("{object} after {}: {}", change.policy, problem.message);
    Some(build_finding(&claimed.object, Problem { pointer, message, ..problem }, by))
}

fn is_below(pointer: &str, parent: &str) -> bool {
    pointer.strip_prefix(parent).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// The place of the longest path in an override that leads to the field.
fn find_written_path(body: &Value, field: &str) -> Option<String> {
    let mut best: Option<(usize, String)> = None;
    visit_texts(body, &mut String::new(), &mut |text, pointer| {
        let leads = text.starts_with('/') && is_below(field, text);
        if leads && best.as_ref().is_none_or(|(length, _)| text.len() > *length) {
            best = Some((text.len(), pointer.to_owned()));
        }
    });
    best.map(|(_, pointer)| pointer)
}

fn visit_texts(value: &Value, pointer: &mut String, see: &mut dyn FnMut(&str, &str)) {
    let length = pointer.len();
    match value {
        Value::String(text) => see(text, pointer),
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                pointer.push_str(&format!("/{index}"));
                visit_texts(item, pointer, see);
                pointer.truncate(length);
            }
        }
        Value::Object(map) => {
            for (key, item) in map {
                pointer.push_str(&format!("/{}", federate_kubernetes::pointer::escape(key)));
                visit_texts(item, pointer, see);
                pointer.truncate(length);
            }
        }
        _ => {}
    }
}

/// Adds the nearest path to a finding about an override whose path does not exist.
pub(super) fn suggest_path(repo: &Repo, kinds: &RepoKinds, index: &TemplateIndex<'_>, failed: &mut Finding) {
    let (Some(origin), Some(id)) = (&failed.origin, &failed.object) else { return };
    work::charge_items(repo.claimed.len());
    if work::is_exceeded() {
        return;
    }
    let Some(claimed) = repo.claimed.iter().find(|claimed| claimed.object.origin == *origin) else { return };
    let at = claimed.object.body.pointer(&failed.pointer);
    let Some(path) = at.and_then(|at| at.as_str().or_else(|| at.get("path")?.as_str())) else { return };
    let help = if path.starts_with('/') {
        let template = repo.find_template(id).map(|template| template.object.body.clone());
        let body = template.or_else(|| index.find_carried(id)?.to_manifest());
        body.and_then(|body| near_path(kinds.get(&body)?, &body, path)).or_else(|| near_metadata_path(path))
    } else {
        Some(format!("did you mean `/{}`?", path.trim_start_matches('.').replace('.', "/")))
    };
    if let Some(help) = help {
        failed.help = Some(match failed.help.take() {
            Some(more) => format!("{help} ({more})"),
            None => help,
        });
    }
}

/// Containers that overrides name and no template has.
pub(super) fn find_unknown_containers(
    repo: &Repo,
    references: &[(&Object, ObjectReferences)],
) -> Vec<Finding> {
    let mut known = Vec::new();
    for template in &repo.templates {
        for path in ["/spec", "/spec/template/spec", "/spec/jobTemplate/spec/template/spec"] {
            for list in ["containers", "initContainers"] {
                let containers =
                    template.object.body.pointer(&format!("{path}/{list}")).and_then(Value::as_array);
                known.extend(containers.into_iter().flatten().filter_map(|one| one.get("name")?.as_str()));
            }
        }
    }
    let known = distinct_names(known.into_iter());
    let mut suggestions = Suggestions::new();
    let named =
        references.iter().flat_map(|(object, all)| all.containers.iter().map(move |name| (object, name)));
    named
        .filter(|(_, container)| known.binary_search(&container.name.as_str()).is_err())
        .map(|(object, container)| {
            let message = format!("no template of the repo has a container `{}`", container.name);
            Finding::warning("unknown-container", object, message)
                .with_pointer(&container.pointer)
                .with_help(suggestions.suggest_instead(&container.name, &known, "container"))
        })
        .collect()
}
