//! `spec.push` of a `Sync`: the registry that gets what is rendered.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::source::SecretRef;

/// The tag if none is named.
const DEFAULT_TAG: &str = "latest";
/// How many tags a push moves at most: each is a request for each cluster.
pub const MAX_TAGS: usize = 16;

/// Push what is rendered to a registry: an artifact per cluster, and one with the plan.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PushSpec {
    /// The artifacts: `oci://HOST/REPOSITORY`. `{cluster}` in it stands for the name of each cluster, and for `plan`; without it,
    /// they are the last part of the address.
    #[schemars(regex(pattern = "^oci://"))]
    pub url: String,
    /// The tags that move to what is rendered; `latest` by default. The plan with the first one is the scheduler's memory.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), inner(regex(pattern = "^[a-zA-Z0-9_][a-zA-Z0-9_.-]{0,127}$")))]
    pub tags: Vec<String>,
    /// The media types: `oci` by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub media_types: Option<MediaTypes>,
    /// The Secret with the credentials of the registry, of the type `kubernetes.io/dockerconfigjson`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<SecretRef>,
    /// Whether the registry is reached without TLS. It must be on this machine.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub insecure: bool,
    /// The most of a cluster's objects that a round may delete, in percent; 30 by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 100))]
    pub prune_limit: Option<u8>,
}

/// The media types of artifacts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum MediaTypes {
    /// Those of the OCI image specification, which Argo CD and Flux read.
    #[default]
    Oci,
    /// Those of `flux push artifact`, which Argo CD must be configured for.
    Flux,
}

impl PushSpec {
    /// The tags that move.
    pub fn tags(&self) -> Vec<String> {
        if self.tags.is_empty() { vec![DEFAULT_TAG.to_owned()] } else { self.tags.clone() }
    }

    /// The tag whose plan is the scheduler's memory.
    pub fn plan_tag(&self) -> &str {
        self.tags.first().map_or(DEFAULT_TAG, String::as_str)
    }
}
