//! The Karmada dialect: Karmada's detector, scheduler, dependency distributor, binding controller and
//! override manager, as pure functions.

use crate::k8s::{Cluster, Finding, Object, ObjectRef};
use crate::repo::Role;

use super::{ControlPlane, Decided, Dialect, Explanation, Input, Placement, Previous, Variant};

mod api;
mod interpret;

/// The dialect.
pub struct Karmada;

impl Dialect for Karmada {
    fn name(&self) -> &'static str {
        "karmada"
    }

    fn role(&self, _api_version: &str, _kind: &str) -> Option<Role> {
        None
    }

    fn cluster(&self, object: &Object, _strict: bool) -> Result<Cluster, Finding> {
        Err(Finding::error("invalid-cluster", object, "not read yet"))
    }

    fn open<'a>(&self, _input: Input<'a>) -> Box<dyn ControlPlane + 'a> {
        Box::new(Compiled)
    }
}

struct Compiled;

impl ControlPlane for Compiled {
    fn check(&self) -> Vec<Finding> {
        Vec::new()
    }
    fn units(&self) -> usize {
        0
    }
    fn place(&self, _unit: usize, _previous: &Previous) -> Decided {
        Decided::default()
    }
    fn complete(&self, _decided: Vec<Decided>, _previous: &Previous) -> Decided {
        Decided::default()
    }
    fn manifests(&self, _placement: &Placement) -> Vec<Variant> {
        Vec::new()
    }
    fn explain(&self, _object: &ObjectRef, _previous: &Previous) -> Option<Explanation> {
        None
    }
}
