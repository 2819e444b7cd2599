//! stub
use crate::k8s::Object;
use crate::k8s::selector::LabelSelector;
pub(super) struct Dependency { pub api_version: String, pub kind: String, pub namespace: Option<String>, pub target: Target }
#[allow(dead_code)]
pub(super) enum Target { Name(String), Labels(LabelSelector) }
pub(super) fn dependencies(_o: &Object) -> Vec<Dependency> { Vec::new() }
