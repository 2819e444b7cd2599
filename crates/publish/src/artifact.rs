//! The form of OCI artifacts: one layer with the manifests of a cluster, or with the plan, that Flux and Argo CD read.
//!
//! Equal files give equal bytes: paths are sorted, files have no owner and no time.
//!
//! Facts: the OCI image specification (manifest, empty config, annotations); the media types that `flux push artifact` writes.
//! Argo CD takes one layer of the types that the specification has for files, Flux the first layer of any type.

use std::collections::BTreeMap;
use std::io::{self, Read};

use federate_kubernetes::hex::to_hex;
use flate2::read::GzDecoder;
use flate2::{Compression, GzBuilder};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::paths::{PLACEMENTS, cluster_folder};
use crate::tree::OutputTree;

/// The config of artifacts: none.
pub const EMPTY_CONFIG: &[u8] = b"{}";

/// The media type of image manifests.
const MANIFEST_TYPE: &str = "application/vnd.oci.image.manifest.v1+json";

/// The annotation of a plan's artifact with the digest of all manifests that are rendered with it.
const MANIFESTS_ANNOTATION: &str = "dev.federate.manifests";

/// The mode of files in layers.
const FILE_MODE: u32 = 0o644;

/// The media types of an artifact.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ArtifactTypes {
    /// Those of the image specification.
    #[default]
    Oci,
    /// Those of `flux push artifact`.
    Flux,
}

impl ArtifactTypes {
    fn config_type(self) -> &'static str {
        match self {
            Self::Oci => "application/vnd.oci.empty.v1+json",
            Self::Flux => "application/vnd.cncf.flux.config.v1+json",
        }
    }

    fn layer_type(self) -> &'static str {
        match self {
            Self::Oci => "application/vnd.oci.image.layer.v1.tar+gzip",
            Self::Flux => "application/vnd.cncf.flux.content.v1.tar+gzip",
        }
    }

    /// The type of the artifact, which the specification demands beside an empty config.
    fn artifact_type(self) -> Option<&'static str> {
        match self {
            Self::Oci => Some("application/vnd.federate.manifests.v1"),
            Self::Flux => None,
        }
    }
}

/// A packed layer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArtifactLayer {
    /// The compressed archive.
    pub bytes: Vec<u8>,
    /// Its digest.
    pub digest: String,
}

/// A blob that a manifest names.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BlobReference {
    /// The media type.
    pub media_type: String,
    /// The digest.
    pub digest: String,
    /// The number of bytes.
    pub size: u64,
}

/// The manifest of an artifact.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ArtifactManifest {
    schema_version: u8,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    media_type: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    artifact_type: Option<String>,
    config: BlobReference,
    layers: Vec<BlobReference>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    annotations: BTreeMap<String, String>,
}

/// Why a layer cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LayerError {
    /// The archive is damaged, or not one.
    #[error("it is not a compressed archive: {0}")]
    Archive(#[from] io::Error),
    /// It is larger than allowed.
    #[error("it unpacks to more than {} MiB", .0 >> 20)]
    TooLarge(u64),
}

/// Packs the manifests of a cluster: `<namespace or _cluster>/<kind>[.<group>]_<name>.yaml`.
pub fn pack_cluster(tree: &OutputTree, cluster: &str) -> io::Result<ArtifactLayer> {
    let folders = tree.files().get(&*cluster_folder(cluster));
    let files = folders.into_iter().flatten().flat_map(|(namespace, files)| {
        files.iter().map(move |file| (format!("{namespace}/{}", file.name()), file.text()))
    });
    pack_files(files)
}

/// Packs the plan, as `placements.yaml`.
pub fn pack_plan(tree: &OutputTree) -> io::Result<ArtifactLayer> {
    pack_files([(PLACEMENTS.to_owned(), tree.placements())].into_iter())
}

/// The digest of the manifests of all clusters. Equal plans may come with other manifests.
pub fn digest_manifests(tree: &OutputTree) -> String {
    let mut hasher = Sha256::new();
    for (folder, namespaces) in tree.files() {
        for (namespace, files) in namespaces {
            for file in files {
                for text in [&**folder, &**namespace, file.name(), file.text()] {
                    hasher.update((text.len() as u64).to_be_bytes());
                    hasher.update(text.as_bytes());
                }
            }
        }
    }
    format_digest(&hasher.finalize())
}

/// The number of manifests of a cluster.
pub fn count_objects(tree: &OutputTree, cluster: &str) -> usize {
    let folders = tree.files().get(&*cluster_folder(cluster));
    folders.into_iter().flat_map(BTreeMap::values).map(Vec::len).sum()
}

fn pack_files<'f>(files: impl Iterator<Item = (String, &'f str)>) -> io::Result<ArtifactLayer> {
    let encoder = GzBuilder::new().mtime(0).write(Vec::new(), Compression::default());
    let mut archive = tar::Builder::new(encoder);
    for (path, text) in files {
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(tar::EntryType::Regular);
        header.set_mode(FILE_MODE);
        header.set_uid(0);
        header.set_gid(0);
        header.set_mtime(0);
        header.set_size(u64::try_from(text.len()).map_err(io::Error::other)?);
        archive.append_data(&mut header, path, text.as_bytes())?;
    }
    let bytes = archive.into_inner()?.finish()?;
    let digest = compute_digest(&bytes);
    Ok(ArtifactLayer { bytes, digest })
}

/// Unpacks the files of a layer, of at most `max_bytes` together.
pub fn unpack_layer(bytes: &[u8], max_bytes: u64) -> Result<BTreeMap<String, String>, LayerError> {
    let mut limited = GzDecoder::new(bytes).take(max_bytes.saturating_add(1));
    let mut files = BTreeMap::new();
    let read = read_entries(&mut limited, &mut files);
    if limited.limit() == 0 {
        return Err(LayerError::TooLarge(max_bytes));
    }
    read?;
    Ok(files)
}

fn read_entries(archive: &mut impl Read, files: &mut BTreeMap<String, String>) -> io::Result<()> {
    for entry in tar::Archive::new(archive).entries()? {
        let mut entry = entry?;
        if !entry.header().entry_type().is_file() {
            continue;
        }
        let path = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
        let mut text = String::new();
        entry.read_to_string(&mut text)?;
        files.insert(path.trim_start_matches("./").to_owned(), text);
    }
    Ok(())
}

impl ArtifactManifest {
    /// The manifest of a layer.
    pub fn new(types: ArtifactTypes, layer: &ArtifactLayer, annotations: BTreeMap<String, String>) -> Self {
        let reference = |media_type: &str, bytes: &[u8], digest: String| BlobReference {
            media_type: media_type.to_owned(),
            digest,
            size: bytes.len().try_into().unwrap_or(u64::MAX),
        };
        Self {
            schema_version: 2,
            media_type: Some(MANIFEST_TYPE.to_owned()),
            artifact_type: types.artifact_type().map(str::to_owned),
            config: reference(types.config_type(), EMPTY_CONFIG, compute_digest(EMPTY_CONFIG)),
            layers: vec![reference(types.layer_type(), &layer.bytes, layer.digest.clone())],
            annotations,
        }
    }

    /// The manifest of the layer with a plan, and with the digest of the manifests that are rendered with it.
    #[must_use]
    pub fn with_manifests(mut self, digest: String) -> Self {
        self.annotations.insert(MANIFESTS_ANNOTATION.to_owned(), digest);
        self
    }

    /// Reads a manifest; `None` if it is not that of an artifact.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        serde_json::from_slice(bytes).ok()
    }

    /// The bytes of the manifest.
    pub fn to_bytes(&self) -> serde_json::Result<Vec<u8>> {
        serde_json::to_vec_pretty(self)
    }

    /// Its config.
    pub fn config(&self) -> &BlobReference {
        &self.config
    }

    /// Its only layer; `None` if it has none, or several.
    pub fn layer(&self) -> Option<&BlobReference> {
        match self.layers.as_slice() {
            [layer] => Some(layer),
            _ => None,
        }
    }

    /// Whether another manifest has the same files in the same form, and, if they are plans, comes with the same manifests.
    pub fn has_same_content(&self, other: &Self) -> bool {
        self.config == other.config && self.layers == other.layers && self.manifests() == other.manifests()
    }

    /// The digest of the manifests that are rendered with a plan.
    fn manifests(&self) -> Option<&String> {
        self.annotations.get(MANIFESTS_ANNOTATION)
    }
}

/// The digest of bytes as manifests write it.
pub fn compute_digest(bytes: &[u8]) -> String {
    format_digest(&Sha256::digest(bytes))
}

fn format_digest(bytes: &[u8]) -> String {
    format!("sha256:{}", to_hex(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pack(files: &[(&str, &str)]) -> ArtifactLayer {
        pack_files(files.iter().map(|(path, text)| ((*path).to_owned(), *text))).unwrap()
    }

    #[test]
    fn equal_files_have_equal_digests() {
        let files = [("a/x.yaml", "a: 1\n"), ("b/y.yaml", "b: 2\n")];
        assert_eq!(pack(&files), pack(&files));
        // The same on every machine: what changes here changes what every cluster pulls.
        assert_eq!(
            pack(&files).digest,
            "sha256:1e829b4ed130f85f0b7d9bc1222e65c29af5672b76fa8fffee74e27d7b19fb20"
        );
        assert_ne!(pack(&files).digest, pack(&files[..1]).digest);
    }

    #[test]
    fn long_paths_come_back() {
        let long = format!("shop/configmap_{}.yaml", "x".repeat(230));
        let files = [("_cluster/namespace_shop.yaml", "a: é\n"), (long.as_str(), "b: 2\n")];
        let read = unpack_layer(&pack(&files).bytes, 1 << 20).unwrap();
        let expected: Vec<(&str, &str)> =
            read.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
        assert_eq!(expected, files);
        assert!(unpack_layer(&pack(&[]).bytes, 1 << 20).unwrap().is_empty());
    }

    #[test]
    fn layers_of_others_are_limited() {
        let bomb = "a".repeat(10 << 20);
        let bytes = pack(&[("a", &bomb)]).bytes;
        assert!(bytes.len() < 100_000);
        assert!(matches!(unpack_layer(&bytes, 1 << 20), Err(LayerError::TooLarge(_))));
        assert!(matches!(unpack_layer(b"no archive", 1 << 20), Err(LayerError::Archive(_))));
        let cut = bytes.get(..bytes.len() / 2).unwrap();
        assert!(matches!(unpack_layer(cut, 1 << 30), Err(LayerError::Archive(_))));
    }

    #[test]
    fn manifests_are_those_of_the_specification() {
        let annotations =
            BTreeMap::from([("org.opencontainers.image.revision".to_owned(), "main@sha1:0".to_owned())]);
        let layer = pack(&[("a", "b")]);
        let manifest = ArtifactManifest::new(ArtifactTypes::Oci, &layer, annotations.clone());
        let text: serde_json::Value = serde_json::from_slice(&manifest.to_bytes().unwrap()).unwrap();
        assert_eq!(text["schemaVersion"], 2);
        assert_eq!(
            text["config"]["digest"],
            "sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"
        );
        assert_eq!(text["config"]["mediaType"], "application/vnd.oci.empty.v1+json");
        assert_eq!(text["layers"][0]["mediaType"], "application/vnd.oci.image.layer.v1.tar+gzip");
        assert_eq!(ArtifactManifest::parse(&manifest.to_bytes().unwrap()), Some(manifest.clone()));
        let later = ArtifactManifest::new(ArtifactTypes::Oci, &layer, BTreeMap::new());
        assert!(manifest.has_same_content(&later) && manifest != later);
        assert!(!manifest.has_same_content(&ArtifactManifest::new(ArtifactTypes::Flux, &layer, annotations)));
    }
}
