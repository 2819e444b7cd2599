//! Actions in member clusters, through the engine: for each dialect, from a repo to the action.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "tests fail loudly"
)]

use federate_dialect::{ControlPlaneAction, SyncOp};
use federate_dialects::DIALECTS;
use federate_kubernetes::{LiveObjects, Object};
use federate_repo::{Config, RepoFile};
use federate_session::{Session, SessionOptions};
use serde_json::{Value, json};

/// The action in `cluster` about the object of `kind`, given the live one.
fn reconcile(repo: &str, kind: &str, cluster: &str, live: Option<&Value>) -> Option<ControlPlaneAction> {
    reconcile_among(repo, kind, cluster, live, LiveObjects::default())
}

fn reconcile_among(
    repo: &str,
    kind: &str,
    cluster: &str,
    live: Option<&Value>,
    all: LiveObjects,
) -> Option<ControlPlaneAction> {
    let file = RepoFile { path: "all.yaml".into(), bytes: repo.as_bytes().to_vec().into() };
    let options = SessionOptions::new(DIALECTS).with_observed(all);
    let session = Session::from_files(vec![file], Config::default(), options);
    let plan = session.plan();
    let row = plan.placements.iter().find(|row| row.object.kind == kind).expect("a row");
    let cluster = session.clusters().iter().find(|c| c.name.as_ref() == cluster).expect("a cluster");
    let live = live.map(|body| Object::from_manifest(body.clone(), "live"));
    session.build_engine().reconcile_object(row, cluster, live.as_ref())
}

fn created(action: Option<ControlPlaneAction>) -> Value {
    match action.map(|action| action.op) {
        Some(SyncOp::Create(body)) => body,
        other => panic!("not created: {other:?}"),
    }
}

const KARMADA: &str = "
{apiVersion: cluster.karmada.io/v1alpha1, kind: Cluster, metadata: {name: m1}}
---
{apiVersion: cluster.karmada.io/v1alpha1, kind: Cluster, metadata: {name: m2}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: c, namespace: shop}, data: {k: v}}
---
apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: {name: p, namespace: shop}
spec:
  resourceSelectors: [{apiVersion: v1, kind: ConfigMap}]
  placement: {clusterAffinity: {clusterNames: [m1]}}
  conflictResolution: Abort
";

#[test]
fn karmada_creates_updates_and_deletes_its_own() {
    let sent = created(reconcile(KARMADA, "ConfigMap", "m1", None));
    assert_eq!(sent["metadata"]["labels"]["karmada.io/managed"], "true");
    assert_eq!(
        sent["metadata"]["annotations"]["resourcetemplate.karmada.io/managed-labels"],
        "karmada.io/managed"
    );
    assert_eq!(sent["metadata"]["annotations"]["resourcebinding.karmada.io/name"], "c-configmap");
    let again = reconcile(KARMADA, "ConfigMap", "m1", Some(&sent)).unwrap();
    assert_eq!((again.op, again.status), (SyncOp::Nothing, "OK"));
    let mut drifted = sent.clone();
    drifted["data"]["k"] = json!("w");
    drifted["metadata"]["labels"]["own"] = json!("1");
    let Some(SyncOp::Update(fixed)) = reconcile(KARMADA, "ConfigMap", "m1", Some(&drifted)).map(|a| a.op)
    else {
        panic!("not updated")
    };
    assert_eq!((&fixed["data"]["k"], &fixed["metadata"]["labels"]["own"]), (&json!("v"), &json!("1")));
    let gone = reconcile(KARMADA, "ConfigMap", "m2", Some(&sent)).unwrap();
    assert!(matches!(gone.op, SyncOp::Delete(options) if options["propagationPolicy"] == "Background"));
}

#[test]
fn karmada_resolves_conflicts_as_its_policy_says() {
    let foreign =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": "shop"}});
    let refused = reconcile(KARMADA, "ConfigMap", "m1", Some(&foreign)).unwrap();
    assert_eq!((refused.op, refused.status), (SyncOp::Nothing, "AlreadyExists"));
    assert_eq!(reconcile(KARMADA, "ConfigMap", "m2", Some(&foreign)), None);
    let overwrite = KARMADA.replace("Abort", "Overwrite\n  preserveResourcesOnDeletion: true");
    let taken = reconcile(&overwrite, "ConfigMap", "m1", Some(&foreign)).unwrap();
    assert!(taken.adopts && matches!(taken.op, SyncOp::Update(_)));
    let sent = created(reconcile(&overwrite, "ConfigMap", "m1", None));
    let Some(SyncOp::Release(left)) = reconcile(&overwrite, "ConfigMap", "m2", Some(&sent)).map(|a| a.op)
    else {
        panic!("not released")
    };
    assert_eq!(left["metadata"]["labels"], json!({}));
}

const KUBEFLEET: &str = "
{apiVersion: cluster.kubernetes-fleet.io/v1, kind: MemberCluster, metadata: {name: m1, labels: {env: prod}}}
---
{apiVersion: cluster.kubernetes-fleet.io/v1, kind: MemberCluster, metadata: {name: m2}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: shop}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: c, namespace: shop}, data: {k: v}}
---
apiVersion: placement.kubernetes-fleet.io/v1
kind: ClusterResourcePlacement
metadata: {name: crp}
spec:
  resourceSelectors: [{group: '', version: v1, kind: Namespace, name: shop}]
  policy: {placementType: PickFixed, clusterNames: [m1]}
  strategy: {applyStrategy: {type: ClientSideApply}}
";

#[test]
fn kubefleet_applies_and_leaves_what_others_added() {
    let sent = created(reconcile(KUBEFLEET, "ConfigMap", "m1", None));
    assert!(sent["metadata"]["annotations"]["kubernetes-fleet.io/spec-hash"].is_string());
    assert_eq!(reconcile(KUBEFLEET, "ConfigMap", "m1", Some(&sent)).unwrap().op, SyncOp::Nothing);
    let mut drifted = sent.clone();
    drifted["data"] = json!({"k": "w", "own": "1"});
    let Some(SyncOp::Update(fixed)) = reconcile(KUBEFLEET, "ConfigMap", "m1", Some(&drifted)).map(|a| a.op)
    else {
        panic!("not updated")
    };
    assert_eq!(fixed["data"], json!({"k": "v", "own": "1"}));
    let server_side = KUBEFLEET.replace("ClientSideApply", "ServerSideApply");
    let applied = reconcile(&server_side, "ConfigMap", "m1", Some(&drifted)).unwrap();
    assert!(matches!(applied.op, SyncOp::Apply { manager: "work-api-agent", force: true, .. }));
    assert!(matches!(reconcile(KUBEFLEET, "ConfigMap", "m2", Some(&sent)).unwrap().op, SyncOp::Delete(_)));
}

#[test]
fn kubefleet_names_its_owner_where_the_member_has_one() {
    let work = json!({"apiVersion": "placement.kubernetes-fleet.io/v1beta1", "kind": "AppliedWork",
        "metadata": {"name": "crp-work", "uid": "u"}});
    let among = |body: Option<&Value>| {
        let mut live = LiveObjects::default();
        live.insert("m1".into(), vec![Object::from_manifest(work.clone(), "live")]);
        reconcile_among(KUBEFLEET, "ConfigMap", "m1", body, live)
    };
    let sent = created(among(None));
    assert_eq!(sent["metadata"]["ownerReferences"][0]["uid"], "u");
    let mut owned = sent.clone();
    owned["metadata"]["ownerReferences"] =
        json!([{"apiVersion": "v1", "kind": "X", "name": "x", "uid": "x"}]);
    let refused = among(Some(&owned)).unwrap();
    assert_eq!((refused.op, refused.status), (SyncOp::Nothing, "CoOwnershipDisallowed"));
}

/// The repo above with one more placement, for the cluster that has the label with the name `m2`, and an override
/// that writes the label into the object.
const BY_MEMBER_NAME: &str = "
---
{apiVersion: v1, kind: Namespace, metadata: {name: named}}
---
{apiVersion: v1, kind: Secret, metadata: {name: s, namespace: named}, stringData: {cluster: none}}
---
apiVersion: placement.kubernetes-fleet.io/v1beta1
kind: ClusterResourcePlacement
metadata: {name: named}
spec:
  resourceSelectors: [{group: '', version: v1, kind: Namespace, name: named}]
  policy:
    placementType: PickAll
    affinity:
      clusterAffinity:
        requiredDuringSchedulingIgnoredDuringExecution:
          clusterSelectorTerms: [{labelSelector: {matchLabels: {kubernetes-fleet.io/member-name: m2}}}]
---
apiVersion: placement.kubernetes-fleet.io/v1beta1
kind: ResourceOverride
metadata: {name: o, namespace: named}
spec:
  resourceSelectors: [{group: '', version: v1, kind: Secret, name: s}]
  policy:
    overrideRules:
      - clusterSelector: {clusterSelectorTerms: []}
        jsonPatchOverrides:
          - op: add
            path: /metadata/labels
            value: {name: '${MEMBER-CLUSTER-LABEL-KEY-kubernetes-fleet.io/member-name}'}
";

#[test]
fn kubefleets_clusters_are_labelled_with_their_names_since_0_3_1() {
    let repo = format!("{KUBEFLEET}{BY_MEMBER_NAME}");
    let secret = |release: &str| {
        let file = RepoFile { path: "all.yaml".into(), bytes: repo.as_bytes().to_vec().into() };
        let mut config = Config::default();
        let settings = [("version".to_owned(), json!(release))].into_iter().collect();
        config.dialects.insert("kubefleet".to_owned(), settings);
        let session = Session::from_files(vec![file], config, SessionOptions::new(DIALECTS));
        let manifests = &session.render().manifests;
        let of = manifests.iter().find(|manifest| manifest.object.kind == "Secret")?;
        Some((of.clusters.iter().map(ToString::to_string).collect::<Vec<_>>(), of.text.to_string()))
    };
    assert_eq!(secret("0.3.0"), None);
    let (clusters, text) = secret("0.3.1").expect("a manifest");
    assert!(clusters == ["m2"] && text.contains("name: m2"), "{clusters:?} {text}");
}

const FEDERATION: &str = "
{apiVersion: federation/v1beta1, kind: Cluster, metadata: {name: m1}}
---
{apiVersion: federation/v1beta1, kind: Cluster, metadata: {name: m2, labels: {env: dev}}}
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: c
  namespace: shop
  annotations:
    federation.alpha.kubernetes.io/cluster-selector: '[{\"key\": \"env\", \"operator\": \"!\", \"values\": []}]'
data: {k: v}
";

#[test]
fn federation_v1_deletes_whatever_has_the_name() {
    let sent = created(reconcile(FEDERATION, "ConfigMap", "m1", None));
    assert_eq!(reconcile(FEDERATION, "ConfigMap", "m1", Some(&sent)).unwrap().op, SyncOp::Nothing);
    let foreign =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": "shop"}});
    assert_eq!(reconcile(FEDERATION, "ConfigMap", "m1", Some(&foreign)).unwrap().op, SyncOp::Update(sent));
    assert!(matches!(
        reconcile(FEDERATION, "ConfigMap", "m2", Some(&foreign)).unwrap().op,
        SyncOp::Delete(_)
    ));
}

const OCM: &str = "
{apiVersion: cluster.open-cluster-management.io/v1, kind: ManagedCluster, metadata: {name: m1}}
---
apiVersion: work.open-cluster-management.io/v1
kind: ManifestWork
metadata: {name: w, namespace: m1}
spec:
  workload: {manifests: [{apiVersion: v1, kind: ConfigMap, metadata: {name: c, namespace: shop}, data: {k: v}}]}
";

#[test]
fn the_agent_of_works_adopts_what_no_work_owns() {
    let sent = created(reconcile(OCM, "ConfigMap", "m1", None));
    assert_eq!(
        sent["metadata"].get("ownerReferences"),
        None,
        "federate's objects have no work in the member"
    );
    let adopts = |live: &Value| reconcile(OCM, "ConfigMap", "m1", Some(live)).unwrap().adopts;
    assert!(adopts(&sent));
    let mut owned = sent.clone();
    owned["metadata"]["ownerReferences"] = json!([{
        "apiVersion": "work.open-cluster-management.io/v1", "kind": "AppliedManifestWork", "name": "w", "uid": "w",
    }]);
    assert!(!adopts(&owned));
    owned["data"] = json!({"k": "w"});
    let Some(SyncOp::Update(fixed)) = reconcile(OCM, "ConfigMap", "m1", Some(&owned)).map(|a| a.op) else {
        panic!("not updated")
    };
    assert_eq!(fixed["data"], json!({"k": "v"}));
    assert_eq!(fixed["metadata"]["ownerReferences"], owned["metadata"]["ownerReferences"]);
}

#[test]
fn a_work_says_how_its_objects_are_updated() {
    let with = |strategy: &str| {
        let config = format!(
            "  manifestConfigs: [{{resourceIdentifier: {{group: '', resource: configmaps, namespace: shop, name: c}}, \
             updateStrategy: {strategy}}}]\n"
        );
        OCM.to_owned() + &config
    };
    let mut live = created(reconcile(OCM, "ConfigMap", "m1", None));
    live["data"] = json!({"k": "w"});
    let act = |strategy: &str| reconcile(&with(strategy), "ConfigMap", "m1", Some(&live)).unwrap();
    assert_eq!(act("{type: CreateOnly}").op, SyncOp::Nothing);
    let read_only = act("{type: ReadOnly}");
    assert_eq!((read_only.op, read_only.status), (SyncOp::Nothing, "ReadOnly"));
    let applied = act("{type: ServerSideApply, serverSideApply: {force: true}}");
    assert!(matches!(applied.op, SyncOp::Apply { manager: "work-agent", force: true, .. }), "{applied:?}");
}
