//! `--path`, `--config`, and links within one git repository.

use crate::sandbox::{CLUSTERS, POLICY, Sandbox, WEB};

/// Environments with shared clusters and policies.
fn environments() -> Sandbox {
    let sandbox = Sandbox::new().file("shared/clusters.yaml", CLUSTERS).file("shared/policy.yaml", POLICY);
    sandbox.write("envs/dev/web.yaml", WEB.replace("replicas: 4", "replicas: 2"));
    sandbox.write("envs/prod/web.yaml", WEB.replace("replicas: 4", "replicas: 6"));
    sandbox.git("init -q -b main");
    sandbox.git("add -A");
    sandbox.git("commit -qm one");
    sandbox
}

/// The replicas of the Deployment in a plan.
fn replicas(plan: &serde_json::Value) -> u64 {
    let rows = plan["placements"].as_array().unwrap();
    let row = rows.iter().find(|row| row["object"]["kind"] == "Deployment").unwrap();
    row["clusters"].as_array().unwrap().iter().map(|placed| placed["replicas"].as_u64().unwrap()).sum()
}

#[test]
fn each_environment_is_planned_from_one_checkout() {
    let sandbox = environments();
    for (environment, expected) in [("dev", 2), ("prod", 6)] {
        for more in ["", " --rev HEAD"] {
            let line = format!("plan . --path shared --path envs/{environment} -o json{more}");
            assert_eq!(replicas(&sandbox.run(&line).json()), expected, "{line}");
        }
        let line = format!("check --path ./shared/ --path envs/../envs/{environment} -o json");
        let found = sandbox.run(&line).json();
        assert!(!found.to_string().contains("duplicate-object"), "{found:#}");
        let line = format!("render --path shared --path envs/{environment} --out out/{environment}");
        sandbox.run(&line).code(0);
        assert!(!sandbox.files(&format!("out/{environment}")).is_empty());
    }
    let file = sandbox.run("plan --path shared --path envs/prod/web.yaml -o json").json();
    assert_eq!(replicas(&file), 6);
    let explained = sandbox.run("explain deploy/web --path shared --path envs/dev").code(0).out;
    assert!(explained.contains("envs/dev/web.yaml") || explained.contains("web"), "{explained}");
}

#[test]
fn a_path_that_does_not_exist_is_an_error_that_says_where_it_is() {
    let sandbox = environments();
    for line in ["plan --path shared --path envs/prd", "check --path shared --path envs/prd --rev HEAD"] {
        let ran = sandbox.run(line).code(2);
        assert!(ran.err.contains("--path envs/prd: the repo . has no such file or folder"), "{ran:#?}");
        assert!(ran.out.is_empty(), "{ran:#?}");
    }
    for (line, meant) in [
        ("plan --path shared --path envs/prd", "envs/prod"),
        ("check ens/dev", "envs/dev"),
        ("check envs/dve/", "envs/dev"),
        ("init ENVS --cluster m1", "envs"),
    ] {
        let ran = sandbox.run(line).code(2);
        assert!(ran.err.ends_with(&format!("; did you mean `{meant}`?\n")), "{ran:#?}");
    }
    for line in ["check envs/dev/prod", "check elsewhere", "check ens/elsewhere"] {
        let ran = sandbox.run(line).code(2);
        assert!(ran.err.ends_with("no such file or folder\n"), "{ran:#?}");
    }
    for path in ["../x", "envs/../../x", "/elsewhere"] {
        let ran = sandbox.run(&format!("plan --path {path}")).code(2);
        assert!(ran.err.contains("is refused: it"), "{ran:#?}");
    }
    let mut command = sandbox.command("plan .. --path prod");
    let ran = command.current_dir(sandbox.path("envs")).output().unwrap();
    let text = String::from_utf8(ran.stderr).unwrap();
    assert!(text.contains("relative to the repo: write --path envs/prod"), "{text}");
}

#[test]
fn a_path_without_manifests_is_reported() {
    let sandbox = environments();
    sandbox.write("docs/readme.md", "text");
    let ran = sandbox.run("check --path shared --path envs/dev --path docs").code(1);
    assert!(ran.out.contains("warning[unused-path]") && ran.out.contains("docs"), "{ran:#?}");
}

#[test]
fn a_comparison_takes_a_path_of_one_side_as_empty_on_the_other() {
    let sandbox = environments();
    sandbox.write("envs/new/web.yaml", WEB);
    let ran = sandbox.run("diff --from HEAD --path shared --path envs/new").code(1);
    assert!(ran.out.contains("1 object newly placed") && ran.out.contains("replicas 0 → 4"), "{ran:#?}");
    sandbox.run("diff --from HEAD --path shared --path envs/dev").code(0);
    let ran = sandbox.run("diff --from HEAD --path shared --path envs/none").code(2);
    assert!(ran.err.contains("--path envs/none"), "{ran:#?}");
    sandbox.git("rm -rq envs/dev");
    let ran = sandbox.run("diff --from HEAD --path envs/dev --path shared").code(1);
    assert!(ran.out.contains("replicas 2 → 0"), "{ran:#?}");
}

#[test]
fn paths_replace_those_of_the_configuration() {
    let sandbox = environments();
    sandbox.write("federate.yaml", "paths: [shared, envs/prod]\nexclude: ['*.bak.yaml']\n");
    sandbox.write("envs/dev/web.bak.yaml", WEB);
    assert_eq!(replicas(&sandbox.run("plan -o json").json()), 6);
    assert_eq!(replicas(&sandbox.run("plan --path shared --path envs/dev -o json").json()), 2);
}

#[test]
fn each_selection_has_an_applyset_of_its_own() {
    let sandbox = environments();
    sandbox.git("remote add origin https://example.com/shop/deploy.git");
    let live = |environment: &str, out: &str| {
        let line = format!(
            "apply --path shared --path envs/{environment} --observed live --dry-run=client -o json --cluster {out}"
        );
        sandbox.write("live/m1/none.yaml", "");
        sandbox.write("live/m2/none.yaml", "");
        sandbox.run(&line).json().to_string()
    };
    assert_ne!(live("dev", "m1"), live("prod", "m1"));
}

#[test]
fn another_configuration_can_be_named() {
    let sandbox = environments();
    sandbox.write("envs/dev/settings.yaml", "clusters: [{name: local}]\nunplaced: everywhere\n");
    let line = "plan --path envs/dev --config envs/dev/settings.yaml -o json";
    let plan = sandbox.run(line).json();
    assert_eq!(plan["placements"][0]["clusters"][0]["name"], "local", "{plan:#}");
    sandbox.write("envs/dev/settings.yaml", "clusters: [{name: local, typo: 1}]\n");
    let ran = sandbox.run(line).code(2);
    assert!(
        ran.err.contains("error[invalid-config]") && ran.err.contains("envs/dev/settings.yaml:1"),
        "{ran:#?}"
    );
    assert!(sandbox.run("plan --config none.yaml").code(2).err.contains("--config none.yaml"));
    assert!(sandbox.run("plan --config envs").code(2).err.contains("is a folder"));
    // The configuration is an input: a comparison reads it on each side.
    sandbox.write("envs/dev/settings.yaml", "clusters: [{name: local}]\nunplaced: everywhere\n");
    let ran = sandbox.run("diff --from HEAD --path envs/dev --config envs/dev/settings.yaml").code(1);
    assert!(ran.out.contains("Clusters\n  + local\n"), "{ran:#?}");
}

#[test]
fn the_configuration_may_have_the_other_names() {
    for name in ["federate.yml", ".federate.yaml"] {
        let sandbox =
            Sandbox::new().file("web.yaml", WEB).file(name, "clusters: [{name: m1}]\nunplaced: everywhere\n");
        let plan = sandbox.run("plan -o json").json();
        assert_eq!(plan["placements"][0]["clusters"][0]["name"], "m1", "{name}");
        sandbox.write(name, "cluster: []\n");
        let ran = sandbox.run("plan").code(2);
        assert!(ran.err.contains(&format!("{name}:1")), "{ran:#?}");
        sandbox.write("federate.yaml", "clusters: [{name: m2}]\n");
        let ran = sandbox.run("plan").code(2);
        assert!(ran.err.contains(&format!("`federate.yaml` and `{name}` are both there")), "{ran:#?}");
    }
}

#[cfg(unix)]
#[test]
fn links_within_the_git_repository_are_followed() {
    let sandbox = environments();
    let link = |target: &str, name: &str| std::os::unix::fs::symlink(target, sandbox.path(name)).unwrap();
    link("../../shared", "envs/prod/shared");
    link("../../shared/clusters.yaml", "envs/dev/clusters.yaml");
    link("../../shared/policy.yaml", "envs/dev/policy.yaml");
    // A link to everything reads nothing twice.
    link("../..", "envs/dev/all");
    sandbox.write("envs/dev/.federateignore", "all/envs/prod\n");
    sandbox.git("add -A");
    sandbox.git("commit -qm links");
    for (environment, expected) in [("dev", 2), ("prod", 6)] {
        for more in ["", " --rev HEAD"] {
            let line = format!("plan envs/{environment} -o json{more}");
            assert_eq!(replicas(&sandbox.run(&line).code(0).json()), expected, "{line}");
        }
        sandbox.run(&format!("diff envs/{environment} --from HEAD")).code(0);
    }
    let outside = Sandbox::web();
    link(outside.path("web.yaml").to_str().unwrap(), "envs/prod/other.yaml");
    let ran = sandbox.run("plan envs/prod").code(2);
    assert!(ran.err.contains("error[link-outside]"), "{ran:#?}");
    std::fs::remove_file(sandbox.path("envs/prod/other.yaml")).unwrap();
    link("../../.git/config", "envs/prod/config.yaml");
    assert!(sandbox.run("plan envs/prod").code(2).err.contains("error[link-outside]"));
}
