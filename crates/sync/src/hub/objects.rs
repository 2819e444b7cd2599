//! Reads Sync objects, and finds those that contradict each other.

use std::collections::BTreeMap;
use std::path::Path;

use federate_http_client::AddressPolicy;
use federate_sync_api::{NamespacedName, Sync, SyncMetadata};
use serde_json::Value;

use super::Tenancy;
use crate::source::SourceAddress;
use crate::source::credentials::is_loopback;
use crate::source::server::GitServer;
use crate::sync_files::{ValidSync, normalize_artifacts, validate_sync};

/// An invalid Sync object.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct InvalidSync {
    /// Its name and namespace.
    pub(crate) metadata: NamespacedName,
    /// Its generation.
    pub(crate) generation: i64,
    /// Its uid.
    pub(crate) uid: String,
    /// The error, with the field.
    pub(crate) message: String,
    /// The object, if it is being deleted.
    pub(crate) deleting: Option<Value>,
}

/// Reads an object, and checks what it asks for against what Syncs may. `None` if it has no name.
pub(crate) fn load_object(object: &Value, tenancy: &Tenancy) -> Option<Result<ValidSync, InvalidSync>> {
    let metadata: NamespacedName = NamespacedName::from_value(&object["metadata"])?;
    let SyncMetadata { generation, uid, .. } = SyncMetadata::from_value(&object["metadata"]);
    let deleting = object["metadata"]["deletionTimestamp"].is_string().then(|| object.clone());
    Some(read_sync(object, tenancy).map_err(|message| InvalidSync {
        metadata,
        generation,
        uid,
        message,
        deleting,
    }))
}

/// Reads an object of an API server, and checks what it asks for against what the operator permits.
///
/// # Errors
///
/// What is wrong, with the field.
pub fn read_sync(object: &Value, tenancy: &Tenancy) -> Result<ValidSync, String> {
    let mut object = object.clone();
    if let Some(map) = object.as_object_mut() {
        map.remove("status");
    }
    let sync = Sync::parse(object).map_err(|(pointer, message)| with_field(&pointer, &message))?;
    if let Some((pointer, message)) = validate_sync(&sync).into_iter().next() {
        return Err(with_field(pointer, &message));
    }
    tenancy.check_sync(&sync).map_err(|(pointer, message)| with_field(pointer, &message))?;
    if !is_remote(&sync.spec.source.url) {
        // The files of the pod hold data of other tenants, and plain http and git reach every service of its network.
        return Err("spec.source.url: it must be an address of https or ssh, not a path".to_owned());
    }
    let policy = tenancy.address_policy();
    if policy == AddressPolicy::NotLocal {
        let checked = GitServer::parse(&sync.spec.source.url)
            .and_then(|server| server.check_host(policy).map_err(|refusal| refusal.to_string()));
        checked.map_err(|why| with_field("/spec/source/url", &why))?;
    }
    let address = SourceAddress::from_source(&sync.spec.source, Path::new("/"))
        .map_err(|message| with_field("/spec/source/url", &message))?;
    if sync.spec.commit.as_ref().is_some_and(|commit| commit.push == Some(false)) {
        return Err("spec.commit.push: a branch that is not pushed would only be in the cache".to_owned());
    }
    Ok(ValidSync::new(sync, address))
}

/// A message with the field that it is about.
fn with_field(pointer: &str, message: &str) -> String {
    format!("{}: {message}", pointer.trim_start_matches('/').replace('/', "."))
}

/// Whether an address leads out of the pod, encrypted. Only a server of the pod itself is reached without encryption.
fn is_remote(url: &str) -> bool {
    match url.split_once("://") {
        Some(("http", _)) => is_loopback(url),
        Some((scheme, _)) => ["https", "ssh"].contains(&scheme),
        // `user@host:path`
        None => url.split_once(':').is_some_and(|(host, _)| is_host(host)) && !url.contains("::"),
    }
}

/// Whether a text is a host, with or without a user. With one slash after it, the name of a protocol would be a host, and with
/// two colons git would run a program for the transport of that name.
fn is_host(text: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-@".contains(c);
    !text.is_empty() && text.chars().all(is_plain) && !["http", "https", "ssh", "git", "file"].contains(&text)
}

/// Syncs that contradict an older one: each would undo what the other does.
#[derive(Debug, Default)]
pub(crate) struct ClashingSyncs {
    /// Those that are not run.
    pub(crate) invalid: Vec<InvalidSync>,
    /// Those that are being deleted. Their objects belong to the older Sync.
    pub(crate) deleting: Vec<ValidSync>,
}

/// Removes the Syncs that name the same `ApplySet`, folder of a branch, or tag of artifacts as an older one. What one that is being
/// deleted has committed or pushed does not matter any more.
pub(crate) fn remove_clashing(syncs: &mut Vec<ValidSync>) -> ClashingSyncs {
    syncs.sort_by_key(|valid_sync| {
        let created = valid_sync.object.server_metadata.created.clone();
        (created, valid_sync.object.metadata.clone())
    });
    let mut taken: BTreeMap<String, String> = BTreeMap::new();
    let mut found = ClashingSyncs::default();
    for valid_sync in std::mem::take(syncs) {
        let sync = &valid_sync.object;
        let name = sync.full_name();
        let apply_set = sync.spec.apply.as_ref().map(|_| sync.apply_set());
        let apply_set = apply_set.map(|(namespace, name)| format!("the ApplySet {namespace}/{name}"));
        let commit = sync.spec.commit.as_ref().filter(|_| !sync.is_deleting());
        let branch =
            commit.map(|c| format!("folder `{}` of branch {} of {}", c.path, c.branch, valid_sync.address));
        let push = sync.spec.push.as_ref().filter(|_| !sync.is_deleting());
        let tags = push.into_iter().flat_map(|push| {
            let url = normalize_artifacts(push);
            push.tags().into_iter().map(move |tag| format!("the tag {tag} of {url}"))
        });
        let wants: Vec<String> = apply_set.into_iter().chain(branch).chain(tags).collect();
        let clash = wants.iter().find_map(|want| Some((want, taken.get(want)?)));
        match clash {
            None => {
                taken.extend(wants.into_iter().map(|want| (want, name.clone())));
                syncs.push(valid_sync);
            }
            Some(_) if sync.is_deleting() => found.deleting.push(valid_sync),
            Some((want, other)) => {
                let message =
                    format!("{other} has {want}, too: {name} would undo what it does; name another");
                let generation = sync.server_metadata.generation;
                let metadata = sync.metadata.clone();
                let uid = sync.server_metadata.uid.clone();
                found.invalid.push(InvalidSync { metadata, generation, uid, message, deleting: None });
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn refusal(spec: &Value) -> Option<String> {
        refusal_by(&Tenancy::default(), spec)
    }

    fn refusal_by(tenancy: &Tenancy, spec: &Value) -> Option<String> {
        let mut all = json!({"source": {"url": "https://git.example.com/r.git"}, "interval": "1m", "apply": {},
            "serviceAccountName": "deployer"});
        for (key, value) in spec.as_object().unwrap() {
            all[key] = value.clone();
        }
        let object = json!({"apiVersion": "federate.dev/v1alpha1", "kind": "Sync",
            "metadata": {"name": "web", "namespace": "shop"}, "spec": all});
        load_object(&object, tenancy).unwrap().err().map(|invalid| invalid.message)
    }

    #[test]
    fn sources_are_reached_by_https_and_ssh() {
        let of = |url: &str| refusal(&json!({"source": {"url": url}}));
        for url in ["https://git.example.com/r", "ssh://git@git.example.com/r", "git@git.example.com:r"] {
            assert_eq!(of(url), None, "{url}");
        }
        let permissive = Tenancy { allows_local_addresses: true, ..Tenancy::default() };
        for url in ["http://127.0.0.1:8080/r", "https://localhost/r", "https://[::1]/r", "git@127.0.0.1:r"] {
            let refused = of(url).unwrap();
            assert!(refused.contains("--allow-local-addresses"), "{url}: {refused}");
            assert_eq!(refusal_by(&permissive, &json!({"source": {"url": url}})), None, "{url}");
        }
        for url in [
            "http://git.example.com/r",
            "http://169.254.169.254/latest",
            "http://127.0.0.1.example.com/r",
            "http://10.0.0.1:80/r",
            "http://127.0.0.1:80@git.example.com/r",
            "git://git.example.com/r",
            "file:///etc",
            "/etc",
            "ftp://a/b",
            "ext::sh",
            "HTTP://a/b",
            "https://169.254.169.254/r",
            "https://2130706433/r",
            "https://git.example.com\\@127.0.0.1/r",
            // A mistake, which would be the path `/git.example.com/r` on the host `https`.
            "https:/git.example.com/r",
            "git.example.com:r::s",
            "{a}:r",
        ] {
            assert!(of(url).is_some(), "{url}");
        }
    }

    #[test]
    fn names_are_names_wherever_they_are() {
        assert_eq!(refusal(&json!({})), None);
        let elsewhere = "../../victim/secrets/git";
        let source = |field: &str, name: &str| json!({"source": {"url": "https://git.example.com/r.git", field: {"name": name}}});
        let verify = json!({"mode": "HEAD", "secretRef": {"name": elsewhere}});
        for spec in [
            source("secretRef", elsewhere),
            source("secretRef", ".."),
            source("secretRef", ""),
            source("secretRef", "git?watch=1"),
            source("secretRef", "%2e%2e"),
            source("proxySecretRef", elsewhere),
            json!({"source": {"url": "https://git.example.com/r.git", "verify": verify}}),
            json!({"kubeConfig": {"secretRef": {"name": elsewhere}}}),
            json!({"serviceAccountName": "default:x"}),
            json!({"dependsOn": [{"name": elsewhere}]}),
            json!({"dependsOn": [{"name": "a", "namespace": ".."}]}),
            json!({"notifications": [{"type": "generic", "secretRef": {"name": elsewhere}}]}),
        ] {
            let refused = refusal(&spec).unwrap_or_default();
            assert!(refused.contains("is not a name"), "{spec}: {refused}");
        }
        let key = json!({"kubeConfig": {"secretRef": {"name": "a", "key": "../b"}}});
        assert!(refusal(&key).unwrap_or_default().contains("is not a key of a Secret"));
        assert!(refusal(&json!({"apply": {"applySet": "a/../b"}})).is_some());
    }
}
