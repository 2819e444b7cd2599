//! Reads `Sync` objects from files. All errors are reported at once, each with file, line and column.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;

use federate_kubernetes::names::is_dns_subdomain;
use federate_kubernetes::object::Origin;
use federate_kubernetes::{Finding, Severity};
use federate_publish::branch::{self, BranchLayout, FileLayout};
use federate_registry::{ArtifactAddress, is_tag};
use federate_repo::{Repo, normalize_path};
use federate_session::artifacts::plan_address;
use federate_sync_api::{
    CommitLayout, CommitSpec, DriftMode, InventorySource, MAX_TAGS, Notification, NotificationType, PushSpec,
    SourceRef, Sync, SyncSpec,
};

use crate::source::{self, SourceAddress};
use crate::uri::parse_uri;

/// The code of every finding here.
const FINDING_CODE: &str = "invalid-sync";

/// Fields that a Sync in a file does not support, and what to use instead. They are errors: to ignore them could do what
/// the user does not want.
const UNSUPPORTED_FIELDS: [(&str, &str); 11] = [
    ("/spec/source/secretRef", "git's own credentials are used: a credential helper, an SSH key or agent"),
    ("/spec/push/secretRef", "docker's own credentials are used: `docker login` stores them"),
    ("/spec/source/proxySecretRef", "git's own proxy settings are used"),
    ("/spec/notifications", "read the logs (--log-format json), or the metrics of --metrics-listen"),
    ("/spec/drift/interval", "clusters are compared at `interval`"),
    ("/spec/source/verify/secretRef", "name the keys with --allowed-signers"),
    ("/spec/serviceAccountName", "name the user to act as with --as"),
    ("/spec/withoutImpersonation", "federate acts as you, unless --as names another user"),
    ("/spec/kubeConfig", "name the kubeconfig with --kubeconfig"),
    ("/spec/hub", "name the control plane's context with --hub-context"),
    ("/spec/deletionPolicy", "objects stay when the Sync is removed from the files"),
];

/// A valid Sync.
#[derive(Clone, Debug, PartialEq)]
pub struct ValidSync {
    /// The object.
    pub object: Sync,
    /// Where its source is.
    pub address: SourceAddress,
    /// Whether this is the revision that a suspended Sync was rolled back to, and not what its source says.
    pub rolls_back: bool,
}

impl ValidSync {
    /// A Sync with its source.
    pub(crate) fn new(object: Sync, address: SourceAddress) -> Self {
        Self { object, address, rolls_back: false }
    }

    /// What a suspended Sync that was rolled back carries out: one commit of its source. `None` if it was not.
    pub(crate) fn rolled_back(&self) -> Option<Self> {
        let commit = self.object.server_metadata.rollback.clone()?;
        let reference = SourceRef { commit: Some(commit), ..SourceRef::default() };
        if !self.object.spec.suspend
            || !matches!(self.address, SourceAddress::Git(_))
            || source::check_reference(&reference).is_err()
        {
            return None;
        }
        let mut valid_sync = Self { rolls_back: true, ..self.clone() };
        valid_sync.object.spec.suspend = false;
        valid_sync.object.spec.source.reference = Some(reference);
        Some(valid_sync)
    }
}

/// Why files cannot be used.
#[derive(Debug)]
pub struct InvalidFiles {
    /// Their texts.
    pub repo: Box<Repo>,
    /// The errors.
    pub findings: Vec<Finding>,
}

/// Reads the Syncs of all files.
pub fn read_files(files: &[PathBuf]) -> Result<Vec<ValidSync>, InvalidFiles> {
    let mut reader = Reader::default();
    for file in files {
        let name: Arc<str> = file.to_string_lossy().into();
        match std::fs::read(file) {
            Ok(bytes) => reader.read_file(file, &name, &bytes),
            Err(error) => {
                let message = format!("the file cannot be read: {error}");
                reader.findings.push(Finding::in_file(Severity::Error, FINDING_CODE, &name, None, message));
            }
        }
    }
    reader.check_all()
}

#[derive(Default)]
struct Reader {
    repo: Repo,
    findings: Vec<Finding>,
    read: Vec<(Origin, ValidSync)>,
}

impl Reader {
    fn read_file(&mut self, path: &Path, name: &Arc<str>, bytes: &[u8]) {
        self.repo.texts.insert(name.clone(), bytes.into());
        let stream = federate_yaml::read_stream(bytes);
        for error in stream.errors {
            self.findings.push(Finding::in_file(
                Severity::Error,
                FINDING_CODE,
                name,
                Some(error.at),
                error.message,
            ));
        }
        let folder = path.parent().unwrap_or(Path::new(""));
        let before = self.read.len() + self.findings.len();
        for document in stream.documents {
            let origin =
                Origin { file: name.clone(), document: document.index, item: None, line: document.line };
            self.read_document(folder, origin, document.value);
        }
        if self.read.len() + self.findings.len() == before {
            let message = "the file has no Sync";
            self.findings.push(Finding::in_file(Severity::Error, FINDING_CODE, name, None, message));
        }
    }

    fn read_document(&mut self, folder: &Path, origin: Origin, mut value: Value) {
        if value["apiVersion"] != "federate.dev/v1alpha1" || value["kind"] != "Sync" {
            let message = "the document is not a Sync: `apiVersion: federate.dev/v1alpha1`, `kind: Sync`";
            return self.add_finding(&origin, "/kind", message, None);
        }
        let before = self.findings.len();
        for (pointer, remedy) in UNSUPPORTED_FIELDS {
            let (parent, field) = pointer.rsplit_once('/').unwrap_or_default();
            let parent = value.pointer_mut(parent).and_then(Value::as_object_mut);
            if parent.and_then(|parent| parent.remove(field)).is_some() {
                let message = format!(
                    "`{}` is not supported for a Sync in a file",
                    pointer.trim_start_matches('/').replace('/', ".")
                );
                self.add_finding(&origin, pointer, &message, Some(remedy));
            }
        }
        let sync = match Sync::parse(value) {
            Ok(sync) => sync,
            Err((pointer, message)) => return self.add_finding(&origin, &pointer, &message, None),
        };
        for (pointer, message) in validate_sync(&sync) {
            self.add_finding(&origin, pointer, &message, None);
        }
        let address = match SourceAddress::from_source(&sync.spec.source, folder) {
            Ok(address) => address,
            Err(message) => return self.add_finding(&origin, "/spec/source/url", &message, None),
        };
        if matches!(address, SourceAddress::Folder(_)) && sync.spec.source.verify.is_some() {
            let message = "a folder is not signed: name a revision of its repository with `ref`";
            self.add_finding(&origin, "/spec/source/verify", message, None);
        }
        if matches!(address, SourceAddress::Folder(_)) && sync.spec.rollout.is_some() {
            let message = "a folder has no former revision for later stages: name a revision of its repository with `ref`";
            self.add_finding(&origin, "/spec/rollout", message, None);
        }
        if matches!(address, SourceAddress::Git(_))
            && sync.spec.commit.as_ref().is_some_and(|c| c.push == Some(false))
        {
            let message = "a branch that is not pushed would only be in the state folder: leave out `push`";
            self.add_finding(&origin, "/spec/commit/push", message, None);
        }
        if self.findings.len() == before {
            self.read.push((origin, ValidSync::new(sync, address)));
        }
    }

    fn add_finding(&mut self, origin: &Origin, pointer: &str, message: &str, remedy: Option<&str>) {
        let at = self.repo.locate_value(origin, pointer);
        let mut finding = Finding::in_file(Severity::Error, FINDING_CODE, &origin.file, Some(at), message);
        finding.help = remedy.map(str::to_owned);
        self.findings.push(finding);
    }

    /// Checks the Syncs against each other.
    fn check_all(mut self) -> Result<Vec<ValidSync>, InvalidFiles> {
        let read = std::mem::take(&mut self.read);
        let mut names: BTreeMap<String, Vec<String>> = BTreeMap::new();
        let mut apply_sets: BTreeMap<String, String> = BTreeMap::new();
        let mut branches: BTreeMap<(String, String, String), String> = BTreeMap::new();
        for (origin, ValidSync { object: sync, address, .. }) in &read {
            let name = sync.full_name();
            if names.insert(name.clone(), sync.dependency_full_names().collect()).is_some() {
                self.add_finding(origin, "/metadata/name", &format!("there are two Syncs {name}"), None);
            }
            if sync.spec.apply.is_some() {
                let set = sync.apply_set();
                let set = format!("{}/{}", set.0, set.1);
                if let Some(other) = apply_sets.insert(set.clone(), name.clone()) {
                    let message = format!(
                        "{other} has the ApplySet {set}, too: each would delete what the other applies"
                    );
                    self.add_finding(origin, "/spec/apply/applySet", &message, None);
                }
            }
            if let Some(commit) = &sync.spec.commit {
                let place = (address.to_string(), commit.branch.clone(), commit.path.clone());
                if let Some(other) = branches.insert(place, name.clone()) {
                    let message =
                        format!("{other} commits to the same folder of branch {}, too", commit.branch);
                    self.add_finding(origin, "/spec/commit/branch", &message, None);
                }
            }
        }
        self.check_tags(&read);
        for (origin, ValidSync { object: sync, .. }) in &read {
            for on in sync.dependency_full_names() {
                if !names.contains_key(&on) {
                    self.add_finding(origin, "/spec/dependsOn", &format!("there is no Sync {on}"), None);
                }
            }
            let name = sync.full_name();
            if is_in_cycle(&names, &name) {
                let message = format!("{name} depends on itself, directly or through other Syncs");
                self.add_finding(origin, "/spec/dependsOn", &message, None);
            }
        }
        if !self.findings.is_empty() {
            return Err(InvalidFiles { repo: Box::new(self.repo), findings: self.findings });
        }
        Ok(read.into_iter().map(|(_, valid_sync)| valid_sync).collect())
    }
}

impl Reader {
    /// Refuses Syncs that push to the same tags.
    fn check_tags(&mut self, read: &[(Origin, ValidSync)]) {
        let mut tags: BTreeMap<String, String> = BTreeMap::new();
        for (origin, ValidSync { object: sync, .. }) in read {
            let Some(push) = &sync.spec.push else { continue };
            let url = normalize_artifacts(push);
            for tag in push.tags() {
                if let Some(other) = tags.insert(format!("{url}:{tag}"), sync.full_name()) {
                    let message = format!("{other} moves the tag {tag} of these artifacts, too");
                    self.add_finding(origin, "/spec/push/tags", &message, None);
                }
            }
        }
    }
}

/// The artifacts of a push, in the one spelling by which two Syncs are seen to push the same: as the address of the plan.
pub(crate) fn normalize_artifacts(push: &PushSpec) -> String {
    let plan = ArtifactAddress::parse(&push.url).ok().and_then(|address| plan_address(&address).ok());
    let address = plan.map_or_else(|| push.url.clone(), |plan| plan.to_string());
    address.to_ascii_lowercase().replacen(":443/", "/", 1)
}

/// Whether a name leads back to itself.
fn is_in_cycle(names: &BTreeMap<String, Vec<String>>, name: &str) -> bool {
    let mut seen = BTreeSet::new();
    let mut open: Vec<&String> = names.get(name).into_iter().flatten().collect();
    while let Some(next) = open.pop() {
        if next == name {
            return true;
        }
        if seen.insert(next) {
            open.extend(names.get(next).into_iter().flatten());
        }
    }
    false
}

/// The errors of a Sync by itself: pointers and messages.
pub(crate) fn validate_sync(sync: &Sync) -> Vec<(&'static str, String)> {
    let mut wrong = Vec::new();
    for (pointer, name) in sync.object_names().filter(|(_, name)| !is_dns_subdomain(name)) {
        let name = name.escape_debug();
        wrong.push((pointer, format!("`{name}` is not a name: lower-case letters, digits, `-` and `.`")));
    }
    let spec = &sync.spec;
    let key = spec.kube_config.as_ref().and_then(|kube_config| kube_config.secret_ref.key.as_deref());
    if let Some(key) = key.filter(|key| !is_key(key)) {
        let message = format!("`{}` is not a key of a Secret", key.escape_debug());
        wrong.push(("/spec/kubeConfig/secretRef/key", message));
    }
    if let Some(Err(message)) = spec.source.reference.as_ref().map(source::check_reference) {
        wrong.push(("/spec/source/ref", message));
    }
    if spec.source.path.split('/').any(|part| part == "..") || spec.source.path.starts_with('/') {
        wrong.push(("/spec/source/path", "the path must lie in the repository".to_owned()));
    }
    if let Some(why) = spec.source.paths.iter().find_map(|path| normalize_path(path).err()) {
        wrong.push((
            "/spec/source/paths",
            format!("each path must lie in the folder of the source, but of one {why}"),
        ));
    }
    if spec.commit.is_none()
        && spec.push.is_none()
        && spec.apply.is_none()
        && spec.drift.mode == DriftMode::Ignore
    {
        wrong.push(("/spec", "there is nothing to do: name `commit`, `push` or `apply`".to_owned()));
    }
    wrong.extend(validate_push(spec));
    if spec.failover && spec.inventory != InventorySource::Members {
        wrong.push((
            "/spec/failover",
            "failover needs the status of members: set `inventory: members`".to_owned(),
        ));
    }
    if let Some(clusters) = &spec.clusters {
        if let Err(message) = clusters.validate() {
            wrong.push(("/spec/clusters", message));
        }
        if spec.commit.is_some() {
            let message =
                "a branch has what every cluster gets: leave out `clusters`, or commit with another Sync";
            wrong.push(("/spec/clusters", message.to_owned()));
        }
    }
    if !spec.windows.is_empty() && spec.apply.is_none() && (spec.commit.is_some() || spec.push.is_some()) {
        wrong.push(("/spec/windows", "windows are about clusters: name `apply`, too".to_owned()));
    }
    for (field, why) in spec.windows.iter().filter_map(|window| window.validate().err()) {
        wrong.push(("/spec/windows", format!("{field}: {why}")));
    }
    if let Some(rollout) = &spec.rollout {
        if spec.apply.is_none() {
            wrong.push(("/spec/rollout", "a rollout is about clusters: name `apply`, too".to_owned()));
        }
        if let Err(message) = rollout.validate() {
            wrong.push(("/spec/rollout", message));
        }
    }
    wrong.extend(
        spec.notifications.iter().filter_map(validate_notification).map(|why| ("/spec/notifications", why)),
    );
    if let Some(commit) = &spec.commit
        && let Err(error) = parse_layout(commit)
    {
        wrong.push(("/spec/commit/branch", error.to_string()));
    }
    if spec.apply.as_ref().and_then(|apply| apply.apply_set.as_ref()).is_some_and(|set| !is_apply_set(set)) {
        wrong.push(("/spec/apply/applySet", "write it as NAMESPACE/NAME".to_owned()));
    }
    let limits = [
        ("/spec/commit/pruneLimit", spec.commit.as_ref().and_then(|commit| commit.prune_limit)),
        ("/spec/push/pruneLimit", spec.push.as_ref().and_then(|push| push.prune_limit)),
        ("/spec/apply/pruneLimit", spec.apply.as_ref().and_then(|apply| apply.prune_limit)),
    ];
    for (pointer, limit) in limits {
        if limit.is_some_and(|limit| limit > 100) {
            wrong.push((pointer, "a share is at most 100 percent".to_owned()));
        }
    }
    wrong
}

/// What is wrong with the registry of a Sync.
fn validate_push(spec: &SyncSpec) -> Vec<(&'static str, String)> {
    let Some(push) = &spec.push else { return Vec::new() };
    let mut wrong = Vec::new();
    match ArtifactAddress::parse(&push.url) {
        Err(error) => wrong.push(("/spec/push/url", error.to_string())),
        Ok(address) if address.tag().is_some() => {
            wrong.push(("/spec/push/url", "name the tag in `tags`".to_owned()));
        }
        Ok(address) if push.insecure && !address.is_loopback() => {
            let message = format!("{} is not on this machine: it must be reached with TLS", address.host());
            wrong.push(("/spec/push/insecure", message));
        }
        Ok(_) => {}
    }
    if push.tags.len() > MAX_TAGS {
        wrong.push(("/spec/push/tags", format!("name {MAX_TAGS} tags at most")));
    }
    if let Some(tag) = push.tags.iter().find(|tag| !is_tag(tag)) {
        let message = format!("`{}` is not a tag: letters, digits, `_`, `.` and `-`", tag.escape_debug());
        wrong.push(("/spec/push/tags", message));
    }
    let distinct: BTreeSet<&String> = push.tags.iter().collect();
    if distinct.len() < push.tags.len() {
        wrong.push(("/spec/push/tags", "a tag is named twice".to_owned()));
    }
    if spec.commit.is_some() {
        let message = "the scheduler's memory is in one place: commit and push with two Syncs";
        wrong.push(("/spec/push", message.to_owned()));
    }
    if spec.clusters.is_some() {
        let message =
            "a registry has what every cluster gets: leave out `clusters`, or push with another Sync";
        wrong.push(("/spec/clusters", message.to_owned()));
    }
    wrong
}

/// What is wrong with a notification by itself.
fn validate_notification(notification: &Notification) -> Option<String> {
    let Notification { r#type, address, secret_ref } = notification;
    let needs_token = !matches!(r#type, NotificationType::Generic | NotificationType::Slack);
    if secret_ref.is_none() && (needs_token || address.is_none()) {
        return Some("name a Secret with the `token` (and the `address`) in `secretRef`".to_owned());
    }
    address.as_ref().and_then(|address| parse_uri(address).err())
}

/// Whether a text can be a key of a Secret.
fn is_key(text: &str) -> bool {
    !text.is_empty()
        && text.len() <= 253
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte))
}

fn is_apply_set(text: &str) -> bool {
    text.split_once('/')
        .is_some_and(|(namespace, name)| is_dns_subdomain(namespace) && is_dns_subdomain(name))
}

/// The branches of a Sync, and the folder of them.
pub fn parse_layout(commit: &CommitSpec) -> Result<BranchLayout, branch::Error> {
    let files = match commit.layout.unwrap_or_default() {
        CommitLayout::Plain => FileLayout::Plain,
        CommitLayout::Hydrator => FileLayout::Hydrator,
    };
    let folder = branch::BranchFolder::parse_path(&commit.path)?;
    Ok(BranchLayout::parse_pattern(&commit.branch, folder)?.with_files(files))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SYNC: &str = "apiVersion: federate.dev/v1alpha1
kind: Sync
metadata: {name: web}
spec:
  source: {url: https://example.com/r.git, ref: {branch: main}}
  interval: 1m
  commit: {branch: rendered}
";

    /// The findings about a file of that text, as `line:column: message`.
    fn findings(text: &str) -> Vec<String> {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("sync.yaml");
        std::fs::write(&file, text).unwrap();
        match read_files(&[file]) {
            Ok(_) => Vec::new(),
            Err(invalid) => {
                let said = |f: &Finding| {
                    let line = f.origin.as_ref().map_or(0, |origin| origin.line);
                    format!("{line}:{}: {}", f.column.unwrap_or(0), f.message)
                };
                invalid.findings.iter().map(said).collect()
            }
        }
    }

    #[test]
    fn unknown_wrong_and_unsupported_fields_are_named_with_their_place() {
        assert_eq!(findings(SYNC), Vec::<String>::new());
        for (old, new, said) in [
            ("interval: 1m", "intervall: 1m", "6:3: unknown field `intervall`"),
            ("interval: 1m", "interval: soon", "6:3: `soon` is not a length of time"),
            (
                "interval: 1m",
                "interval: 1m\n  deletionPolicy: Delete",
                "7:3: `spec.deletionPolicy` is not supported for a Sync in a file",
            ),
            ("{branch: main}", "{branch: main, tag: v1}", "name exactly one of"),
            ("{branch: main}", "{branch: 'a*b'}", "no reference can be called"),
            ("branch: rendered", "branch: 'a..b'", "is not a valid branch name"),
            ("commit: {branch: rendered}", "drift: {mode: ignore}", "nothing to do"),
            ("commit: {branch: rendered}", "commit: {branch: rendered, push: false}", "leave out `push`"),
            ("name: web", "name: ../web", "is not a name"),
            ("kind: Sync", "kind: Plan", "is not a Sync"),
            ("url: https", "url: --upload-pack=x://", "`--upload-pack"),
        ] {
            let text = SYNC.replace(old, new);
            assert_ne!(text, SYNC);
            let found = findings(&text);
            assert!(found.len() == 1 && found[0].contains(said), "{said}: {found:#?}");
        }
    }

    #[test]
    fn syncs_that_contradict_each_other_are_refused() {
        let apply = SYNC.replace("commit: {branch: rendered}", "apply: {applySet: default/federate}");
        let both = format!("{apply}---\n{}", apply.replace("name: web", "name: other"));
        assert!(findings(&both)[0].contains("each would delete what the other applies"));
        let both = format!("{SYNC}---\n{}", SYNC.replace("name: web", "name: other"));
        assert!(findings(&both)[0].contains("default/web commits to the same folder"));
        let ring = SYNC.replace("interval: 1m", "interval: 1m\n  dependsOn: [{name: web}]");
        assert!(findings(&ring)[0].contains("depends on itself"));
        let none = SYNC.replace("interval: 1m", "interval: 1m\n  dependsOn: [{name: none}]");
        assert!(findings(&none)[0].contains("there is no Sync default/none"));
    }
}
