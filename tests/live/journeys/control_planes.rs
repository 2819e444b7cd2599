//! The guides for each control plane, and for leaving it.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use serde_json::json;

use super::reader::{Reader, has_program, text_of};

fn repo(dialect: &str) -> String {
    let path = format!("tests/cli/mistakes/{dialect}.yaml");
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap()
}

const WEB: &str = "/apis/apps/v1/namespaces/shop/deployments/web";

#[test]
fn the_guide_for_karmada() {
    if has_program("kubectl") {
        let reader = Reader::new("karmada-apiserver", &repo("karmada"));
        for kind in ["ResourceBinding", "ClusterResourceBinding"] {
            reader.serve("karmada-apiserver", "work.karmada.io", "v1alpha2", kind, kind == "ResourceBinding");
        }
        reader.follow("docs/guides/karmada.md", &[("NAME", "web")]);
        reader.holds(&["out/eu-1/shop/deployment.apps_web.yaml", "snapshot/snapshot.yaml"]);
    }
}

#[test]
fn the_guide_for_kubefed() {
    if has_program("kubectl") {
        let reader = Reader::new("host", &repo("kubefed"));
        reader.follow("docs/guides/kubefed.md", &[("NAME", "web")]);
        reader.holds(&["rendered/eu-1/shop/deployment.apps_web.yaml"]);
        assert!(reader.fleet.lock_cluster("eu-1").get(WEB).is_some(), "the object was not handed over");
    }
}

#[test]
fn the_guide_to_leave_kubeadmiral() {
    if has_program("kubectl") {
        let namespace = "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n";
        let reader = Reader::new("kubeadmiral", &format!("{}---\n{namespace}", repo("kubeadmiral")));
        // The hub has the templates, and a federated object that KubeAdmiral has made of one of them.
        let group = "core.kubeadmiral.io";
        reader.serve("kubeadmiral", group, "v1alpha1", "FederatedObject", true);
        let federated = json!({"apiVersion": format!("{group}/v1alpha1"), "kind": "FederatedObject", "metadata": {
            "name": "web-deployments.apps", "namespace": "shop", "annotations": {"kubeadmiral.io/orphan": "all"}}});
        fs::write(reader.path("federated.json"), federated.to_string()).unwrap();
        reader.succeed(
            "kubectl apply --validate=false -f deploy/repo.yaml -f federated.json && rm federated.json",
        );
        reader.run_members("deploy", "kubeadmiral", "federatedclusters", "kubeadmiral.io/managed=true");
        let sets = reader.list_replica_sets();
        reader.follow("docs/guides/leave-kubeadmiral.md", &[("NAME", "web")]);
        reader.holds(&["new/MIGRATION.md", "loose/MIGRATION.md"]);
        reader.succeed("federate migrate deploy --to karmada --mode freeze --check before");
        assert_eq!(reader.list_replica_sets(), sets, "federate has taken over without restarting pods");
        let labels = reader.fleet.lock_cluster("eu-1").get(WEB).unwrap()["metadata"]["labels"].clone();
        assert!(labels["applyset.kubernetes.io/part-of"].is_string(), "{labels}");
    }
}

#[test]
fn the_guide_between_karmada_and_azure_fleet() {
    if has_program("kubectl") {
        let (fleet, karmada) = (repo("kubefleet"), repo("karmada"));
        let repos = [("hub", "fleet", fleet.as_str()), ("karmada-apiserver", "karmada", karmada.as_str())];
        let reader = Reader::with_repos(&repos);
        reader.run_members("fleet", "hub", "memberclusters", "example.com/sent=true");
        reader.follow("docs/guides/karmada-and-azure-fleet.md", &[("NAME", "web")]);
        reader.succeed("federate migrate fleet --to karmada --check fleet-before");
        reader.succeed("federate migrate karmada --to kubefleet --check karmada-before");
        reader.holds(&[
            "fleet-on-karmada/MIGRATION.md",
            "karmada-on-fleet/MIGRATION.md",
            "karmada-before/snapshot.yaml",
        ]);
    }
}

#[test]
fn the_guide_for_migrations() {
    if has_program("kubectl") {
        let repo = repo("kubefed");
        let reader = Reader::new("host", &repo);
        let clusters = repo.split("---\n").filter(|text| text.contains("kind: KubeFedCluster\n"));
        let clusters: Vec<&str> = clusters.collect();
        fs::write(reader.path("deploy/clusters.yaml"), clusters.join("---\n")).unwrap();
        let ran = reader.run("git add -A && git commit -q -m clusters");
        assert!(ran.status.success(), "{}", text_of(&ran));
        let loaded = ("federate snapshot new ", "git stash -q -- deploy");
        reader.follow_prepared("docs/guides/migrate.md", &[("\"$NEW\"", "host")], &[loaded]);
        reader.succeed("git stash pop -q");
        reader.holds(&["new/MIGRATION.md", "new/repo.yaml"]);
        let changed = text_of(&reader.run("git status --porcelain deploy"));
        assert!(changed.contains("deploy/repo.yaml"), "{changed}");
    }
}

#[test]
fn the_guide_for_azure_fleet() {
    if has_program("kubectl") {
        let reader = Reader::new("hub", &repo("kubefleet"));
        reader.follow("docs/guides/azure-fleet.md", &[("NAME", "shop")]);
        reader.holds(&["out/us-1/shop/deployment.apps_web.yaml"]);
        // The hub does not say how members are reached: contexts with their names lead there.
        reader.succeed("federate snapshot deploy --hub-context hub --out snapshot");
        let description = fs::read_to_string(reader.path("snapshot/snapshot.yaml")).unwrap();
        assert!(
            description.contains("- cluster us-1\n") && !description.contains("notRead"),
            "{description}"
        );
    }
}

#[test]
fn the_guide_for_open_cluster_management() {
    if has_program("kubectl") {
        let reader = Reader::new("hub", &repo("ocm"));
        // A reader who knows nothing but the hub.
        reader.forget_members();
        reader.follow("docs/guides/open-cluster-management.md", &[("NAMESPACE", "shop"), ("NAME", "web")]);
        let ran = reader.run("federate snapshot deploy --hub-context hub --out snapshot");
        let said = text_of(&ran);
        let note = "note: 2 clusters are not read: eu-1, us-1. The hub has no connection details for them, and the kubeconfig no \
                    context with their names, so the snapshot does not say what runs there; --context CLUSTER=CONTEXT gives access\n";
        assert!(ran.status.success() && said.contains(note), "{said}");
        assert_eq!(said.matches("eu-1").count(), 1, "{said}");
        let description = fs::read_to_string(reader.path("snapshot/snapshot.yaml")).unwrap();
        assert!(description.contains("notRead:\n- eu-1\n- us-1\n"), "{description}");
        // One that is named by hand is an error.
        let ran = reader.run("federate snapshot deploy --hub-context hub --context eu-1 --out snapshot");
        assert_eq!(ran.status.code(), Some(2), "{}", text_of(&ran));
    }
}

const PLAIN: &str = "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n---\n\
    apiVersion: v1\nkind: ConfigMap\nmetadata: {name: web, namespace: shop}\ndata: {a: b}\n---\n\
    apiVersion: v1\nkind: Service\nmetadata: {name: web, namespace: shop}\n\
    spec: {selector: {app: web}, ports: [{port: 80}]}\n---\n\
    apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web, namespace: shop}\n\
    spec:\n  replicas: 4\n  selector: {matchLabels: {app: web}}\n  template:\n    metadata: {labels: {app: web}}\n    \
    spec: {containers: [{name: web, image: 'nginx:1.27', ports: [{containerPort: 80}]}]}\n";

#[test]
fn the_guide_without_a_control_plane() {
    let reader = Reader::new("unused", PLAIN);
    reader.follow("docs/guides/no-control-plane.md", &[("NAME", "web")]);
    reader.holds(&["out/us-1/shop/deployment.apps_web.yaml"]);
    assert!(reader.fleet.lock_cluster("us-1").get(WEB).is_some(), "nothing was applied");
    let branches = text_of(&reader.run("git -C origin.git branch --format='%(refname:short)'"));
    let branches: BTreeSet<&str> = branches.lines().collect();
    for branch in ["clusters/eu-1", "clusters/hub", "envs", "rendered"] {
        assert!(branches.contains(branch), "{branches:?}");
    }
}

#[test]
fn the_guide_for_drift() {
    if has_program("kubectl") {
        let reader = Reader::new("unused", PLAIN);
        let clusters = "unplaced: everywhere\nclusters: [{name: eu-1}, {name: us-1}]\n";
        fs::write(reader.path("deploy/federate.yaml"), clusters).unwrap();
        reader.follow("docs/guides/drift.md", &[("NAME", "web")]);
        let ran = reader
            .run("federate snapshot deploy --out snapshot && federate drift deploy --snapshot snapshot");
        assert!(ran.status.success(), "{}", text_of(&ran));
        reader.holds(&["snapshot/observed/us-1"]);
    }
}

#[test]
fn the_guide_for_snapshots() {
    if has_program("kubectl") {
        let reader = Reader::new("karmada-apiserver", &repo("karmada"));
        let published = "git worktree add -q --orphan -b snapshots published && cp -r snapshot published/ && \
            git -C published add -A && git -C published commit -q -m snapshot && git push -q origin snapshots && \
            git worktree remove published";
        reader.follow_prepared("docs/guides/snapshot.md", &[], &[("git fetch ", published)]);
        reader.holds(&["snapshot/clusters/karmada/us-1.yaml", "snapshot/observed"]);
    }
}

#[test]
fn the_page_about_pages() {
    if has_program("kubectl") {
        let reader = Reader::new("host", &repo("kubefed"));
        reader
            .succeed("kubectl get kubefedclusters -n kube-federation-system -o yaml > deploy/clusters.yaml");
        reader.follow("docs/guides/page.md", &[]);
        reader.holds(&["change.html", "losses.html", "drift.html", "migration.html"]);
    }
}
