//! Kinds as users name them: plural, singular, short name or kind, with or without version and group.
//!
//! Facts: how `kubectl` takes names: letter case does not count; of several groups the core group comes
//! first, then the one that the server lists first; a group may be cut short. Built-in kinds are known
//! here; other names are looked up in the API discovery of all groups.

use std::collections::BTreeSet;

use serde_json::Value;

use super::Error;
use super::client::{Client, not_json};
use super::kinds::{find_definition, untyped_kind};
use super::lists::ListBudget;
use super::path::ApiPath;
use super::request::RepeatableRequest;
use super::runtime::join_result;
use federate_apiserver_model::ResourceKind;

/// The kinds of some names, in their order.
pub(super) async fn resolve_kinds(client: &Client, names: &[&str]) -> Result<Vec<ResourceKind>, Error> {
    let builtin: Vec<ResourceKind> = ResourceKind::all_builtins().cloned().collect();
    let mut served: Option<(Vec<ResourceKind>, Vec<String>)> = None;
    let mut found = Vec::new();
    for name in names {
        if let Some(kind) = find_kind(name, &builtin) {
            found.push(kind.clone());
            continue;
        }
        if served.is_none() {
            served = Some(list_served_kinds(client).await?);
        }
        let Some((served, silent)) = &served else { continue };
        let Some(kind) = find_kind(name, served) else {
            let silent = match silent.as_slice() {
                [] => String::new(),
                silent => format!(" (no answer about {})", silent.join(", ")),
            };
            return Err(Error::Access(format!("the cluster does not serve a kind `{name}`{silent}")));
        };
        let customs = find_definition(client, kind)
            .await?
            .map(|d| ResourceKind::from_definition(&d))
            .unwrap_or_default();
        let custom = customs.into_iter().find(|k| k.kind == kind.kind && k.version == kind.version);
        found.push(custom.unwrap_or_else(|| kind.clone()));
    }
    Ok(found)
}

/// The first kind that a name fits.
fn find_kind<'k>(name: &str, kinds: &'k [ResourceKind]) -> Option<&'k ResourceKind> {
    let name = name.to_lowercase();
    let (resource, rest) = name.split_once('.').unwrap_or((&name, ""));
    let mut named = kinds.iter().filter(|kind| {
        kind.plural == resource
            || kind.singular == resource
            || kind.kind.to_lowercase() == resource
            || kind.short.iter().any(|short| short == resource)
    });
    if rest.is_empty() {
        return named.next();
    }
    let (version, group) = rest.split_once('.').unwrap_or((rest, ""));
    let named: Vec<&ResourceKind> = named.collect();
    let in_group = named.iter().find(|kind| kind.group == rest);
    let in_version = named.iter().find(|kind| kind.version == version && kind.group == group);
    let in_group_prefix = named.iter().find(|kind| kind.group.starts_with(rest));
    in_group.or(in_version).or(in_group_prefix).copied()
}

/// All kinds that can be read, and the groups without an answer: the API server of a group may be down.
async fn list_served_kinds(client: &Client) -> Result<(Vec<ResourceKind>, Vec<String>), Error> {
    // A name means the preferred version of its group, or else the next version that has the kind.
    let (mut kinds, mut silent) = (Vec::new(), Vec::new());
    for (version, list) in request_versions(client).await? {
        match list {
            Ok(list) => kinds.extend(parse_kinds(&version, &list, &["get"])),
            Err(_) => silent.push(version),
        }
    }
    Ok((kinds, silent))
}

/// The kinds whose objects can be applied and listed, each in one version, and the API versions without an answer.
pub(super) async fn list_appliable_kinds(client: &Client) -> Result<(Vec<ResourceKind>, Vec<String>), Error> {
    let (mut kinds, mut silent) = (Vec::new(), Vec::new());
    let mut known = BTreeSet::new();
    for (version, list) in request_versions(client).await? {
        match list {
            Ok(list) => {
                let served = parse_kinds(&version, &list, &["list", "patch"]).into_iter();
                kinds.extend(served.filter(|kind| known.insert((kind.group.clone(), kind.kind.clone()))));
            }
            Err(_) => silent.push(version),
        }
    }
    Ok((kinds, silent))
}

/// What a server says about each API version, or why it says nothing. All answers together are as large as lists may be.
pub(super) async fn request_versions(client: &Client) -> Result<Vec<(String, Result<Value, Error>)>, Error> {
    let versions = list_versions(client, true).await?;
    let budget = ListBudget::for_cluster();
    let ask = |version: &String| {
        let (client, budget) = (client.clone(), budget.clone());
        let call = RepeatableRequest::get(ApiPath::from_version(version));
        tokio::spawn(async move { request_version(&client, &call, &budget).await })
    };
    let under_way: Vec<_> = versions.iter().map(ask).collect();
    let mut all = Vec::with_capacity(versions.len());
    for (version, task) in versions.into_iter().zip(under_way) {
        all.push((version, join_result(task.await)??));
    }
    Ok(all)
}

/// The outer error is that of an exceeded budget.
async fn request_version(
    client: &Client,
    call: &RepeatableRequest,
    budget: &ListBudget,
) -> Result<Result<Value, Error>, Error> {
    let answer = match client.request_bytes(call).await {
        Ok(answer) => answer,
        Err(Error::Refused(refusal)) if refusal.is_absent() => return Ok(Ok(Value::Null)),
        Err(error) => return Ok(Err(error)),
    };
    budget.take_bytes(answer.len())?;
    Ok(serde_json::from_slice(&answer).map_err(|_| not_json()))
}

/// The most API versions of a cluster that are asked about; those of large clusters have some hundreds.
const MAX_VERSIONS: usize = 2000;

/// The API versions of all groups, the preferred one of each group first; without `every`, only the preferred ones.
pub(super) async fn list_versions(client: &Client, every: bool) -> Result<Vec<String>, Error> {
    let groups =
        client.request_optional(&RepeatableRequest::get(ApiPath::new(["apis"]))).await?.unwrap_or_default();
    parse_versions(&groups, every)
}

fn parse_versions(groups: &Value, every: bool) -> Result<Vec<String>, Error> {
    let mut versions = vec!["v1".to_owned()];
    let mut known: BTreeSet<String> = versions.iter().cloned().collect();
    for group in groups["groups"].as_array().into_iter().flatten() {
        let preferred = group["preferredVersion"]["groupVersion"].as_str();
        let others = group["versions"].as_array().into_iter().flatten().filter(|_| every);
        let others = others.filter_map(|version| version["groupVersion"].as_str());
        for version in preferred.into_iter().chain(others) {
            if known.insert(version.to_owned()) {
                versions.push(version.to_owned());
            }
            if versions.len() > MAX_VERSIONS {
                return Err(Error::Unreachable(format!(
                    "it serves more than {MAX_VERSIONS} versions of API groups, the limit"
                )));
            }
        }
    }
    Ok(versions)
}

/// The kinds of a version that have these verbs.
fn parse_kinds(api_version: &str, list: &Value, verbs: &[&str]) -> Vec<ResourceKind> {
    let resources = list["resources"].as_array().into_iter().flatten();
    let wanted = resources.filter(|resource| {
        let served = resource["verbs"].as_array().map(Vec::as_slice).unwrap_or_default();
        !resource["name"].as_str().unwrap_or_default().contains('/')
            && verbs.iter().all(|verb| served.iter().any(|served| served == verb))
    });
    wanted
        .filter_map(|resource| {
            let name = resource["kind"].as_str()?;
            let short = resource["shortNames"].as_array().into_iter().flatten();
            let short = short.filter_map(|short| short.as_str().map(str::to_lowercase)).collect();
            Some(match ResourceKind::find_builtin(api_version, name).cloned() {
                Some(builtin) => ResourceKind { short, ..builtin },
                None => ResourceKind { short, ..untyped_kind(api_version, name, resource) },
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn versions_are_few() {
        let group = |name: &str| {
            let version =
                |version: &str| json!({"groupVersion": format!("{name}/{version}"), "version": version});
            json!({"name": name, "versions": [version("v2"), version("v1")], "preferredVersion": version("v1")})
        };
        let of = |count: usize, every| {
            let groups: Vec<Value> = (0..count).map(|number| group(&format!("g{number}"))).collect();
            parse_versions(&json!({"groups": groups}), every)
        };
        assert_eq!(of(2, true).unwrap(), ["v1", "g0/v1", "g0/v2", "g1/v1", "g1/v2"]);
        assert_eq!(of(2, false).unwrap(), ["v1", "g0/v1", "g1/v1"]);
        let error = of(20_000, false).unwrap_err().to_string();
        assert!(error.contains("more than 2000 versions of API groups"), "{error}");
    }

    #[test]
    fn names_are_taken_as_kubectl_takes_them() {
        let kinds: Vec<ResourceKind> = ResourceKind::all_builtins().cloned().collect();
        let of = |name: &str| find_kind(name, &kinds).map(ResourceKind::resource_name).unwrap_or_default();
        for name in [
            "deploy",
            "Deployment",
            "deployments",
            "deployments.apps",
            "deployment.v1.apps",
            "DEPLOY.apps",
            "deploy.ap",
        ] {
            assert_eq!(of(name), "deployments.apps", "{name}");
        }
        assert_eq!(of("svc"), "services");
        assert_eq!(of("ev"), "events");
        assert_eq!(of("pods.v1."), "pods");
        assert_eq!(of("deployments.extensions"), "");
        assert_eq!(of("rollout"), "");
    }

    #[test]
    fn kinds_of_the_cluster_have_its_names() {
        let resource = |name: &str, kind: &str, verbs: Value| json!({"name": name, "singularName": "", "kind": kind, "namespaced": true, "shortNames": ["RO"], "verbs": verbs});
        let list = json!({"resources": [
            resource("rollouts", "Rollout", json!(["get", "list"])),
            resource("rollouts/status", "Rollout", json!(["get"])),
            resource("reviews", "Review", json!(["create"])),
        ]});
        let kinds = parse_kinds("argoproj.io/v1alpha1", &list, &["get", "list"]);
        assert_eq!(kinds.len(), 1);
        assert_eq!(
            find_kind("ro", &kinds).map(ResourceKind::resource_name).as_deref(),
            Some("rollouts.argoproj.io")
        );
        assert!(find_kind("rollout.v1alpha1.argoproj.io", &kinds).is_some_and(|kind| kind.namespaced));
    }
}
