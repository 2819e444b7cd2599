//! The operations in a build without Lua: no script answers.

use federate_kubernetes::{Object, ObjectRef};
use serde_json::Value;

use super::{Failed, Interpreter, Script};

type Outcome = Option<Result<Value, Failed>>;

impl Script<'_> {
    pub(super) fn uncompiled(&self) -> Option<Failed> {
        let _ = self.text;
        None
    }
}

#[expect(clippy::unused_self, reason = "the interface of the scripts")]
impl Interpreter<'_> {
    pub(super) fn replicas(&self, _: &Object) -> Outcome {
        let _ = self.now;
        None
    }

    pub(super) fn components(&self, _: &Object) -> Outcome {
        None
    }

    pub(crate) fn revised(&self, _: &Object, _: i64) -> Outcome {
        None
    }

    pub(crate) fn retained(&self, _: &Value, _: &Value, _: &ObjectRef) -> Outcome {
        None
    }

    pub(crate) fn is_healthy(&self, _: &Object) -> Option<Result<bool, Failed>> {
        None
    }

    pub(super) fn references(&self, _: &Object) -> Option<Result<Vec<Value>, Failed>> {
        None
    }

    pub(super) fn reflected(&self, _: &Object) -> Outcome {
        None
    }

    pub(super) fn aggregated(&self, _: &Object, _: Option<&Value>) -> Outcome {
        None
    }
}
