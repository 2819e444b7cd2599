//! Settings of `federate.yaml` that act on more than what is rendered: a pull request cannot change them unseen.

use serde_json::{Value, json};

use super::committed;
use crate::sandbox::Sandbox;

/// The card of a page with what must be decided.
fn decisions(page: &str) -> &str {
    let start = page.find("id=\"decide\"").unwrap();
    &page[start..start + page[start..].find("</section>").unwrap()]
}

/// A repo in which `federate.yaml` has changed.
fn changed(before: &str, after: &str) -> Sandbox {
    let sandbox = Sandbox::web();
    if !before.is_empty() {
        sandbox.write("federate.yaml", before);
    }
    let sandbox = committed(sandbox);
    sandbox.write("federate.yaml", after);
    sandbox
}

#[test]
fn settings_that_act_in_clusters_do_not_change_unseen() {
    for (before, after, path, line) in [
        ("", "contexts: {m1: prod}\n", "/contexts/m1", 1),
        ("contexts: {m1: stage}\n", "contexts:\n  m1: prod\n", "/contexts/m1", 2),
        ("contexts: {m1: stage}\n", "contexts: {}\n", "/contexts/m1", 1),
        ("", "drift: {ignore: [{paths: [/]}]}\n", "/drift/ignore/0", 1),
        ("", "drift:\n  people: [kubectl]\n", "/drift/people", 2),
        ("apply: {noTakeOver: false}\n", "apply: {noTakeOver: true}\n", "/apply/noTakeOver", 1),
        ("", "apply: {resetIgnored: true}\n", "/apply/resetIgnored", 1),
        (
            "",
            "apply:\n  healthChecks:\n  - {apiVersion: v1, kind: ConfigMap, current: 'true'}\n",
            "/apply/healthChecks/0",
            3,
        ),
        ("unplaced: error\n", "unplaced: warn\n", "/unplaced", 1),
        ("", "dialects: {karmada: {unclaimed: Remove}}\n", "/dialects/karmada", 1),
    ] {
        let repo = changed(before, after);
        let key = path[1..].replace('/', ".");
        let text = repo.run("diff --from main").code(1).out;
        assert!(text.contains(&format!("  ! {key}: ")), "{after}: {text}");
        assert!(text.contains(&format!("(federate.yaml:{line})\n")), "{after}: {text}");
        let markdown = repo.run("diff --from main -o markdown").code(1).out;
        let (title, caution) = markdown.split_once("> [!CAUTION]\n").unwrap_or_else(|| panic!("{markdown}"));
        assert!(title.contains("### federate: 1 setting changes what is done in clusters\n"), "{markdown}");
        assert!(caution.starts_with(&format!("> - the setting `{key}` changes: ")), "{markdown}");
        assert!(caution.contains(&format!("`federate.yaml:{line}`")), "{markdown}");
        assert!(!markdown.contains("without effect"), "{markdown}");
        let page = repo.run("diff --from main -o html").code(1).out;
        assert!(decisions(&page).contains(&key), "{}", decisions(&page));
        let json = repo.run("diff --from main -o json").code(1).json();
        let setting = &json["settings"][0];
        assert_eq!((&setting["path"], &setting["file"]), (&json!(path), &json!("federate.yaml")), "{json}");
        assert_eq!((&setting["line"], &json["verdict"]["counts"]["settings"]), (&json!(line), &json!(1)));
        assert_eq!(json["verdict"]["sentence"], "1 setting changes what is done in clusters.");
    }
}

#[test]
fn values_before_and_after_are_shown_without_credentials() {
    let repo = changed("contexts: {m1: stage}\n", "contexts: {m1: prod, password-store: hunter2}\n");
    let json = repo.run("diff --from main -o json").code(1).json();
    let settings = json["settings"].as_array().unwrap();
    assert_eq!((&settings[0]["from"], &settings[0]["to"]), (&json!("stage"), &json!("prod")));
    for output in ["table", "markdown", "json", "html"] {
        let shown = repo.run(&format!("diff --from main -o {output}")).code(1).out;
        assert!(!shown.contains("hunter2"), "{shown}");
    }
}

#[test]
fn what_is_seen_in_renderings_or_changes_nothing_is_no_caution() {
    for (before, after) in [
        ("", "apply: {noTakeOver: false}\ndrift: {ignore: []}\n"),
        ("contexts: {m1: m1}\n", "contexts:\n  m1: 'm1'\n"),
        ("values: {a: 1}\n", "values: {a: hunter2}\n"),
        ("", "apply: {rolling: [Rollout.argoproj.io]}\n"),
        ("", "kubernetesVersion: '1.31'\n"),
    ] {
        let repo = changed(before, after);
        let ran = repo.run("diff --from main -o json").code(0);
        assert_eq!(ran.json()["settings"], Value::Null, "{after}");
        let markdown = repo.run("diff --from main -o markdown").code(0).out;
        assert!(!markdown.contains("CAUTION"), "{markdown}");
    }
}

#[test]
fn releases_of_the_command_line_are_no_setting_of_the_repo() {
    let repo = committed(Sandbox::web());
    let ran = repo.run("diff --from-version karmada=1.15 --to-version karmada=1.16 -o json");
    assert_eq!(ran.json()["settings"], Value::Null, "{ran:#?}");
}
