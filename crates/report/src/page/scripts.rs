//! The modules of the script of a page, and how they become one script.

/// The kinds of pages. Each has modules of its own besides those that all share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageView {
    /// Where objects are placed.
    Placements,
    /// What drifted.
    Drift,
    /// What is wrong in a repo.
    Check,
    /// The Syncs of a loop.
    Syncs,
    /// What a migration changes.
    Migration,
}

const SHARED_MODULES: [&str; 4] = [
    include_str!("../../page/dom.js"),
    include_str!("../../page/model.js"),
    include_str!("../../page/filter.js"),
    include_str!("../../page/page.js"),
];

const MATRIX_MODULE: &str = include_str!("../../page/matrix.js");
const VALUES_MODULE: &str = include_str!("../../page/values.js");
const LIVE_MODULE: &str = include_str!("../../page/live.js");

impl PageView {
    /// All of them.
    #[cfg(test)]
    pub(super) const ALL: [Self; 5] =
        [Self::Placements, Self::Drift, Self::Check, Self::Syncs, Self::Migration];

    /// The modules that it does not share with all others, each after those that it imports.
    pub(super) fn own_modules(self) -> &'static [&'static str] {
        match self {
            Self::Placements => &[
                MATRIX_MODULE,
                include_str!("../../page/data.js"),
                include_str!("../../page/cells.js"),
                include_str!("../../page/moves.js"),
                VALUES_MODULE,
                include_str!("../../page/capacity.js"),
                include_str!("../../page/fleet.js"),
                include_str!("../../page/findings.js"),
                include_str!("../../page/losses.js"),
                include_str!("../../page/pane.js"),
                LIVE_MODULE,
                include_str!("../../page/placements.js"),
            ],
            Self::Drift => &[MATRIX_MODULE, VALUES_MODULE, LIVE_MODULE, include_str!("../../page/drift.js")],
            Self::Check => &[LIVE_MODULE, include_str!("../../page/check.js")],
            Self::Migration => &[include_str!("../../page/migration.js")],
            Self::Syncs => &[MATRIX_MODULE, include_str!("../../page/syncs.js")],
        }
    }

    /// All modules, each after those that it imports.
    pub(super) fn modules(self) -> impl Iterator<Item = &'static str> {
        SHARED_MODULES.into_iter().chain(self.own_modules().iter().copied())
    }

    /// The modules as one script: a page cannot import modules of its own without an address for each of them. Names are unique
    /// over all modules, so that imports and exports can be left out.
    pub(super) fn join_modules(self) -> String {
        let mut script = String::from("'use strict';(() => {\n");
        for line in self.modules().flat_map(str::lines).filter(|line| !line.starts_with("import ")) {
            script.push_str(line.strip_prefix("export ").unwrap_or(line));
            script.push('\n');
        }
        script.push_str("})();\n");
        script
    }
}
