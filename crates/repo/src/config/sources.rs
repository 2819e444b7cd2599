//! `sources` in `federate.yaml`: what kustomize and Helm build from files of the repo.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

use federate_kubernetes::Cluster;

use federate_file_tree::normalize_path;

/// What kustomize or Helm builds from files of the repo. It has exactly one of the keys `kustomize`, `chart`, `flux` and
/// `argocd`; a folder may also be written as `path`, with `kustomize: {}` or `chart: {}`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct SourceConfig {
    /// The folder or chart, if it is not the value of `kustomize` or `chart`.
    pub path: Option<String>,
    /// The folder with the kustomization.
    pub kustomize: Option<SourcePath>,
    /// The chart: a folder of the repo, or a packaged chart (`.tgz`) in it.
    pub chart: Option<SourcePath>,
    /// The name of the release of a chart; the name of the chart by default.
    pub release: Option<String>,
    /// The namespace of the release; `default` by default.
    pub namespace: Option<String>,
    /// Values files of the repo, in order: later ones win. Globs are allowed, `{cluster}` stands for the name of the
    /// cluster, and a file whose path ends in `?` may be missing.
    pub values: Vec<String>,
    /// Values that win over those of the files.
    pub set: Map<String, Value>,
    /// For a kustomization, the folder of the overlay for a cluster, with `{cluster}` for its name: the overlay is built
    /// where it exists, and the folder of `kustomize` for the other clusters, or nothing if that is `{}`. For a chart, values for some clusters;
    /// every entry that matches applies, in order.
    pub per_cluster: Option<PerCluster>,
    /// Whether the definitions in the folder `crds` of a chart are left out.
    pub skip_crds: bool,
    /// What becomes of the hooks of a chart that install or upgrade: `render` (the default) places them like any other
    /// object, `drop` leaves them out.
    pub hooks: Hooks,
    /// Which files a kustomization may use: those in its own folder (`root-only`, the default), or all of the repo (`none`).
    pub load_restrictor: LoadRestrictor,
    /// A file or folder with Flux objects to build from folders of the repo. With `{cluster}` for the name of a cluster, each
    /// cluster receives what its own folder leads to.
    pub flux: Option<String>,
    /// A file or folder with Argo CD objects to build from folders of the repo. `{cluster}` as for `flux`.
    pub argocd: Option<String>,
    /// The cluster in which the Flux or Argo CD of this item runs, if its path does not name it: it receives what Flux builds.
    pub cluster: Option<String>,
}

/// A path, or `{}` where `path` stands beside it.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "expected the path of a folder of the repo")]
pub enum SourcePath {
    /// The path.
    Path(String),
    /// No path: it stands beside the key.
    Beside(NoKeys),
}

/// A map without keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NoKeys {}

/// What differs from cluster to cluster.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(
    untagged,
    expecting = "expected the folder of an overlay with `{cluster}` for a kustomization, or a list of `clusters` with `values` \
                 or `set` for a chart"
)]
pub enum PerCluster {
    /// The folder of the overlay, with `{cluster}` for the name of the cluster.
    Overlay(String),
    /// Values for some clusters.
    Values(Vec<ClusterValues>),
}

/// Values of a chart for some clusters.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ClusterValues {
    /// The clusters; all by default.
    #[serde(default)]
    pub clusters: ClusterChoice,
    /// Values files, as in the source.
    #[serde(default)]
    pub values: Vec<String>,
    /// Values, as in the source. They win over all values files.
    #[serde(default)]
    pub set: Map<String, Value>,
}

/// Some clusters, by name or by label. A cluster must satisfy every key.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ClusterChoice {
    /// The names.
    pub names: Option<Vec<String>>,
    /// Labels that the clusters have.
    pub match_labels: BTreeMap<String, String>,
}

impl ClusterChoice {
    /// Whether a cluster is one of them.
    pub fn includes_cluster(&self, cluster: &Cluster) -> bool {
        self.names.as_ref().is_none_or(|names| names.iter().any(|name| **name == *cluster.name))
            && self.match_labels.iter().all(|(key, value)| cluster.labels.get(key) == Some(value))
    }
}

/// What becomes of the hooks of a chart that install or upgrade.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Hooks {
    /// They are placed like any other object.
    #[default]
    Render,
    /// They are left out.
    Drop,
}

/// Which files a kustomization may use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LoadRestrictor {
    /// Those in its own folder, and other kustomizations.
    #[default]
    RootOnly,
    /// All of the repo.
    None,
}

/// What a source is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SourceKind {
    /// A folder with a kustomization.
    Kustomize(String),
    /// Folders with the kustomizations of clusters, with `{cluster}` for their names. Other clusters receive nothing.
    Overlays(String),
    /// A chart.
    Chart(String),
    /// Flux objects.
    Flux(String),
    /// Argo CD objects.
    ArgoCd(String),
}

impl SourceConfig {
    /// What the source is about. The error is a pointer below the source, and the reason.
    pub fn read_kind(&self) -> Result<SourceKind, (&'static str, String)> {
        let given = [
            ("/kustomize", self.kustomize.is_some()),
            ("/chart", self.chart.is_some()),
            ("/flux", self.flux.is_some()),
            ("/argocd", self.argocd.is_some()),
        ];
        let mut keys = given.into_iter().filter(|(_, given)| *given).map(|(key, _)| key);
        let key = keys
            .next()
            .ok_or(("", "a source has one of `kustomize`, `chart`, `flux` and `argocd`".to_owned()))?;
        if let Some(other) = keys.next() {
            return Err((other, format!("a source has either `{}` or `{}`", &key[1..], &other[1..])));
        }
        let kind = match key {
            "/kustomize" => match (&self.kustomize, &self.path, &self.per_cluster) {
                (Some(SourcePath::Beside(_)), None, Some(PerCluster::Overlay(folder))) => {
                    SourceKind::Overlays(read_path(folder, "/perCluster")?)
                }
                _ => SourceKind::Kustomize(self.choose_path(self.kustomize.as_ref(), key)?),
            },
            "/chart" => SourceKind::Chart(self.choose_path(self.chart.as_ref(), key)?),
            "/flux" => SourceKind::Flux(read_path(self.flux.as_deref().unwrap_or_default(), key)?),
            _ => SourceKind::ArgoCd(read_path(self.argocd.as_deref().unwrap_or_default(), key)?),
        };
        self.check_keys(&kind)?;
        Ok(kind)
    }

    /// The path of a source: the value of its key, or of `path`.
    fn choose_path(
        &self,
        value: Option<&SourcePath>,
        key: &'static str,
    ) -> Result<String, (&'static str, String)> {
        match (value, &self.path) {
            (Some(SourcePath::Path(_)), Some(_)) => Err(("/path", "the path is written twice".to_owned())),
            (Some(SourcePath::Path(path)), None) => read_path(path, key),
            (_, Some(path)) => read_path(path, "/path"),
            (_, None) => Err((key, "the path is missing".to_owned())),
        }
    }

    /// Refuses keys that the source does not use, which would do nothing.
    fn check_keys(&self, kind: &SourceKind) -> Result<(), (&'static str, String)> {
        let is_chart = matches!(kind, SourceKind::Chart(_));
        if self.cluster.is_some() {
            match kind {
                SourceKind::Flux(path) | SourceKind::ArgoCd(path) if path.contains(CLUSTER_PLACEHOLDER) => {
                    return Err((
                        "/cluster",
                        format!("the path names the cluster already, with `{CLUSTER_PLACEHOLDER}`"),
                    ));
                }
                SourceKind::Flux(_) | SourceKind::ArgoCd(_) => {}
                _ => return Err(("/cluster", "`cluster` is for objects of Flux and Argo CD".to_owned())),
            }
        }
        for (key, given) in [
            ("/release", self.release.is_some()),
            ("/namespace", self.namespace.is_some()),
            ("/values", !self.values.is_empty()),
            ("/set", !self.set.is_empty()),
            ("/skipCrds", self.skip_crds),
            ("/hooks", self.hooks != Hooks::Render),
        ] {
            if given && !is_chart {
                return Err((key, format!("`{}` is for charts", &key[1..])));
            }
        }
        if self.load_restrictor != LoadRestrictor::RootOnly
            && !matches!(kind, SourceKind::Kustomize(_) | SourceKind::Overlays(_))
        {
            return Err(("/loadRestrictor", "`loadRestrictor` is for kustomizations".to_owned()));
        }
        match (&self.per_cluster, kind) {
            (None, _) => {}
            (Some(PerCluster::Overlay(folder)), SourceKind::Kustomize(_) | SourceKind::Overlays(_)) => {
                if !folder.contains(CLUSTER_PLACEHOLDER) {
                    return Err((
                        "/perCluster",
                        format!("the folder of the overlay has no `{CLUSTER_PLACEHOLDER}`"),
                    ));
                }
                read_path(folder, "/perCluster")?;
            }
            (Some(PerCluster::Values(_)), SourceKind::Chart(_)) => {}
            (Some(PerCluster::Overlay(_)), SourceKind::Chart(_)) => {
                return Err((
                    "/perCluster",
                    "for a chart, it is a list of `clusters` with `values` or `set`".to_owned(),
                ));
            }
            (Some(_), SourceKind::Kustomize(_) | SourceKind::Overlays(_)) => {
                return Err((
                    "/perCluster",
                    format!("for a kustomization, it is a folder with `{CLUSTER_PLACEHOLDER}`"),
                ));
            }
            (Some(_), _) => {
                return Err(("/perCluster", "`perCluster` is for kustomizations and charts".to_owned()));
            }
        }
        if let Some(release) = self.release.as_deref().filter(|name| !is_release_name(name)) {
            return Err((
                "/release",
                format!("{release:?} is not the name of a release: at most 53 of a-z, 0-9, `-` and `.`"),
            ));
        }
        if let Some(namespace) = self.namespace.as_deref().filter(|name| !is_release_name(name)) {
            return Err(("/namespace", format!("{namespace:?} is not the name of a namespace")));
        }
        Ok(())
    }

    /// The values of a chart for a cluster: the files in order, as they are written, and the inline values.
    pub fn values_for(&self, cluster: Option<&Cluster>) -> (Vec<String>, Map<String, Value>) {
        let name = cluster.map_or("", |cluster| &*cluster.name);
        let (mut files, mut set) = (self.values.clone(), self.set.clone());
        if let (Some(PerCluster::Values(entries)), Some(cluster)) = (&self.per_cluster, cluster) {
            for entry in entries.iter().filter(|entry| entry.clusters.includes_cluster(cluster)) {
                files.extend(entry.values.iter().cloned());
                federate_gitops::merge_maps(&mut set, &entry.set);
            }
        }
        for file in &mut files {
            *file = file.replace(CLUSTER_PLACEHOLDER, name);
        }
        (files, set)
    }
}

/// Stands for the name of a cluster.
pub const CLUSTER_PLACEHOLDER: &str = "{cluster}";

/// A path within the repo.
fn read_path(path: &str, key: &'static str) -> Result<String, (&'static str, String)> {
    if path.contains("://") {
        return Err((key, format!("{path:?} is a URL: a source is in the repo")));
    }
    normalize_path(path).map_err(|_| (key, format!("{path:?} is not a path within the repo")))
}

/// Whether Helm accepts the name of a release, which is also that of a namespace.
pub fn is_release_name(name: &str) -> bool {
    name.len() <= 53
        && !name.is_empty()
        && !name.starts_with(['-', '.'])
        && !name.ends_with(['-', '.'])
        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '.')
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn kind(value: Value) -> Result<SourceKind, (&'static str, String)> {
        serde_json::from_value::<SourceConfig>(value).unwrap().read_kind()
    }

    #[test]
    fn a_source_is_about_one_thing() {
        let web = || SourceKind::Kustomize("apps/web".to_owned());
        assert_eq!(kind(json!({"kustomize": "./apps/web/"})), Ok(web()));
        assert_eq!(kind(json!({"path": "apps/web", "kustomize": {}})), Ok(web()));
        let overlays = SourceKind::Overlays("web/{cluster}".to_owned());
        assert_eq!(kind(json!({"kustomize": {}, "perCluster": "./web/{cluster}"})), Ok(overlays));
        assert_eq!(
            kind(json!({"chart": "c.tgz", "release": "a"})),
            Ok(SourceKind::Chart("c.tgz".to_owned()))
        );
        for (value, key) in [
            (json!({}), ""),
            (json!({"path": "a"}), ""),
            (json!({"kustomize": "a", "chart": "b"}), "/chart"),
            (json!({"kustomize": "a", "path": "b"}), "/path"),
            (json!({"kustomize": {}}), "/kustomize"),
            (json!({"kustomize": "../a"}), "/kustomize"),
            (json!({"chart": "https://example.com/c.tgz"}), "/chart"),
            (json!({"kustomize": "a", "cluster": "b"}), "/cluster"),
            (json!({"flux": "a/{cluster}", "cluster": "b"}), "/cluster"),
            (json!({"kustomize": {}, "perCluster": "a/b"}), "/perCluster"),
            (json!({"kustomize": {}, "perCluster": "../{cluster}"}), "/perCluster"),
            (json!({"kustomize": "a", "values": ["b"]}), "/values"),
            (json!({"kustomize": "a", "perCluster": "b"}), "/perCluster"),
            (json!({"kustomize": "a", "perCluster": []}), "/perCluster"),
            (json!({"chart": "a", "perCluster": "b/{cluster}"}), "/perCluster"),
            (json!({"chart": "a", "release": "--post-renderer"}), "/release"),
            (json!({"chart": "a", "namespace": "-n"}), "/namespace"),
            (json!({"chart": "a", "loadRestrictor": "none"}), "/loadRestrictor"),
        ] {
            assert_eq!(kind(value.clone()).unwrap_err().0, key, "{value}");
        }
    }

    #[test]
    fn every_matching_entry_adds_values() {
        let source: SourceConfig = serde_json::from_value(json!({
            "chart": "c", "values": ["a.yaml"], "set": {"x": {"a": 1, "b": 1}},
            "perCluster": [
                {"clusters": {"matchLabels": {"env": "prod"}}, "values": ["prod.yaml"], "set": {"x": {"b": 2}}},
                {"clusters": {"names": ["m2"]}, "values": ["no.yaml"]},
                {"values": ["values/{cluster}.yaml?"]},
            ],
        }))
        .unwrap();
        let mut cluster =
            Cluster::from_object(&federate_kubernetes::Object::from_path("v1", "Cluster", "m1", json!({})));
        cluster.labels.insert("env".to_owned(), "prod".to_owned());
        let (files, set) = source.values_for(Some(&cluster));
        assert_eq!(files, ["a.yaml", "prod.yaml", "values/m1.yaml?"]);
        assert_eq!(Value::Object(set), json!({"x": {"a": 1, "b": 2}}));
    }
}
