//! The replicas that a plan counts are those of its manifests, whatever overrides change in whatever order.

use std::sync::Mutex;

use federate_dialect::{
    DecisionSubject, Dialect, DialectDecisions, Dialects, Explanation, KindCatalog, KindRules,
    ManifestVariant, Placement, Plan, PlannerInput, PolicyPlanner, PreviousPlan,
};
use federate_engine::replicas::read_replicas;
use federate_karmada::Karmada;
use federate_kubernetes::{Cluster, Finding, Object, ObjectRef};
use federate_repo::{ClaimedObject, Config, RepoFile, Role};
use federate_session::{Session, SessionOptions};
use proptest::prelude::*;

use super::fleet::{REGISTRY, fleet};
use super::open;

/// What differs between a plan and its manifests: the replicas of an object in a cluster.
fn differences(files: Vec<RepoFile>) -> Vec<String> {
    let session = open(files, Plan::default());
    let plan = session.plan_with_replicas();
    let mut differences = Vec::new();
    for manifest in &session.render().manifests {
        let body = &federate_yaml::read_stream(manifest.text.as_bytes()).documents[0].value;
        let Some(replicas) = read_replicas(&manifest.object, body) else { continue };
        let row = plan.find_placement(&manifest.object).unwrap();
        for cluster in manifest.clusters.iter() {
            let counted = row.clusters.find_cluster(cluster).and_then(|placed| placed.replicas);
            if counted != Some(replicas) {
                differences.push(format!("{} in {cluster}: {counted:?}, not {replicas}", manifest.object));
            }
        }
    }
    differences
}

/// The spec of a Deployment with other replicas.
const SPEC: &str = "{replicas: 7, selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: i}]}}}";

/// Changes of one field, as path and value.
const CHANGES: [(&str, &str); 9] = [
    ("/spec/replicas", "7"),
    ("/spec", SPEC),
    ("/spec/parallelism", "1"),
    ("/spec/completions", "3"),
    ("/spec/paused", "true"),
    ("/metadata/labels/tier", "db"),
    ("/metadata/labels", "{tier: db}"),
    ("/metadata/name", "a1"),
    ("/metadata/namespace", "depot"),
];

/// An override policy of Karmada: the namespace, what it selects, and what it changes in which cluster.
#[derive(Clone, Debug)]
struct Override {
    namespace: Option<&'static str>,
    selector: &'static str,
    cluster: &'static str,
    overrider: String,
}

fn any_override() -> impl Strategy<Value = Override> {
    let selectors = [
        "{apiVersion: apps/v1, kind: Deployment}",
        "{apiVersion: apps/v1, kind: Deployment, name: a1}",
        "{apiVersion: apps/v1, kind: Deployment, labelSelector: {matchLabels: {tier: db}}}",
        "{apiVersion: batch/v1, kind: Job}",
    ];
    let plaintext = prop::sample::select(&CHANGES[..]).prop_map(|(path, value)| {
        format!("{{plaintext: [{{path: {path}, operator: add, value: {value}}}]}}")
    });
    let others = prop::sample::select(vec![
        "{labelsOverrider: [{operator: add, value: {tier: db}}]}".to_owned(),
        "{annotationsOverrider: [{operator: add, value: {replicas: '7'}}]}".to_owned(),
        "{imageOverrider: [{component: Tag, operator: replace, value: v2}]}".to_owned(),
        "{plaintext: [{path: /spec/replicas, operator: remove}]}".to_owned(),
    ]);
    (
        prop::sample::select(vec![None, Some("shop"), Some("depot")]),
        prop::sample::select(selectors.to_vec()),
        prop::sample::select(vec!["m1", "m2"]),
        prop_oneof![2 => plaintext, 1 => others],
    )
        .prop_map(|(namespace, selector, cluster, overrider)| Override {
            namespace,
            selector,
            cluster,
            overrider,
        })
}

/// A repo for Karmada with these overrides.
fn karmada_repo(overrides: &[Override], scheduling: &str) -> Vec<RepoFile> {
    let mut text = String::new();
    for cluster in ["m1", "m2"] {
        text += &format!(
            "apiVersion: cluster.karmada.io/v1alpha1\nkind: Cluster\nmetadata: {{name: {cluster}}}\n---\n"
        );
    }
    for (name, namespace, tier) in [("a0", "shop", "web"), ("a1", "shop", "db"), ("a2", "depot", "web")] {
        let metadata = format!("{{name: {name}, namespace: {namespace}, labels: {{tier: {tier}}}}}");
        let spec = SPEC.replace('7', "4");
        text += &format!("apiVersion: apps/v1\nkind: Deployment\nmetadata: {metadata}\nspec: {spec}\n---\n");
    }
    text += "apiVersion: batch/v1\nkind: Job\nmetadata: {name: once, namespace: shop}\nspec: {parallelism: 4, completions: 5, template: {spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}}\n---\n";
    text += &format!(
        "apiVersion: policy.karmada.io/v1alpha1\nkind: ClusterPropagationPolicy\nmetadata: {{name: all}}\nspec:\n  resourceSelectors: [{{apiVersion: apps/v1, kind: Deployment}}, {{apiVersion: batch/v1, kind: Job}}]\n  placement: {{replicaScheduling: {scheduling}}}\n"
    );
    for (number, Override { namespace, selector, cluster, overrider }) in overrides.iter().enumerate() {
        let (kind, namespace) = match namespace {
            Some(namespace) => ("OverridePolicy", format!(", namespace: {namespace}")),
            None => ("ClusterOverridePolicy", String::new()),
        };
        text += &format!(
            "---\napiVersion: policy.karmada.io/v1alpha1\nkind: {kind}\nmetadata: {{name: o{number}{namespace}}}\nspec:\n  resourceSelectors: [{selector}]\n  overrideRules: [{{targetCluster: {{clusterNames: [{cluster}]}}, overriders: {overrider}}}]\n"
        );
    }
    vec![RepoFile { path: "all.yaml".into(), bytes: text.into_bytes().into() }]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn plans_count_the_replicas_of_manifests_after_overrides_in_any_dialect(
        fleet in fleet(),
        (path, value) in prop::sample::select(&CHANGES[..]),
    ) {
        let image = "/spec/template/spec/containers/0/image";
        let changed = |file: RepoFile| {
            let text = String::from_utf8(file.bytes.to_vec()).unwrap();
            let text = text.replace(image, path).replace(&format!("{REGISTRY}/nginx"), value);
            RepoFile { bytes: text.into_bytes().into(), ..file }
        };
        prop_assert_eq!(differences(fleet.files().into_iter().map(changed).collect()), Vec::<String>::new());
    }

    #[test]
    fn plans_count_the_replicas_of_manifests_after_overrides_of_each_other(
        overrides in prop::collection::vec(any_override(), 0..4),
        divided in any::<bool>(),
    ) {
        let scheduling = if divided {
            "{replicaSchedulingType: Divided, replicaDivisionPreference: Weighted}"
        } else {
            "{replicaSchedulingType: Duplicated}"
        };
        prop_assert_eq!(differences(karmada_repo(&overrides, scheduling)), Vec::<String>::new());
    }
}

/// The generator reaches what it is for: overrides that change replicas, and some that cannot.
#[test]
fn overrides_of_replicas_are_counted_where_they_apply() {
    let change = |overrider: &str| Override {
        namespace: None,
        selector: "{apiVersion: apps/v1, kind: Deployment, name: a1}",
        cluster: "m2",
        overrider: overrider.to_owned(),
    };
    let count = |overrider: &str| {
        let files = karmada_repo(&[change(overrider)], "{replicaSchedulingType: Duplicated}");
        let plan = open(files, Plan::default()).plan_with_replicas();
        let row = plan.placements.iter().find(|row| row.object.name == "a1").unwrap();
        row.clusters.iter().map(|placed| placed.replicas.unwrap()).collect::<Vec<i64>>()
    };
    assert_eq!(count("{plaintext: [{path: /spec/replicas, operator: replace, value: 7}]}"), [4, 7]);
    assert_eq!(count("{plaintext: [{path: /spec/paused, operator: add, value: true}]}"), [4, 4]);
}

/// What is rendered to count replicas, by name.
static RENDERED: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Held by the test that reads [`RENDERED`].
static READER: Mutex<()> = Mutex::new(());

fn take_rendered() -> Vec<String> {
    let mut names = std::mem::take(&mut *RENDERED.lock().unwrap());
    names.sort();
    names
}

/// A session whose renderings are noted.
fn open_noting(overrides: &[Override]) -> Session {
    let files = karmada_repo(overrides, "{replicaSchedulingType: Duplicated}");
    Session::from_files(files, Config::default(), SessionOptions::new(Dialects::new(&[&Noting])))
}

/// Karmada, with a note of what it renders.
struct Noting;

impl Dialect for Noting {
    fn name(&self) -> &'static str {
        Karmada.name()
    }

    fn role_of_kind(&self, api_version: &str, kind: &str) -> Option<Role> {
        Karmada.role_of_kind(api_version, kind)
    }

    fn validate_object(&self, claimed: &ClaimedObject, config: &Config) -> Vec<Finding> {
        Karmada.validate_object(claimed, config)
    }

    fn read_cluster(&self, object: &Object, strict: bool, config: &Config) -> Result<Cluster, Finding> {
        Karmada.read_cluster(object, strict, config)
    }

    fn kinds(&self) -> &dyn KindCatalog {
        Karmada.kinds()
    }

    fn compile_policies<'a>(&self, input: PlannerInput<'a>) -> Box<dyn PolicyPlanner + 'a> {
        Box::new(NotingPlanner(Karmada.compile_policies(input)))
    }
}

struct NotingPlanner<'a>(Box<dyn PolicyPlanner + 'a>);

impl PolicyPlanner for NotingPlanner<'_> {
    fn check_policies(&self) -> Vec<Finding> {
        self.0.check_policies()
    }

    fn decision_subjects(&self) -> Vec<DecisionSubject> {
        self.0.decision_subjects()
    }

    fn decide_placements(&self, subject: &ObjectRef, previous: &PreviousPlan) -> DialectDecisions {
        self.0.decide_placements(subject, previous)
    }

    fn render_placement(&self, placement: &Placement) -> Vec<ManifestVariant> {
        RENDERED.lock().unwrap().push(placement.object.name.clone());
        self.0.render_placement(placement)
    }

    fn may_change_replicas(&self, placement: &Placement) -> bool {
        self.0.may_change_replicas(placement)
    }

    fn explain_placement(
        &self,
        object: &ObjectRef,
        previous: &PreviousPlan,
        placed: Option<&Placement>,
    ) -> Option<Explanation> {
        self.0.explain_placement(object, previous, placed)
    }

    fn kind_rules(&self) -> &dyn KindRules {
        self.0.kind_rules()
    }
}

/// A plan renders no manifests but those whose replicas an override may change.
#[test]
fn a_plan_renders_only_what_overrides_of_replicas_apply_to() {
    let _turn = READER.lock().unwrap();
    let policy = |namespace, selector, overrider: &str| Override {
        namespace,
        selector,
        cluster: "m2",
        overrider: overrider.to_owned(),
    };
    let rendered = |overrides: &[Override]| {
        let session = open_noting(overrides);
        take_rendered();
        assert_eq!(session.plan_with_replicas().placements.len(), 4);
        take_rendered()
    };
    let deployments = "{apiVersion: apps/v1, kind: Deployment}";
    let replicas = "{plaintext: [{path: /spec/replicas, operator: replace, value: 7}]}";
    let labels = "{labelsOverrider: [{operator: add, value: {tier: db}}]}";
    let image = "{imageOverrider: [{component: Tag, operator: replace, value: v2}]}";
    let annotations = "{annotationsOverrider: [{operator: add, value: {replicas: '7'}}]}";
    let harmless = [labels, image, annotations].map(|overrider| policy(None, deployments, overrider));
    assert_eq!(rendered(&harmless), Vec::<String>::new());
    let one = policy(None, "{apiVersion: apps/v1, kind: Deployment, name: a1}", replicas);
    assert_eq!(rendered(&[one]), ["a1"]);
    let labelled = "{apiVersion: apps/v1, kind: Deployment, labelSelector: {matchLabels: {tier: db}}}";
    let of_namespace = policy(Some("shop"), labelled, replicas);
    assert_eq!(rendered(std::slice::from_ref(&of_namespace)), ["a1"]);
    // What is cluster-wide may give others the label.
    assert_eq!(rendered(&[policy(None, deployments, labels), of_namespace]), ["a0", "a1"]);
}

/// A comparison renders each manifest once: what it finds in them is found then.
#[test]
fn what_is_inspected_while_it_is_rendered_is_not_rendered_again() {
    let _turn = READER.lock().unwrap();
    let wrong = Override {
        namespace: None,
        selector: "{apiVersion: apps/v1, kind: Deployment}",
        cluster: "m2",
        overrider: "{plaintext: [{path: /spec/paused, operator: add, value: 3}]}".to_owned(),
    };
    let checked = open_noting(std::slice::from_ref(&wrong)).check_repo();
    assert!(checked.iter().any(|finding| finding.code == "invalid-field"), "{checked:?}");
    let session = open_noting(&[wrong]);
    take_rendered();
    session.render_inspected();
    assert_eq!(take_rendered(), ["a0", "a1", "a2", "once"]);
    assert_eq!(session.check_repo(), checked);
    assert_eq!(take_rendered(), Vec::<String>::new());
}
