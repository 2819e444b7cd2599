//! The proof of a migration, over repos in memory: the identity is equal, also under stress; faults are found.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests fail loudly")]

use std::fs;
use std::path::{Path, PathBuf};

use federate_dialects::DIALECTS;
use federate_engine::change::DigestKey;
use federate_kubernetes::ObjectRef;
use federate_migrate::{
    DEFAULT_SEED, DifferenceKind, MigratedObject, Migration, Proof, ProofSides, Reason, Stress,
    StressOptions, UnequalRule, Verdict, prove_migration, stress_migration,
};
use federate_repo::{Config, RepoFile};
use federate_session::{Session, SessionOptions};

fn open(files: Vec<RepoFile>) -> Session {
    let mut session = Session::from_files(files, Config::default(), SessionOptions::new(DIALECTS));
    session.keep_manifest_values();
    session
}

fn repo(text: &str) -> Session {
    open(vec![RepoFile { path: "all.yaml".into(), bytes: Vec::from(text).into() }])
}

/// The files of an example.
fn example(name: &str) -> Vec<RepoFile> {
    fn add(files: &mut Vec<RepoFile>, root: &Path, folder: &Path) {
        for entry in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if entry.is_dir() {
                add(files, root, &entry);
            } else if entry.extension().is_some_and(|extension| extension == "yaml") {
                let path = entry.strip_prefix(root).unwrap().to_string_lossy().into_owned();
                files.push(RepoFile { path: path.as_str().into(), bytes: fs::read(&entry).unwrap().into() });
            }
        }
    }
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../examples").join(name);
    let mut files = Vec::new();
    add(&mut files, &root, &root);
    files.retain(|file| file.path.as_ref() != "federate.yaml" && !file.path.starts_with("live/"));
    files
}

fn prove(old: &Session, new: &Session, migration: &Migration) -> Proof {
    let key = DigestKey::new(b"the key of a test");
    prove_migration(ProofSides { old, new, migration, key: &key }).unwrap()
}

fn stress(old: &Session, new: &Session, migration: &Migration) -> Stress {
    let key = DigestKey::new(b"the key of a test");
    let options = StressOptions { states: 60, seed: DEFAULT_SEED };
    let sides = ProofSides { old, new, migration, key: &key };
    stress_migration(sides, &prove_migration(sides).unwrap(), options).unwrap()
}

#[test]
fn the_identity_is_equal_now_and_in_every_state() {
    for name in ["repo", "karmada-nginx", "kubeadmiral", "kubefed", "kubefleet", "ocm"] {
        let [old, new] = [open(example(name)), open(example(name))];
        let migration = Migration::default();
        let proof = prove(&old, &new, &migration);
        assert!(!proof.objects.is_empty(), "{name}");
        assert_eq!(proof.worst_verdict(), Verdict::Equal, "{name}");
        let stress = stress(&old, &new, &migration);
        assert_eq!((stress.differing, stress.states), (0, 60), "{name}: {stress:#?}");
    }
}

#[test]
fn changes_of_the_migrated_repo_are_faults() {
    let files = example("repo");
    let old = open(files.clone());
    let mut found = 0;
    for (from, to) in [
        ("replicas: 3", "replicas: 4"),
        ("kind: Deployment", "kind: StatefulSet"),
        ("clusterNames: [eu-1", "clusterNames: [us-1"),
        ("weight: 2", "weight: 5"),
        ("image: ", "image: other-"),
    ] {
        let mut changed = files.clone();
        let mut edited = false;
        for file in &mut changed {
            let text = String::from_utf8(file.bytes.to_vec()).unwrap();
            if text.contains(from) && file.path.as_ref() != "federate.yaml" {
                file.bytes = text.replace(from, to).into_bytes().into();
                edited = true;
            }
        }
        if edited {
            let proof = prove(&old, &open(changed), &Migration::default());
            assert_eq!(proof.worst_verdict(), Verdict::Unexplained, "{from} → {to}");
            found += 1;
        }
    }
    assert!(found >= 3, "{found} of the edits can be made");
}

const KUBEFED: &str = "apiVersion: core.kubefed.io/v1beta1
kind: KubeFedCluster
metadata: {name: a, namespace: kube-federation-system}
---
apiVersion: core.kubefed.io/v1beta1
kind: KubeFedCluster
metadata: {name: b, namespace: kube-federation-system}
---
apiVersion: types.kubefed.io/v1beta1
kind: FederatedNamespace
metadata: {name: shop, namespace: shop}
spec: {placement: {clusters: [{name: a}, {name: b}]}}
---
apiVersion: types.kubefed.io/v1beta1
kind: FederatedDeployment
metadata: {name: web, namespace: shop}
spec:
  template: {spec: {replicas: 2, selector: {matchLabels: {app: web}}, template: {metadata: {labels: {app: web}}, spec: {containers: [{name: web, image: nginx}]}}}}
---
apiVersion: scheduling.kubefed.io/v1alpha1
kind: ReplicaSchedulingPreference
metadata: {name: web, namespace: shop}
spec: {targetKind: FederatedDeployment, totalReplicas: 7}
---
apiVersion: types.kubefed.io/v1beta1
kind: FederatedSecret
metadata: {name: token, namespace: shop}
spec: {placement: {clusters: [{name: a}]}, template: {data: {token: b2xk}}}
";

fn karmada(clusters: &str, secret: &str) -> String {
    let mut text = String::new();
    for name in ["a", "b"] {
        text += &format!(
            "---\napiVersion: cluster.karmada.io/v1alpha1\nkind: Cluster\nmetadata: {{name: {name}}}\nspec: {{}}\n"
        );
    }
    text += "---\napiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n";
    text += "---\napiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web, namespace: shop}\nspec: {replicas: 7, selector: {matchLabels: {app: web}}, template: {metadata: {labels: {app: web}}, spec: {containers: [{name: web, image: nginx}]}}}\n";
    text += &format!(
        "---\napiVersion: v1\nkind: Secret\nmetadata: {{name: token, namespace: shop}}\ndata: {{token: {secret}}}\n"
    );
    text += &format!(
        "---\napiVersion: policy.karmada.io/v1alpha1\nkind: PropagationPolicy\nmetadata: {{name: web, namespace: shop}}\nspec:\n  \
         resourceSelectors: [{{apiVersion: apps/v1, kind: Deployment, name: web}}]\n  placement: {{clusterAffinity: {{clusterNames: {clusters}}}, \
         replicaScheduling: {{replicaSchedulingType: Divided, replicaDivisionPreference: Weighted, weightPreference: {{staticWeightList: \
         [{{targetCluster: {{clusterNames: [a]}}, weight: 1}}, {{targetCluster: {{clusterNames: [b]}}, weight: 1}}]}}}}}}\n"
    );
    text += "---\napiVersion: policy.karmada.io/v1alpha1\nkind: PropagationPolicy\nmetadata: {name: token, namespace: shop}\nspec:\n  \
             resourceSelectors: [{apiVersion: v1, kind: Secret, name: token}]\n  placement: {clusterAffinity: {clusterNames: [a]}}\n";
    text
}

fn migrated(kind: &str, reasons: &[Reason]) -> MigratedObject {
    let api_version = if kind == "Deployment" { "apps/v1" } else { "v1" };
    let name = if kind == "Deployment" { "web" } else { "token" };
    let old = ObjectRef {
        api_version: api_version.to_owned(),
        kind: kind.to_owned(),
        namespace: Some("shop".to_owned()),
        name: name.to_owned(),
    };
    let unequal = reasons.iter().map(|reason| UnequalRule {
        reason: *reason,
        detail: String::new(),
        origin: None,
        pointer: String::new(),
    });
    MigratedObject { new: Some(old.clone()), unequal: unequal.collect(), old }
}

fn verdict(proof: &Proof, kind: &str) -> Verdict {
    proof.objects.iter().find(|object| object.object.kind == kind).unwrap().verdict
}

#[test]
fn only_the_rules_of_an_object_explain_its_differences() {
    let old = repo(KUBEFED);
    let with = |reasons: &[Reason]| Migration {
        objects: vec![migrated("Deployment", reasons), migrated("Secret", &[])],
        ..Migration::default()
    };
    // The control planes round 3.5 in other ways, or not.
    let new = repo(&karmada("[a, b]", "b2xk"));
    let proof = prove(&old, &new, &with(&[Reason::Rounding]));
    assert!(verdict(&proof, "Deployment") < Verdict::Unexplained, "{proof:#?}");
    assert_eq!(verdict(&proof, "Secret"), Verdict::Equal, "{proof:#?}");
    assert_eq!(verdict(&proof, "Namespace"), Verdict::Equal, "{proof:#?}");

    let new = repo(&karmada("[a]", "b2xk"));
    let proof = prove(&old, &new, &with(&[Reason::Rounding]));
    assert_eq!(verdict(&proof, "Deployment"), Verdict::Unexplained, "it is on one cluster less: {proof:#?}");
    let proof = prove(&old, &new, &with(&[Reason::MinMax]));
    assert_eq!(verdict(&proof, "Deployment"), Verdict::Different, "{proof:#?}");
    let proof = prove(&old, &new, &with(&[Reason::Frozen]));
    assert_eq!(verdict(&proof, "Deployment"), Verdict::Unexplained, "what is frozen is equal now");
}

#[test]
fn secrets_are_compared_and_not_shown() {
    let migration =
        Migration { objects: vec![migrated("Deployment", &[Reason::Rounding])], ..Migration::default() };
    let proof = prove(&repo(KUBEFED), &repo(&karmada("[a, b]", "bmV3")), &migration);
    let secret = proof.objects.iter().find(|object| object.object.kind == "Secret").unwrap();
    let [difference] = secret.differences.as_slice() else { panic!("{secret:#?}") };
    assert_eq!(difference.kind, DifferenceKind::Manifest);
    assert_eq!(difference.detail, "on a: /data/token differs");
    let shown = format!("{proof:?}");
    assert!(!shown.contains("b2xk") && !shown.contains("bmV3"), "{shown}");
}

#[test]
fn states_follow_from_the_seed_and_the_smallest_is_shown() {
    let old = repo(KUBEFED);
    let new = repo(&karmada("[a, b]", "b2xk"));
    let reasons = [Reason::Readiness, Reason::Rounding, Reason::Sticky];
    let migration = Migration {
        objects: vec![migrated("Deployment", &reasons), migrated("Secret", &[Reason::Readiness])],
        ..Migration::default()
    };
    let [once, again] = [stress(&old, &new, &migration), stress(&old, &new, &migration)];
    assert_eq!(serde_json::to_value(&once).unwrap(), serde_json::to_value(&again).unwrap());
    let readiness = once.reasons.iter().find(|count| count.reason == Reason::Readiness).expect("readiness");
    assert_eq!(readiness.example.events.len(), 1, "{readiness:#?}");
    assert!(readiness.states > 0 && readiness.objects > 0 && once.differing >= readiness.states);
}
