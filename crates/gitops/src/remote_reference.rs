//! Charts in repositories of charts, as objects of Flux and Argo CD name them, and bases in git repositories, as kustomizations do.
//!
//! Facts: the APIs `source.toolkit.fluxcd.io/v1` (`HelmRepository`, `HelmChart`, `OCIRepository`), `helm.toolkit.fluxcd.io/v2`
//! (`chart` and `chartRef` of a `HelmRelease`) and `argoproj.io/v1alpha1` (`chart`, `repoURL` and `targetRevision` of a source). A
//! missing version stands for the newest one that is not a pre-release. Argo CD names OCI registries without a scheme. kustomize's
//! documentation of remote targets: `//` or `.git` ends the address of a repository, `?ref=` (or `version=`) names the revision, and
//! `github.com/OWNER/NAME` needs no scheme.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::Value;

use federate_file_tree::normalize_path;
use federate_kubernetes::Object;
use federate_kubernetes::object::{field_text, pointer_text};

use crate::description::{DescriptionError, find_similar_object};

/// The longest name and version of a chart, and the longest address of a repository.
const MAX_TEXT_LENGTH: usize = 1000;

/// The version that stands for the newest one.
const ANY_VERSION: &str = "*";

/// A chart in a repository of charts, in a range of versions; or a base in a git repository, in a revision.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RemoteReference {
    /// The address of the repository, without credentials and without a slash at its end.
    pub repository: String,
    /// The name of the chart, or that of the git repository.
    pub name: String,
    /// The range of versions, the tag, the digest or the revision, as it is written.
    pub version: String,
    /// The folder of a base in its repository; `None` for a chart.
    pub folder: Option<String>,
}

/// An error about the name of a remote chart or base.
fn reference_error(pointer: &str, why: impl Into<String>) -> DescriptionError {
    DescriptionError { is_about_reference: true, ..DescriptionError::new(pointer, why) }
}

impl fmt::Display for RemoteReference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.folder.as_deref() {
            None => write!(f, "chart {} {} of {}", self.name, self.version, self.repository),
            Some("") => write!(f, "base {} at {}", self.repository, self.version),
            Some(folder) => write!(f, "base {}//{folder} at {}", self.repository, self.version),
        }
    }
}

/// A `GitRepository` that the repo does not have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MisspeltRepository {
    /// Where an object names it.
    pub pointer: &'static str,
    /// It, as it is named.
    pub named: String,
    /// The one that may be meant.
    pub similar: String,
}

impl RemoteReference {
    /// Checks the parts of a reference. `pointer` is where it is written.
    fn new(repository: &str, name: &str, version: &str, pointer: &str) -> Result<Self, DescriptionError> {
        let repository = check_address(repository, pointer)?;
        let (repository, name) = match name.rsplit_once('/') {
            Some((parent, name)) if repository.starts_with("oci://") => {
                (format!("{repository}/{parent}"), name)
            }
            _ => (repository, name),
        };
        if !is_chart_name(name) {
            let why = format!("`{}` is not the name of a chart", name.escape_debug());
            return Err(reference_error(pointer, why));
        }
        let version = if version.is_empty() { ANY_VERSION } else { version.trim() };
        if version.len() > MAX_TEXT_LENGTH || version.contains(char::is_control) {
            return Err(reference_error(pointer, "its version is not valid"));
        }
        Ok(Self { repository, name: name.to_owned(), version: version.to_owned(), folder: None })
    }

    /// The base that a kustomization names as a resource; `None` if that is not in a git repository.
    pub fn parse_base(written: &str) -> Option<Result<Self, DescriptionError>> {
        let is_forced = written.starts_with("git::");
        let (target, query) = written
            .trim_start_matches("git::")
            .split_once('?')
            .unwrap_or((written.trim_start_matches("git::"), ""));
        let revision = query
            .split('&')
            .find_map(|part| part.strip_prefix("ref=").or_else(|| part.strip_prefix("version=")))
            .unwrap_or_default();
        let target =
            match ["github.com/", "gh:", "github.com:"].iter().find_map(|start| target.strip_prefix(start)) {
                Some(rest) => format!("https://github.com/{rest}"),
                None => target.to_owned(),
            };
        let schemes = ["https://", "http://", "ssh://", "file://"];
        let start = match schemes.iter().find(|scheme| target.starts_with(**scheme)) {
            Some(scheme) => scheme.len(),
            None if target.starts_with("git@") => 0,
            None => return None,
        };
        let (repository, folder) = split_repository(&target, start)
            .or_else(|| (is_forced || !revision.is_empty()).then(|| (target.clone(), String::new())))?;
        Some(Self::new_base(&repository, &folder, revision))
    }

    /// A folder of a git repository in a revision; an empty one stands for that of the default branch.
    pub(crate) fn new_base(repository: &str, folder: &str, revision: &str) -> Result<Self, DescriptionError> {
        let refuse = |why: &str| Err(reference_error("", why));
        let authority =
            repository.split_once("://").map_or("", |(_, rest)| rest.split('/').next().unwrap_or_default());
        let user = authority.rsplit_once('@').map(|(user, _)| user);
        if user.is_some_and(|user| user.contains(':') || !repository.starts_with("ssh://")) {
            return Err(reference_error("", "the address of its repository contains credentials").with_help(
                "remove them, and let a credential helper of git (`git config credential.helper`) store them",
            ));
        }
        let is_odd =
            |c: char| c.is_whitespace() || c.is_control() || matches!(c, '\\' | '"' | '\'' | '<' | '>' | '#');
        let texts = [repository, folder, revision];
        if texts.iter().any(|text| text.len() > MAX_TEXT_LENGTH || text.contains(is_odd)) {
            return refuse("the address of its repository is not valid");
        }
        let name = repository.trim_end_matches('/').trim_end_matches(".git").trim_end_matches('/');
        let name = name.rsplit(['/', ':']).next().unwrap_or_default();
        let folder = normalize_path(folder).ok();
        let revision = if revision.is_empty() { "HEAD" } else { revision };
        match folder {
            Some(folder)
                if is_chart_name(name) && !revision.starts_with(['-', '+']) && !revision.contains(':') =>
            {
                Ok(Self {
                    repository: repository.trim_end_matches('/').to_owned(),
                    name: name.to_owned(),
                    version: revision.to_owned(),
                    folder: Some(folder),
                })
            }
            _ => refuse("the address of its repository is not valid"),
        }
    }
}

/// The address of a repository and the folder in it, of a target whose scheme has `start` bytes; `None` if it does not say where the
/// address ends.
fn split_repository(target: &str, start: usize) -> Option<(String, String)> {
    let rest = target.get(start..)?;
    if let Some((repository, folder)) = rest.split_once("//") {
        return Some((format!("{}{repository}", target.get(..start)?), folder.to_owned()));
    }
    if let Some(at) = rest.find(".git/") {
        let end = start + at + ".git".len();
        return Some((target.get(..end)?.to_owned(), target.get(end + 1..)?.to_owned()));
    }
    if rest.strip_suffix(".git").is_some() || start == 0 {
        return Some((target.to_owned(), String::new()));
    }
    let mut parts = rest.splitn(4, '/');
    let (host, owner, name) = (parts.next()?, parts.next()?, parts.next()?);
    let folder = parts.next().unwrap_or_default();
    // A file of a release or of a branch, which is no repository.
    let is_file = [".yaml", ".yml", ".json"].iter().any(|extension| folder.ends_with(extension));
    (host == "github.com" && !is_file).then(|| (format!("https://{host}/{owner}/{name}"), folder.to_owned()))
}

/// The charts and bases that a kustomization names in other repositories, each with the line of it in `text`, or what is wrong about
/// it there. Texts that are not YAML name none.
pub fn list_kustomization_references(text: &[u8]) -> Vec<(u32, Result<RemoteReference, DescriptionError>)> {
    let Some(document) = federate_yaml::read_stream(text).documents.into_iter().next() else {
        return Vec::new();
    };
    let list =
        |key: &str| document.value.get(key).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let mut found = Vec::new();
    let mut add = |pointer: String, reference| {
        let line = federate_yaml::locate_nearest(text, document.index, &pointer).map_or(0, |at| at.line);
        found.push((line, reference));
    };
    for key in ["resources", "bases", "components"] {
        for (index, item) in list(key).iter().enumerate() {
            if let Some(reference) = item.as_str().and_then(RemoteReference::parse_base) {
                add(format!("/{key}/{index}"), reference);
            }
        }
    }
    for (index, chart) in
        list("helmCharts").iter().enumerate().filter(|(_, chart)| !field_text(chart, "repo").is_empty())
    {
        let pointer = format!("/helmCharts/{index}");
        let (repository, name) = (field_text(chart, "repo"), field_text(chart, "name"));
        let reference = RemoteReference::new(repository, name, field_text(chart, "version"), &pointer);
        add(pointer, reference);
    }
    found
}

/// Whether a name can be that of a chart, and so of a folder.
pub fn is_chart_name(name: &str) -> bool {
    name.len() <= MAX_TEXT_LENGTH
        && name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))
}

/// The address of a repository. Credentials in it are refused, and not shown.
fn check_address(address: &str, pointer: &str) -> Result<String, DescriptionError> {
    let refuse = |why: &str| Err(reference_error(pointer, why));
    let rest = ["https://", "http://", "oci://"].iter().find_map(|scheme| address.strip_prefix(scheme));
    let Some(rest) = rest.map(|rest| rest.trim_end_matches('/')) else {
        return refuse("the address of its repository does not begin with https://, http:// or oci://");
    };
    if rest.contains(['@', '?', '#']) {
        return Err(reference_error(pointer, "the address of its repository contains credentials or a query")
            .with_help(
                "remove them, and store credentials where Helm keeps them: `helm repo add --username`, or `helm registry login`",
            ));
    }
    let is_odd = |c: char| c.is_whitespace() || c.is_control() || matches!(c, '\\' | '"' | '\'' | '<' | '>');
    if rest.is_empty() || rest.len() > MAX_TEXT_LENGTH || rest.contains(is_odd) {
        return refuse("the address of its repository is not valid");
    }
    Ok(address.trim_end_matches('/').to_owned())
}

/// The chart that a source of an Application names by `chart`.
pub(crate) fn read_argo_chart(source: &Value, pointer: &str) -> Result<RemoteReference, DescriptionError> {
    let address = field_text(source, "repoURL");
    let address = if address.contains("://") { address.to_owned() } else { format!("oci://{address}") };
    RemoteReference::new(&address, field_text(source, "chart"), field_text(source, "targetRevision"), pointer)
}

/// The objects of Flux that name charts and repositories of charts, by kind, namespace and name.
pub struct FluxCharts<'f>(BTreeMap<ChartObjectKey<'f>, &'f Object>);

type ChartObjectKey<'f> = (&'f str, &'f str, &'f str);

/// The chart of a `HelmRelease`.
pub(crate) struct ReleaseChart<'f> {
    /// The settings of the chart: those of the release, or of a `HelmChart`.
    pub(crate) settings: &'f Value,
    /// Where the settings are in the release.
    pub(crate) pointer: &'static str,
    /// The chart, if it is in a repository of charts.
    pub(crate) reference: Option<RemoteReference>,
}

impl<'f> FluxCharts<'f> {
    /// Keeps the objects of a repo that matter.
    pub fn new(objects: impl Iterator<Item = &'f Object>) -> Self {
        let sources = objects.filter(|object| {
            object.id.group() == "source.toolkit.fluxcd.io"
                && matches!(
                    object.id.kind.as_str(),
                    "HelmRepository" | "HelmChart" | "OCIRepository" | "GitRepository"
                )
        });
        Self(
            sources
                .map(|object| {
                    ((object.id.kind.as_str(), namespace_of(object), object.id.name.as_str()), object)
                })
                .collect(),
        )
    }

    /// The chart of a `HelmRelease`.
    pub(crate) fn read_release(&self, release: &'f Object) -> Result<ReleaseChart<'f>, DescriptionError> {
        let spec = release.body.get("spec").unwrap_or(&Value::Null);
        if let Some(settings) = spec.pointer("/chart/spec") {
            let pointer = "/spec/chart/spec";
            let reference = self.read_chart(settings, namespace_of(release), pointer)?;
            return Ok(ReleaseChart { settings, pointer, reference });
        }
        let Some(named) = spec.get("chartRef") else {
            return Err(reference_error("/spec", "it has neither `chart.spec` nor `chartRef`"));
        };
        let pointer = "/spec/chartRef";
        let kind = field_text(named, "kind");
        let object = self.find_object(kind, named, namespace_of(release), pointer)?;
        let settings = object.body.get("spec").unwrap_or(&Value::Null);
        if kind == "HelmChart" {
            let reference = self.read_chart(settings, namespace_of(object), pointer)?;
            return Ok(ReleaseChart { settings, pointer, reference });
        }
        let address = field_text(settings, "url");
        let (parent, name) = address.trim_end_matches('/').rsplit_once('/').unwrap_or(("", address));
        let versions = ["/ref/digest", "/ref/semver", "/ref/tag"].map(|key| pointer_text(settings, key));
        let version = versions.into_iter().find(|version| !version.is_empty()).unwrap_or("latest");
        let reference = Some(RemoteReference::new(parent, name, version, pointer)?);
        Ok(ReleaseChart { settings: &Value::Null, pointer, reference })
    }

    /// The chart that settings name; `None` if it is not in a repository of charts.
    fn read_chart(
        &self,
        settings: &Value,
        namespace: &str,
        pointer: &str,
    ) -> Result<Option<RemoteReference>, DescriptionError> {
        let source = settings.get("sourceRef").unwrap_or(&Value::Null);
        if field_text(source, "kind") != "HelmRepository" {
            return Ok(None);
        }
        let repository = self.find_object("HelmRepository", source, namespace, pointer)?;
        let address = pointer_text(&repository.body, "/spec/url");
        RemoteReference::new(address, field_text(settings, "chart"), field_text(settings, "version"), pointer)
            .map(Some)
    }

    fn find_object(
        &self,
        kind: &str,
        reference: &Value,
        namespace: &str,
        pointer: &str,
    ) -> Result<&'f Object, DescriptionError> {
        let name = field_text(reference, "name");
        let namespace = match field_text(reference, "namespace") {
            "" => namespace,
            named => named,
        };
        self.0.get(&(kind, namespace, name)).copied().ok_or_else(|| {
            let why = match kind {
                "HelmRepository" | "HelmChart" | "OCIRepository" => {
                    format!("the repo has no {kind} {namespace}/{name}")
                }
                _ => format!("its source is of kind {kind}, of which no chart is built"),
            };
            reference_error(pointer, why)
                .with_help("commit the object that names the repository of the chart")
        })
    }

    /// The `GitRepository` that an object in a namespace refers to; `None` if the repo does not have it.
    pub(crate) fn find_repository(&self, reference: &Value, namespace: &str) -> Option<&'f Object> {
        let named = field_text(reference, "namespace");
        let namespace = if named.is_empty() { namespace } else { named };
        self.0.get(&("GitRepository", namespace, field_text(reference, "name"))).copied()
    }

    /// The `GitRepository` that an object of Flux may mean in place of one that the repo does not have: in another namespace, or with
    /// a similar name. `None` if it names one that is there, or if none is similar.
    pub fn find_misspelt(&self, object: &Object) -> Option<MisspeltRepository> {
        let pointer = match object.id.kind.as_str() {
            "HelmRelease" => "/spec/chart/spec/sourceRef",
            _ => "/spec/sourceRef",
        };
        let reference = object.body.pointer(pointer)?;
        let own = namespace_of(object);
        if field_text(reference, "kind") != "GitRepository" || self.find_repository(reference, own).is_some()
        {
            return None;
        }
        let name = field_text(reference, "name");
        let namespace = Some(field_text(reference, "namespace")).filter(|named| !named.is_empty());
        let namespace = namespace.unwrap_or(own);
        let of_kind = self.0.keys().filter(|(kind, _, _)| *kind == "GitRepository");
        let all = of_kind.map(|(_, namespace, name)| (*namespace, *name));
        let (place, similar) = find_similar_object(all, namespace, name)?;
        Some(MisspeltRepository {
            pointer,
            named: format!("GitRepository {namespace}/{name}"),
            similar: format!("GitRepository {place}/{similar}"),
        })
    }

    /// The chart in a repository of charts that an object of Flux names; `None` if it names none.
    pub fn find_reference(&self, object: &'f Object) -> Result<Option<RemoteReference>, DescriptionError> {
        match (object.id.group(), object.id.kind.as_str()) {
            ("helm.toolkit.fluxcd.io", "HelmRelease") => {
                self.read_release(object).map(|chart| chart.reference)
            }
            ("source.toolkit.fluxcd.io", "HelmChart") => {
                let settings = object.body.get("spec").unwrap_or(&Value::Null);
                self.read_chart(settings, namespace_of(object), "/spec")
            }
            _ => Ok(None),
        }
    }
}

fn namespace_of(object: &Object) -> &str {
    object.id.namespace.as_deref().unwrap_or("default")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_are_checked_and_credentials_are_not_shown() {
        let read = |repository: &str, name: &str| RemoteReference::new(repository, name, "", "/spec");
        let chart = read("oci://ghcr.io/a/", "charts/web").unwrap();
        assert_eq!(chart.to_string(), "chart web * of oci://ghcr.io/a/charts");
        assert_eq!(read("https://h/charts", "web").unwrap().repository, "https://h/charts");
        for (repository, name) in [
            ("https://u:hunter2@h/charts", "web"),
            ("https://h/charts?token=hunter2", "web"),
            ("file:///etc", "web"),
            ("h/charts", "web"),
            ("https://", "web"),
            ("https://h", "../web"),
            ("https://h", "a/web"),
            ("https://h", "-web"),
            ("https://h", ".."),
            ("https://h", ""),
        ] {
            let error = read(repository, name).unwrap_err();
            assert!(!error.why.contains("hunter2"), "{}", error.why);
        }
    }

    #[test]
    fn bases_are_repositories_with_a_folder_and_a_revision() {
        for (written, expected) in [
            ("https://github.com/a/b//config/x?ref=v1", "base https://github.com/a/b//config/x at v1"),
            ("github.com/a/b/config?ref=main&timeout=1s", "base https://github.com/a/b//config at main"),
            ("https://h/a/b.git", "base https://h/a/b.git at HEAD"),
            ("https://h/a/b.git/c/../d?version=2", "base https://h/a/b.git//d at 2"),
            ("git@h:a/b.git//c", "base git@h:a/b.git//c at HEAD"),
            ("ssh://git@h/a/b//c", "base ssh://git@h/a/b//c at HEAD"),
            ("git::https://h/a/b", "base https://h/a/b at HEAD"),
            ("https://h/a/b?ref=1", "base https://h/a/b at 1"),
        ] {
            let parsed = RemoteReference::parse_base(written).map(Result::unwrap);
            assert_eq!(parsed.unwrap().to_string(), expected, "{written}");
        }
        for written in [
            "../base",
            "https://h/a.yaml",
            "https://github.com/a/b/releases/download/v1/x.yaml",
            "ext::sh -c x",
        ] {
            assert!(RemoteReference::parse_base(written).is_none(), "{written}");
        }
        for written in [
            "https://u:hunter2@h/a//b",
            "https://hunter2@h/a//b",
            "ssh://u:hunter2@h/a//b",
            "https://h/a//../../b",
            "https://h/..//b",
            "https://h/a//b?ref=--upload-pack=hunter2",
            "https://h/a//b?ref=x:refs/heads/hunter2",
        ] {
            let error = RemoteReference::parse_base(written).unwrap().unwrap_err();
            assert!(!error.why.contains("hunter2"), "{written}: {}", error.why);
        }
    }
}
