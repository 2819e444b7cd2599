//! stub
use crate::k8s::Object;
pub(super) struct OverridePolicies<'a> { names: Vec<&'a Object> }
impl<'a> OverridePolicies<'a> {
    pub(super) fn new(o: impl Iterator<Item = &'a Object>) -> Self { Self { names: o.collect() } }
    pub(super) fn contains(&self, ns: Option<&str>, name: &str) -> bool { self.names.iter().any(|o| o.id.namespace.as_deref() == ns && o.id.name == name) }
}
