//! Charts in repositories of charts, as objects of Flux and Argo CD name them.
//!
//! Facts: the APIs `source.toolkit.fluxcd.io/v1` (`HelmRepository`, `HelmChart`, `OCIRepository`), `helm.toolkit.fluxcd.io/v2`
//! (`chart` and `chartRef` of a `HelmRelease`) and `argoproj.io/v1alpha1` (`chart`, `repoURL` and `targetRevision` of a source). A
//! missing version stands for the newest one that is not a pre-release. Argo CD names OCI registries without a scheme.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::Value;

use federate_kubernetes::Object;
use federate_kubernetes::object::{field_text, pointer_text};

use crate::description::DescriptionError;

/// The longest name and version of a chart, and the longest address of a repository.
const MAX_TEXT_LENGTH: usize = 1000;

/// The version that stands for the newest one.
const ANY_VERSION: &str = "*";

/// A chart in a repository of charts, in a range of versions.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ChartReference {
    /// The address of the repository (`https://`, `http://` or `oci://`), without credentials and without a slash at its end.
    pub repository: String,
    /// The name of the chart.
    pub name: String,
    /// The range of versions, the tag or the digest, as it is written.
    pub version: String,
}

impl fmt::Display for ChartReference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} of {}", self.name, self.version, self.repository)
    }
}

impl ChartReference {
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
            return Err(DescriptionError::new(pointer, why));
        }
        let version = if version.is_empty() { ANY_VERSION } else { version.trim() };
        if version.len() > MAX_TEXT_LENGTH || version.contains(char::is_control) {
            return Err(DescriptionError::new(pointer, "its version is not valid"));
        }
        Ok(Self { repository, name: name.to_owned(), version: version.to_owned() })
    }
}

/// Whether a name can be that of a chart, and so of a folder.
pub fn is_chart_name(name: &str) -> bool {
    name.len() <= MAX_TEXT_LENGTH
        && name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))
}

/// The address of a repository. Credentials in it are refused, and not shown.
fn check_address(address: &str, pointer: &str) -> Result<String, DescriptionError> {
    let refuse = |why: &str| Err(DescriptionError::new(pointer, why));
    let rest = ["https://", "http://", "oci://"].iter().find_map(|scheme| address.strip_prefix(scheme));
    let Some(rest) = rest.map(|rest| rest.trim_end_matches('/')) else {
        return refuse("the address of its repository does not begin with https://, http:// or oci://");
    };
    if rest.contains(['@', '?', '#']) {
        return Err(DescriptionError::new(pointer, "the address of its repository contains credentials or a query")
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
pub(crate) fn read_argo_chart(source: &Value, pointer: &str) -> Result<ChartReference, DescriptionError> {
    let address = field_text(source, "repoURL");
    let address = if address.contains("://") { address.to_owned() } else { format!("oci://{address}") };
    ChartReference::new(&address, field_text(source, "chart"), field_text(source, "targetRevision"), pointer)
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
    pub(crate) reference: Option<ChartReference>,
}

impl<'f> FluxCharts<'f> {
    /// Keeps the objects of a repo that matter.
    pub fn new(objects: impl Iterator<Item = &'f Object>) -> Self {
        let sources = objects.filter(|object| {
            object.id.group() == "source.toolkit.fluxcd.io"
                && matches!(object.id.kind.as_str(), "HelmRepository" | "HelmChart" | "OCIRepository")
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
            return Err(DescriptionError::new("/spec", "it has neither `chart.spec` nor `chartRef`"));
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
        let reference = Some(ChartReference::new(parent, name, version, pointer)?);
        Ok(ReleaseChart { settings: &Value::Null, pointer, reference })
    }

    /// The chart that settings name; `None` if it is not in a repository of charts.
    fn read_chart(
        &self,
        settings: &Value,
        namespace: &str,
        pointer: &str,
    ) -> Result<Option<ChartReference>, DescriptionError> {
        let source = settings.get("sourceRef").unwrap_or(&Value::Null);
        if field_text(source, "kind") != "HelmRepository" {
            return Ok(None);
        }
        let repository = self.find_object("HelmRepository", source, namespace, pointer)?;
        let address = pointer_text(&repository.body, "/spec/url");
        ChartReference::new(address, field_text(settings, "chart"), field_text(settings, "version"), pointer)
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
                _ => format!("its source is a {kind}, of which no chart is built"),
            };
            DescriptionError::new(pointer, why).with_help("commit the object that names the repository of the chart")
        })
    }

    /// The chart in a repository of charts that an object of Flux names; `None` if it names none.
    pub fn find_reference(&self, object: &'f Object) -> Result<Option<ChartReference>, DescriptionError> {
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
        let read = |repository: &str, name: &str| ChartReference::new(repository, name, "", "/spec");
        let chart = read("oci://ghcr.io/a/", "charts/web").unwrap();
        assert_eq!(chart.to_string(), "web * of oci://ghcr.io/a/charts");
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
}
