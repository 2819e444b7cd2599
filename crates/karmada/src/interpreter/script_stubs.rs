//! The operations in a build without Lua: no script answers.

use federate_kubernetes::{Object, ObjectRef};
use serde_json::Value;

use super::{Interpreter, InterpreterFailure, Script};

type Outcome = Option<Result<Value, InterpreterFailure>>;

impl Script<'_> {
    pub(super) fn find_compile_error(&self) -> Option<InterpreterFailure> {
        let _ = self.text;
        None
    }
}

#[expect(clippy::unused_self, reason = "the interface of the scripts")]
impl Interpreter<'_> {
    pub(super) fn interpret_replicas(&self, _: &Object) -> Outcome {
        let _ = self.now;
        None
    }

    pub(super) fn interpret_components(&self, _: &Object) -> Outcome {
        None
    }

    pub(crate) fn revise_replicas(&self, _: &Object, _: i64) -> Outcome {
        None
    }

    pub(crate) fn retain_live_fields(&self, _: &Value, _: &Value, _: &ObjectRef) -> Outcome {
        None
    }

    pub(crate) fn is_healthy(&self, _: &Object) -> Option<Result<bool, InterpreterFailure>> {
        None
    }

    pub(super) fn interpret_dependencies(
        &self,
        _: &Object,
    ) -> Option<Result<Vec<Value>, InterpreterFailure>> {
        None
    }

    pub(super) fn reflect_status(&self, _: &Object) -> Outcome {
        None
    }

    pub(super) fn aggregate_status(&self, _: &Object, _: Option<&Value>) -> Outcome {
        None
    }
}
