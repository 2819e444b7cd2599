//! Everything that is wrong or useless in a repo.

use std::collections::BTreeSet;

use federate_kubernetes::{Finding, ObjectRef};

use crate::Session;

impl Session {
    /// Everything that is wrong or useless: the [findings](Self::findings), and policies and overrides without
    /// effect, and scripts that fail. Of an object that is in error it is not said that it has no effect.
    pub fn check(&self) -> Vec<Finding> {
        let mut found = self.findings();
        let in_error: BTreeSet<ObjectRef> =
            found.iter().filter(|finding| finding.is_error()).filter_map(|f| f.object.clone()).collect();
        let engine = self.engine();
        let unused = (engine.examine().into_iter())
            .chain(engine.unused_policies(self.plan()))
            .chain(engine.unused_overrides(self.rendering()));
        found.extend(unused.filter(|f| f.object.as_ref().is_none_or(|id| !in_error.contains(id))));
        self.ordered(found)
    }
}
