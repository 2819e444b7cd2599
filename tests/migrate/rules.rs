//! Override rules and selectors of Karmada, written as rules and selectors of others: proved now and in random states.

use federate_engine::change::DigestKey;
use federate_migrate::{
    Migration, MigrationError, Mode, ProofSides, Reason, StressOptions, Target, migrate_repo,
    prove_migration, stress_migration,
};
use snapbox::assert_data_eq;

use crate::files::Files;

/// A fleet, a workload with its settings, and policies that select them.
fn build_repo(policies: &str) -> Files {
    let mut files = Files::default();
    let clusters =
        [("eu-1", "eu", "gold"), ("eu-2", "eu", "plain"), ("us-1", "us", "gold"), ("us-2", "us", "plain")];
    for (name, region, tier) in clusters {
        files.0.insert(
            format!("clusters/{name}.yaml"),
            format!(
                "apiVersion: cluster.karmada.io/v1alpha1\nkind: Cluster\nmetadata:\n  name: {name}\n  labels: {{region: {region}, \
                 tier: {tier}}}\nspec: {{syncMode: Push}}\n"
            ),
        );
    }
    files.0.insert("web.yaml".to_owned(), WORKLOAD.to_owned());
    files.0.insert("policies.yaml".to_owned(), format!("{PLACEMENT}---\n{policies}"));
    files
}

const WORKLOAD: &str = "\
apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
  namespace: shop
  labels: {app: web}
  annotations: {note: first}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - name: web
        image: nginx:1.27
        imagePullPolicy: IfNotPresent
        args: [--verbose, --quiet]
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: settings
  namespace: shop
  labels: {app: web}
data: {level: info}
";

const PLACEMENT: &str = "\
apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: {name: web, namespace: shop}
spec:
  resourceSelectors:
  - apiVersion: apps/v1
    kind: Deployment
    labelSelector: {matchLabels: {app: web}}
  - {apiVersion: v1, kind: ConfigMap}
  placement: {}
";

const DIVIDED: &str =
    "  placement: {replicaScheduling: {replicaSchedulingType: Divided, replicaDivisionPreference: Weighted}}";

const OVERRIDES: &str = "\
apiVersion: policy.karmada.io/v1alpha1
kind: OverridePolicy
metadata: {name: web, namespace: shop}
spec:
  resourceSelectors: [{apiVersion: apps/v1, kind: Deployment, name: web}]
  overrideRules:
  - targetCluster: {labelSelector: {matchLabels: {region: eu}}}
    overriders:
      imageOverrider: [{component: Registry, operator: replace, value: registry.eu.example.com}]
      labelsOverrider: [{operator: add, value: {region: eu, app: web-eu}}]
      argsOverrider: [{containerName: web, operator: add, value: [--region=eu]}]
  - targetCluster:
      labelSelector: {matchExpressions: [{key: tier, operator: NotIn, values: [plain]}]}
      exclude: [us-1]
    overriders:
      annotationsOverrider: [{operator: replace, value: {note: gold}}]
      plaintext: [{path: /spec/replicas, operator: replace, value: 5}]
---
apiVersion: policy.karmada.io/v1alpha1
kind: ClusterOverridePolicy
metadata: {name: everything}
spec:
  overrideRules:
  - overriders:
      plaintext: [{path: /metadata/labels/fleet, operator: add, value: one}]
";

/// Migrates a repo and compares both sides, now and in random states. Returns the migration, and the reasons for which any rule of
/// an object is unequal.
fn migrate(files: &Files, target: Target) -> (Migration, Vec<(Reason, String)>) {
    let open = |files: &Files| {
        let mut session = files.open();
        session.keep_manifest_values();
        session
    };
    let old = open(files);
    let migration = migrate_repo(&old, target, Mode::Idiomatic).unwrap();
    let mut new = open(&files.migrated(&migration));
    new.share_cluster_states(old.clusters());
    let key = DigestKey::new(b"the key of a test");
    let sides = ProofSides { old: &old, new: &new, migration: &migration, key: &key };
    let proof = prove_migration(sides).unwrap();
    for object in &proof.objects {
        assert!(object.differences.is_empty(), "{object:#?}\n{}", Files::print_edits(&migration));
    }
    let stress = stress_migration(sides, &proof, StressOptions { states: 120, seed: 7 }).unwrap();
    assert!(stress.unexplained.is_none(), "{:#?}\n{}", stress.unexplained, Files::print_edits(&migration));
    let rules = proof.objects.iter().flat_map(|object| &object.rules);
    let reasons = rules.map(|rule| (rule.reason, rule.detail.clone())).collect();
    (migration, reasons)
}

#[test]
fn override_rules_of_karmada_become_rules_with_the_same_selectors() {
    for (target, written) in
        [(Target::KubeFleet, "rules-to-kubefleet.txt"), (Target::KubeAdmiral, "rules-to-kubeadmiral.txt")]
    {
        let (migration, reasons) = migrate(&build_repo(OVERRIDES), target);
        let mut overrides = reasons.iter().filter(|(reason, _)| *reason == Reason::Overrides).peekable();
        assert!(overrides.peek().is_some(), "{reasons:?}");
        // None of them is written for the clusters of today.
        let is_fixed =
            overrides.all(|(_, detail)| detail.starts_with("what overriders make of the object of today"));
        assert!(is_fixed, "{reasons:?}\n{}", Files::print_edits(&migration));
        let policies = migration.edits.iter().filter(|edit| !edit.path.starts_with("clusters/")).cloned();
        let policies = Migration { edits: policies.collect(), ..migration };
        let path = format!("{}/tests/migrate/written/{written}", env!("CARGO_MANIFEST_DIR"));
        assert_data_eq!(Files::print_edits(&policies), snapbox::Data::read_from(path.as_ref(), None).raw());
    }
}

#[test]
fn rules_that_depend_on_each_other_are_written_by_what_they_lead_to() {
    let first = "- targetCluster: {labelSelector: {matchLabels: {region: eu}}}\n    overriders: {imageOverrider: [{component: Tag, \
                 operator: replace, value: '2'}]}\n";
    let second = first.replace("region: eu", "tier: gold").replace("Tag", "Registry");
    let fields = "- targetCluster: {fieldSelector: {matchExpressions: [{key: region, operator: In, values: [r1]}]}}\n    overriders: \
                  {imageOverrider: [{component: Tag, operator: replace, value: '2'}]}\n";
    let policy = |rules: &str| {
        let head = OVERRIDES.split("  - targetCluster").next().unwrap();
        format!("{head}  {rules}")
    };
    for rules in [policy(&format!("{first}  {second}")), policy(fields)] {
        for target in [Target::KubeFleet, Target::KubeAdmiral] {
            let (migration, reasons) = migrate(&build_repo(&rules), target);
            let is_named = reasons.iter().any(|(reason, _)| *reason == Reason::Overrides);
            assert!(is_named, "{rules}\n{}", Files::print_edits(&migration));
        }
    }
}

#[test]
fn selectors_of_karmada_stay_selectors_of_kubefleet_where_they_select_the_same() {
    let (migration, reasons) = migrate(&build_repo(""), Target::KubeFleet);
    let text = Files::print_edits(&migration);
    assert!(text.contains("labelSelector:\n      matchLabels:\n        app: web"), "{text}");
    assert!(!text.contains("name: settings"), "all ConfigMaps are selected: {text}");
    let of_later = reasons.iter().filter(|(reason, _)| *reason == Reason::NewObjects);
    assert!(of_later.clone().count() > 0, "{reasons:?}");
    let said = reasons.iter().any(|(_, detail)| detail.starts_with("objects that match later are selected"));
    assert!(said, "{reasons:?}");
    // Replicas of today, on the clusters of today, are not those of later objects; nor does anything go without what it needs.
    for more in [DIVIDED, "  propagateDeps: true"] {
        let policy = PLACEMENT.replace("  placement: {}", more);
        let mut files = build_repo("");
        files.0.insert("policies.yaml".to_owned(), policy);
        let (migration, _) = migrate(&files, Target::KubeFleet);
        let text = Files::print_edits(&migration);
        assert!(text.contains("name: settings") && !text.contains("labelSelector"), "{text}");
    }
    // Another policy claims an object that the selector would select, too.
    let other = PLACEMENT
        .replace("name: web", "name: own")
        .replace("  placement: {}", "  placement: {clusterAffinity: {clusterNames: [eu-1]}}");
    let named = other
        .replace(
            "  - apiVersion: apps/v1\n    kind: Deployment\n    labelSelector: {matchLabels: {app: web}}\n",
            "",
        )
        .replace("kind: ConfigMap}", "kind: ConfigMap, name: settings}");
    let (migration, reasons) = migrate(&build_repo(&named), Target::KubeFleet);
    let text = Files::print_edits(&migration);
    assert!(text.contains("name: settings") && !text.contains("labelSelector"), "{text}");
    assert!(reasons.iter().any(|(reason, _)| *reason == Reason::NewObjects), "{reasons:?}");
    // KubeAdmiral's objects name their policies.
    let (_, reasons) = migrate(&build_repo(""), Target::KubeAdmiral);
    assert!(reasons.iter().any(|(reason, _)| *reason == Reason::NewObjects), "{reasons:?}");
}

#[test]
fn an_override_that_fails_is_refused_with_its_place() {
    let failing =
        OVERRIDES.replace("/spec/replicas, operator: replace", "/spec/none/there, operator: replace");
    for target in [Target::KubeFleet, Target::KubeAdmiral, Target::Plain] {
        let error = migrate_repo(&build_repo(&failing).open(), target, Mode::Idiomatic).unwrap_err();
        let MigrationError::BrokenRepo(findings) = error else { panic!("{error}") };
        let codes: Vec<&str> = findings.iter().map(|finding| finding.code).collect();
        assert_eq!(codes, ["override-failed"]);
        let place = findings[0].origin.as_ref().map(ToString::to_string).unwrap_or_default();
        assert!(place.starts_with("policies.yaml:"), "{place}");
    }
}
