//! Modules: in some crates, a module names only modules below it, so that each can be read without those that use it. The
//! architecture says why others have circles.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests fail loudly")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use regex::Regex;

/// The crates without circles, as `docs/architecture.md` names them.
const WITHOUT_CIRCLES: [&str; 13] = [
    "check",
    "dialect",
    "engine",
    "kubefleet",
    "kubernetes",
    "live",
    "migrate",
    "reconcile",
    "report",
    "source",
    "sync",
    "sync-api",
    "yaml",
];

/// The names on the way from the root of a crate to a module.
type ModulePath = Vec<String>;

/// The production code of a crate by module, without comments and tests.
fn read_modules(folder: &Path, parent: &ModulePath, found: &mut BTreeMap<ModulePath, String>) {
    let test = Regex::new(r"#\[cfg\(test\)\]\s*mod \w+ \{").unwrap();
    for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        let mut module = parent.clone();
        if name != "lib" {
            module.push(name.clone());
        }
        if path.is_dir() {
            read_modules(&path, &module, found);
        } else if name != "tests" {
            let text = fs::read_to_string(&path).unwrap();
            let code = &text[..test.find(&text).map_or(text.len(), |found| found.start())];
            let lines = code.lines().filter(|line| !line.trim_start().starts_with("//"));
            found.insert(module, lines.collect::<Vec<_>>().join("\n"));
        }
    }
}

/// The paths of a tree of imports: `a::{b, c::{d}}` are `a::b` and `a::c::d`.
fn list_paths(tree: &str) -> Vec<String> {
    let Some(open) = tree.find('{') else {
        return vec![tree.split(" as ").next().unwrap().trim().to_owned()];
    };
    let (before, inside) = (&tree[..open], &tree[open + 1..tree.rfind('}').unwrap()]);
    let (mut parts, mut depth) = (vec![String::new()], 0);
    for character in inside.chars() {
        match character {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        match character {
            ',' if depth == 0 => parts.push(String::new()),
            _ => parts.last_mut().unwrap().push(character),
        }
    }
    let parts = parts.iter().filter(|part| !part.trim().is_empty());
    parts.flat_map(|part| list_paths(&format!("{}{}", before.trim(), part.trim()))).collect()
}

/// The module that a path leads to from another one, and the name in it; `None` for other crates.
fn resolve_path(
    modules: &BTreeMap<ModulePath, String>,
    from: &ModulePath,
    path: &str,
) -> Option<(ModulePath, Option<String>)> {
    let mut steps = path.split("::").map(str::trim).peekable();
    let mut module = match *steps.peek()? {
        "crate" => ModulePath::new(),
        "self" | "super" => from.clone(),
        first => {
            let below = [from.as_slice(), &[first.to_owned()]].concat();
            return modules
                .contains_key(&below)
                .then(|| resolve_path(modules, from, &format!("self::{path}")))?;
        }
    };
    for step in steps {
        match step {
            "crate" | "self" => {}
            "super" => drop(module.pop()),
            name => {
                module.push(name.to_owned());
                if !modules.contains_key(&module) {
                    module.pop();
                    return Some((module, Some(name.to_owned())));
                }
            }
        }
    }
    Some((module, None))
}

/// The modules that each module names. What it only passes on is named by those who use it.
fn find_uses(modules: &BTreeMap<ModulePath, String>) -> BTreeMap<ModulePath, BTreeSet<ModulePath>> {
    let import = Regex::new(r"(?m)^\s*(pub(?:\([^)]*\))? )?use ([^;]+);").unwrap();
    let inline = Regex::new(r"\b(?:crate|super|self)(?:::\w+)+").unwrap();
    let mut exported: BTreeMap<(ModulePath, String), ModulePath> = BTreeMap::new();
    let mut named: Vec<(&ModulePath, String)> = Vec::new();
    for (module, code) in modules {
        for found in import.captures_iter(code) {
            for path in list_paths(&found[2]) {
                if found.get(1).is_none() {
                    named.push((module, path));
                } else if let Some((target, Some(name))) = resolve_path(modules, module, &path) {
                    exported.insert((module.clone(), name), target);
                }
            }
        }
        let rest = import.replace_all(code, "");
        named.extend(inline.find_iter(&rest).map(|found| (module, found.as_str().to_owned())));
    }
    let mut uses: BTreeMap<ModulePath, BTreeSet<ModulePath>> = BTreeMap::new();
    for (module, path) in named {
        let Some((target, name)) = resolve_path(modules, module, &path) else { continue };
        let is_parent = name.is_none() && module.starts_with(&target);
        let target = name.and_then(|name| exported.get(&(target.clone(), name)).cloned()).unwrap_or(target);
        if target != *module && !is_parent {
            uses.entry(module.clone()).or_default().insert(target);
        }
    }
    uses
}

/// Takes away the modules that name no others, until none is left but those in circles and those that name them.
fn find_circles(
    mut uses: BTreeMap<ModulePath, BTreeSet<ModulePath>>,
) -> BTreeMap<ModulePath, BTreeSet<ModulePath>> {
    loop {
        let left: BTreeSet<ModulePath> = uses.keys().cloned().collect();
        for named in uses.values_mut() {
            named.retain(|module| left.contains(module));
        }
        let before = uses.len();
        uses.retain(|_, named| !named.is_empty());
        if uses.len() == before {
            return uses;
        }
    }
}

#[test]
fn modules_of_some_crates_name_only_modules_below_them() {
    for name in WITHOUT_CIRCLES {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("crates").join(name).join("src");
        let mut modules = BTreeMap::new();
        read_modules(&folder, &ModulePath::new(), &mut modules);
        assert!(modules.len() > 5, "{name}: {modules:?}");
        let circles = find_circles(find_uses(&modules));
        assert!(circles.is_empty(), "modules of {name} name each other: {circles:#?}");
    }
}

#[test]
fn circles_are_found() {
    let module = |name: &str| vec![name.to_owned()];
    let text = |text: &str| text.to_owned();
    let modules = BTreeMap::from([
        (ModulePath::new(), text("mod a;\nmod b;\nmod c;\npub use b::Thing;")),
        (module("a"), text("use super::Thing;")),
        (module("b"), text("use crate::{\n    c::{Other, self},\n};")),
        (module("c"), text("fn read() -> super::a::Value {}")),
    ]);
    let circles = find_circles(find_uses(&modules));
    assert!(circles[&module("a")].contains(&module("b")), "{circles:?}");
    assert!(circles.contains_key(&module("c")));
    let straight =
        BTreeMap::from([(module("a"), text("use super::b::Thing;")), (module("b"), text("struct Thing;"))]);
    assert!(find_circles(find_uses(&straight)).is_empty());
}
