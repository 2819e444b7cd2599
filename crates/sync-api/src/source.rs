//! The source of a `Sync`: the repository or folder, its revision, and the signatures that are verified.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The names of objects.
pub(crate) const DNS_SUBDOMAIN_PATTERN: &str =
    r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$";

/// What is watched.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SyncSource {
    /// The address of a git repository (https, ssh or a path), or a local folder: a path without `ref` is read
    /// as it is on disk. Paths start at the file of the Sync.
    pub url: String,
    /// The revision of a git repository; its HEAD by default.
    #[serde(default, rename = "ref", skip_serializing_if = "Option::is_none")]
    pub reference: Option<SourceRef>,
    /// The folder of the repository; its root by default.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub path: String,
    /// The files and folders of `path` that are read, instead of `paths` in federate.yaml; all by default.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<String>,
    /// The signatures that are verified before anything is read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verify: Option<SourceVerification>,
    /// Whether submodules are read, too. They must be on the server of the source.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub recurse_submodules: bool,
    /// The Secret with the credentials: `username` and `password`; `bearerToken`; `githubAppID`,
    /// `githubAppInstallationID` and `githubAppPrivateKey`; or `identity`, `known_hosts` and `password`; `ca.crt`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<SecretRef>,
    /// The Secret with the proxy: `address`, `username`, `password`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proxy_secret_ref: Option<SecretRef>,
}

/// The revision of a git repository: exactly one of these.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SourceRef {
    /// A branch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// A tag.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tag: Option<String>,
    /// The newest tag in a range of versions, such as `1.2.x` or `>=1.0.0 <2.0.0`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub semver: Option<String>,
    /// Any reference by its full name, such as `refs/pull/420/head`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// A commit by its full hash.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
}

/// The signatures that are verified.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SourceVerification {
    /// What must be signed.
    pub mode: VerificationMode,
    /// The Secret with the public keys that may sign: each of its keys holds armored OpenPGP keys, lines of OpenSSH's
    /// allowed signers, or both.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<SecretRef>,
}

/// What must be signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub enum VerificationMode {
    /// The commit.
    #[serde(rename = "HEAD")]
    Head,
    /// The tag that `ref.tag` names.
    Tag,
    /// Both.
    #[serde(rename = "TagAndHEAD")]
    TagAndHead,
}

impl SourceRef {
    /// The references that are named, which should be one.
    pub fn named_references(&self) -> impl Iterator<Item = &String> {
        [&self.branch, &self.tag, &self.semver, &self.name, &self.commit].into_iter().flatten()
    }

    /// The full name.
    pub fn full_name(&self) -> String {
        match (&self.branch, &self.tag, &self.name, &self.commit) {
            (Some(branch), ..) => format!("refs/heads/{branch}"),
            (_, Some(tag), ..) => format!("refs/tags/{tag}"),
            (_, _, Some(name), _) => name.clone(),
            (.., Some(commit)) => commit.clone(),
            _ => "HEAD".to_owned(),
        }
    }

    /// The name as people write it.
    pub fn display_name(&self) -> &str {
        self.named_references().next().map_or("HEAD", String::as_str)
    }
}

/// A Secret in the namespace of the Sync.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SecretRef {
    /// Its name.
    #[schemars(regex(pattern = DNS_SUBDOMAIN_PATTERN), length(max = 253))]
    pub name: String,
}
