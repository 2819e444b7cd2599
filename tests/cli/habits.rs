//! What users of git and kubectl expect: revisions before paths, KIND NAME, `-n`, `-l`, completions.

use crate::sandbox::{POLICY, Sandbox, WEB};

/// Two commits: the second one scales web.
fn history() -> Sandbox {
    let sandbox = Sandbox::web();
    sandbox.git("init -q -b main");
    sandbox.git("add -A");
    sandbox.git("commit -qm one");
    sandbox.git("checkout -qb feature");
    sandbox.write("web.yaml", WEB.replace("replicas: 4", "replicas: 6"));
    sandbox.git("commit -qam two");
    sandbox
}

#[test]
fn a_folder_where_a_format_belongs_leads_to_the_option_for_folders() {
    let sandbox = Sandbox::web();
    let ran = sandbox.run("render -o out").code(2);
    assert!(ran.err.contains("did you mean '--out out'"), "{ran:#?}");
    for line in ["render -o jsn", "plan -o out", "plan render -o out"] {
        let ran = sandbox.run(line).code(2);
        assert!(!ran.err.contains("--out "), "{ran:#?}");
    }
}

#[test]
fn revisions_stand_where_git_has_them() {
    let sandbox = history();
    for line in [
        "diff main",
        "diff main .",
        "diff . main",
        "diff main..feature",
        "diff main...feature",
        "diff main feature",
        "diff main..",
        "diff --from main",
        "diff main -- .",
    ] {
        let ran = sandbox.run(line).code(1);
        assert!(ran.out.contains("replicas 4 → 6"), "{line}: {ran:#?}");
    }
    let ran = sandbox.run("diff feature main").code(1);
    assert!(ran.out.contains("replicas 6 → 4"), "{ran:#?}");
    sandbox.run("diff feature").code(0);
    let ran = sandbox.run("diff nothing").code(2);
    assert!(ran.err.contains("`nothing` is neither a folder nor a revision"), "{ran:#?}");
    assert!(sandbox.run("diff main feature main").code(2).err.contains("too many revisions"));
    assert!(sandbox.run("diff --from main . feature").code(2).err.contains("--from names the revision"));
}

#[test]
fn a_name_of_a_folder_and_a_branch_is_ambiguous_as_in_git() {
    let sandbox = history();
    sandbox.write("main/web.yaml", WEB);
    let ran = sandbox.run("diff main").code(2);
    assert!(ran.err.contains("`main` is both a folder and a revision: write `./main`"), "{ran:#?}");
    sandbox.run("diff ./main --from main").code(1);
}

#[test]
fn kinds_and_names_may_be_two_words() {
    let sandbox = Sandbox::web();
    let expected = sandbox.run("explain deployment/web").code(0).out;
    for line in [
        "explain deployment web",
        "explain deploy web .",
        "explain deployments.apps shop/web",
        "explain deploy web -n shop",
    ] {
        assert_eq!(sandbox.run(line).code(0).out, expected, "{line}");
    }
    assert!(sandbox.run("explain web").code(2).err.contains("is not KIND/NAME"));
    assert!(sandbox.run("explain deploy/web . more").code(2).err.contains("too many"));
}

/// Two Deployments in two namespaces, one of them labelled.
fn two_namespaces() -> Sandbox {
    let sandbox = Sandbox::web();
    let other =
        WEB.replace("name: web\n  namespace: shop", "name: api\n  namespace: data\n  labels: {tier: gold}");
    sandbox.write("api.yaml", other);
    let policy = sandbox.read("policy.yaml");
    sandbox.write(
        "policy.yaml",
        policy
            .replace("kind: PropagationPolicy", "kind: ClusterPropagationPolicy")
            .replace("  namespace: shop\n", "")
            .replace("    name: web\n  placement", "  placement"),
    );
    sandbox
}

#[test]
fn namespaces_and_labels_narrow_what_is_shown() {
    let sandbox = two_namespaces();
    let plan = |line: &str| {
        let plan = sandbox.run(&format!("plan -o name {line}")).code(0).out;
        plan.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(plan(""), ["deployment.apps/data/api", "deployment.apps/shop/web"]);
    assert_eq!(plan("-n shop"), ["deployment.apps/shop/web"]);
    assert_eq!(plan("-l tier=gold"), ["deployment.apps/data/api"]);
    assert_eq!(plan("-l !tier"), ["deployment.apps/shop/web"]);
    assert!(plan("-n shop -l tier=gold").is_empty());
    assert!(sandbox.run("plan -l tier=(gold").code(2).err.contains("--selector"));
    let table = sandbox.run("plan -n data").code(0).out;
    assert!(table.contains("data/api") && !table.contains("shop/web"), "{table}");
}

#[test]
fn narrowed_findings_and_differences_decide_the_exit_code() {
    let sandbox = two_namespaces();
    sandbox.write("api.yaml", sandbox.read("api.yaml").replace("replicas: 4", "replicsa: 4"));
    sandbox.run("check").code(1);
    let ran = sandbox.run("check -n shop").code(0);
    assert!(ran.err.contains("about other objects left out by -n and -l"), "{ran:#?}");
    sandbox.run("check -n data").code(1);
    sandbox.write("api.yaml", sandbox.read("api.yaml").replace("replicsa: 4", "replicas: 4"));
    sandbox.git("init -q -b main");
    sandbox.git("add -A");
    sandbox.git("commit -qm one");
    sandbox.write("api.yaml", sandbox.read("api.yaml").replace("replicas: 4", "replicas: 8"));
    assert!(sandbox.run("diff HEAD -n data").code(1).out.contains("data/api"));
    sandbox.run("diff HEAD -n shop").code(0);
    sandbox.run("diff HEAD -l tier=gold").code(1);
    assert!(sandbox.run("drift --correct -n shop").code(2).err.contains("--correct reverts all drift"));
}

#[test]
fn shells_complete_what_the_repo_has() {
    let sandbox = history();
    let complete = |words: &str| {
        let mut command = sandbox.command(&format!("-- federate {words}"));
        let index = words.split(' ').count().to_string();
        command.env("COMPLETE", "bash").env("_CLAP_COMPLETE_INDEX", index);
        command.env("_CLAP_COMPLETE_COMP_TYPE", "9").env("_CLAP_COMPLETE_SPACE", "false").env("IFS", "\n");
        String::from_utf8(command.output().unwrap().stdout).unwrap()
    };
    let all = |text: String| text.lines().map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(all(complete("plan --cluster m")), ["m1", "m2"]);
    assert_eq!(all(complete("explain deployment.apps/shop/w")), ["deployment.apps/shop/web"]);
    assert_eq!(all(complete("check --explain unmat")), ["unmatched"]);
    assert_eq!(all(complete("diff --from fea")), ["feature"]);
    let mut script = sandbox.command("");
    let script = String::from_utf8(script.env("COMPLETE", "bash").output().unwrap().stdout).unwrap();
    assert!(script.contains("federate"), "{script}");
}

#[test]
fn no_line_is_longer_than_the_terminal() {
    let sandbox = two_namespaces();
    sandbox.write("api.yaml", sandbox.read("api.yaml").replace("replicas: 4", "replicsa: 4"));
    if std::process::Command::new("script").arg("--version").output().is_err() {
        return;
    }
    for line in ["check", "plan", "explain deploy/web", "plan nowhere", "explain deployment/nothing"] {
        let run = format!("stty cols 60 rows 40 && {} {line}", env!("CARGO_BIN_EXE_federate"));
        let mut command = sandbox.shell("script -qec \"$RUN\" /dev/null");
        let output = command.env("RUN", run).env("NO_COLOR", "1").output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap().replace('\r', "\n");
        for shown in text.lines() {
            let plain = anstream::adapter::strip_str(shown).to_string();
            assert!(plain.chars().count() <= 60, "{line}: {plain:?}");
        }
        assert!(!text.is_empty());
    }
}

const SCALER: &str = "apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: web, namespace: shop}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}
  minReplicas: 1
  maxReplicas: 9
";

#[test]
fn replicas_that_an_autoscaler_decides_about_can_be_left_out() {
    for scaler in [
        SCALER.to_owned(),
        "apiVersion: keda.sh/v1alpha1
kind: ScaledObject
metadata: {name: web, namespace: shop}
spec:
  scaleTargetRef: {name: web}
  triggers: [{type: cron, metadata: {timezone: UTC, start: 0 6 * * *, end: 0 20 * * *, desiredReplicas: '3'}}]
"
        .to_owned(),
    ] {
        let sandbox = Sandbox::web().file("scaler.yaml", scaler);
        let check = sandbox.run("check").out;
        assert!(
            check.contains("warning[autoscaled-replicas]") && check.contains("autoscaledReplicas: omit"),
            "{check}"
        );
        let web = |out: &str| sandbox.read(&format!("{out}/m1/shop/deployment.apps_web.yaml"));
        sandbox.run("render --out kept").code(0);
        assert!(web("kept").contains("replicas: "));
        sandbox.run("render --out flag --omit-autoscaled-replicas").code(0);
        assert!(!web("flag").contains("replicas: "), "{}", web("flag"));
        sandbox.write("federate.yaml", "autoscaledReplicas: omit\n");
        sandbox.run("render --out config").code(0);
        assert_eq!(web("config"), web("flag"));
        assert!(!sandbox.run("check").out.contains("autoscaled-replicas"));
        // Policies divide the replicas anyway.
        assert!(
            sandbox.run("plan").code(0).out.contains("2 × 2") || sandbox.run("plan").out.contains("all 2")
        );
    }
    // The replicas of other workloads stay.
    let sandbox = Sandbox::web().file("scaler.yaml", SCALER.replace("name: web}", "name: other}"));
    sandbox.run("render --out out --omit-autoscaled-replicas").code(0);
    assert!(sandbox.read("out/m1/shop/deployment.apps_web.yaml").contains("replicas: "));
}

/// Thirty clusters, of which one is not to receive anything.
fn fleet() -> Sandbox {
    let repo = Sandbox::web();
    let cluster = |at| {
        let name = if at == 0 { "edge".to_owned() } else { format!("a-region-with-a-long-name-{at:02}") };
        format!("---\napiVersion: cluster.karmada.io/v1alpha1\nkind: Cluster\nmetadata: {{name: {name}}}\n")
    };
    repo.write("clusters.yaml", (0..30).map(cluster).collect::<String>());
    repo.write("policy.yaml", exclude("[edge]"));
    repo
}

fn exclude(names: &str) -> String {
    let (head, _) = POLICY.split_once("  placement:").unwrap();
    format!("{head}  placement: {{clusterAffinity: {{exclude: {names}}}}}\n")
}

#[test]
fn lists_of_clusters_take_three_lines_and_name_what_nearly_all_lack() {
    let repo = fleet();
    let planned = repo.run("plan").code(0).out;
    assert!(planned.contains("29 of 30 × 4: not edge\n"), "{planned}");
    let explained = repo.run("explain deploy/web").code(0).out;
    assert!(explained.contains("✓ 29 of 30 clusters         4  chosen\n      not edge\n"), "{explained}");
    let half: Vec<String> = (1..16).map(|at| format!("a-region-with-a-long-name-{at:02}")).collect();
    repo.write("policy.yaml", exclude(&format!("[{}]", half.join(", "))));
    for at in 1..30 {
        repo.write(&format!("dump/a-region-with-a-long-name-{at:02}/none.yaml"), "");
    }
    repo.write("dump/edge/none.yaml", "");
    // The table of a plan is not cut in a pipe.
    let planned = repo.run("plan").code(0).out;
    assert!((16..30).all(|at| planned.contains(&format!("-name-{at}"))), "{planned}");
    for line in ["explain deploy/web", "apply --dry-run=client --observed dump", "drift --observed dump"] {
        let ran = repo.run(line);
        let text = format!("{}{}", ran.out, ran.err);
        for run in text.split("\n\n") {
            let named = run.lines().filter(|line| line.contains("-long-name-")).collect::<Vec<_>>();
            let columns: usize = named.iter().map(|line| line.chars().count().div_ceil(80)).sum();
            // Two lists at the most stand together: the chosen clusters and the others.
            assert!(columns <= 6, "{line}: {text}");
        }
        assert!(text.contains(" more"), "{line}: {text}");
    }
    for line in ["plan -v", "explain deploy/web -v", "drift --observed dump -v"] {
        let text = repo.run(line).out;
        assert!((16..30).all(|at| text.contains(&format!("-name-{at}"))), "{line}: {text}");
    }
}
