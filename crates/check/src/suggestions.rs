//! What findings suggest in place of a name that is not there.

use std::collections::BTreeSet;

use federate_kubernetes::finding;
use federate_kubernetes::schema::find_similar;

/// How many known names a message lists.
const MAX_LISTED: usize = 5;

/// The names for which a similar one is searched. Each is compared with all known names.
const MAX_SEARCHES: usize = 500;

/// Searches similar names, as long as they are few.
pub(super) struct Suggestions {
    left: usize,
}

impl Suggestions {
    pub(super) fn new() -> Self {
        Self { left: MAX_SEARCHES }
    }

    /// The known name that is most similar; `None` too where many were searched before.
    pub(super) fn find_similar<'k>(&mut self, name: &str, known: &[&'k str]) -> Option<&'k str> {
        self.left = self.left.checked_sub(1)?;
        find_similar(name, known)
    }

    /// The help for a name that is not there.
    pub(super) fn suggest_instead(&mut self, name: &str, known: &[&str], what: &str) -> String {
        match self.left.checked_sub(1) {
            Some(left) => {
                self.left = left;
                suggest_instead(name, known, what)
            }
            None => list_available(known, what),
        }
    }
}

/// The help for a name that is not there: the nearest one, or what there is.
pub(super) fn suggest_instead(name: &str, known: &[&str], what: &str) -> String {
    let near = find_similar(name, known);
    near.map_or_else(|| list_available(known, what), |near| format!("did you mean `{near}`?"))
}

/// What there is in place of a name that is not there and has no similar one.
pub(super) fn list_available(known: &[&str], what: &str) -> String {
    match known {
        [] => format!("the repo has no {what}"),
        known => format!("the repo has {}", finding::join_names(known, MAX_LISTED)),
    }
}

/// The distinct values of an iterator, sorted.
pub(super) fn distinct_names<'s>(names: impl Iterator<Item = &'s str>) -> Vec<&'s str> {
    names.collect::<BTreeSet<_>>().into_iter().collect()
}
