//! What a page allows and contains.

#![allow(clippy::unwrap_used, reason = "tests fail loudly")]

use std::collections::BTreeSet;

use super::*;

#[test]
fn modules_are_joined_without_imports() {
    for view in PageView::ALL {
        let script = view.join_modules();
        assert!(!script.contains("\nimport ") && !script.contains("\nexport "), "{view:?}");
        assert!(!script.contains("</script"), "the script of {view:?} would end early");
    }
    assert!(!STYLE.contains("</style"), "the style would end early");
}

#[test]
fn top_level_names_are_unique() {
    let modules: BTreeSet<&str> = PageView::ALL.into_iter().flat_map(PageView::modules).collect();
    let mut names: Vec<&str> = Vec::new();
    for line in modules.iter().flat_map(|module| module.lines()) {
        let line = line.strip_prefix("export ").unwrap_or(line);
        let line = line.strip_prefix("async ").unwrap_or(line);
        let declared = ["function ", "class ", "const "].iter().find_map(|word| line.strip_prefix(word));
        names.extend(declared.and_then(|rest| rest.split([' ', '(', '=', '{']).next()));
    }
    let all = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(all, names.len(), "two modules declare the same name");
    assert!(all > 40);
}
