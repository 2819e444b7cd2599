//! What it takes to add a dialect: a control plane in one file, which nothing else knows, is planned, rendered,
//! explained and compared through the public types of the library.
//!
//! It has clusters (`Place`) and no policies: a template goes to the clusters whose names start with its label
//! `to`.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests fail loudly")]

use federate_dialect::{
    ClusterVerdict, DecisionSubject, Dialect, DialectDecisions, Dialects, Explanation, ManifestVariant,
    Placed, Placement, PlannerInput, PolicyPlanner, PreviousPlan, RenderedManifest, TemplateReads,
};
use federate_engine::change::DigestKey;
use federate_kubernetes::{Cluster, Finding, Object, ObjectRef};
use federate_repo::{ClaimedObject, Config, RepoFile, Role};
use federate_session::{NamedObject, RevisionComparison, Session, SessionOptions};

struct Toy;

impl Dialect for Toy {
    fn name(&self) -> &'static str {
        "toy"
    }

    fn role_of_kind(&self, api_version: &str, kind: &str) -> Option<Role> {
        (api_version == "toy.example.com/v1" && kind == "Place").then_some(Role::Inventory)
    }

    fn validate_object(&self, _: &ClaimedObject, _: &Config) -> Vec<Finding> {
        Vec::new()
    }

    fn read_cluster(&self, object: &Object, _: bool, _: &Config) -> Result<Cluster, Finding> {
        Ok(Cluster::from_object(object))
    }

    fn compile_policies<'a>(&self, input: PlannerInput<'a>) -> Box<dyn PolicyPlanner + 'a> {
        Box::new(Toys(input))
    }
}

struct Toys<'a>(PlannerInput<'a>);

fn wants(object: &Object, cluster: &Cluster) -> bool {
    object.label("to").is_some_and(|to| cluster.name.starts_with(to))
}

impl PolicyPlanner for Toys<'_> {
    fn check_policies(&self) -> Vec<Finding> {
        Vec::new()
    }

    fn decision_subjects(&self) -> Vec<DecisionSubject> {
        let templates = self.0.repo.templates.iter().map(|template| template.object.id.clone());
        templates.map(|object| DecisionSubject { object, reads: TemplateReads::Subject }).collect()
    }

    fn decide_placements(&self, subject: &ObjectRef, _: &PreviousPlan) -> DialectDecisions {
        let mut decided = DialectDecisions::default();
        let Some(template) = self.0.repo.find_template(subject) else { return decided };
        let wanted = self.0.clusters.iter().filter(|cluster| wants(&template.object, cluster));
        let mut placement = Placement::new("toy", subject.clone(), None);
        placement.clusters = wanted.map(|c| Placed { name: c.name.clone(), replicas: None }).collect();
        decided.placements.extend(Some(placement).filter(|placement| !placement.clusters.is_empty()));
        decided
    }

    fn render_placement(&self, placement: &Placement) -> Vec<ManifestVariant> {
        let body = self.0.repo.find_template(&placement.object).unwrap().object.body.clone();
        let clusters = placement.clusters.iter().map(|placed| placed.name.clone()).collect();
        vec![ManifestVariant { clusters, rendered: Ok(RenderedManifest { body, changes: Vec::new() }) }]
    }

    fn explain_placement(
        &self,
        object: &ObjectRef,
        _: &PreviousPlan,
        placed: Option<&Placement>,
    ) -> Option<Explanation> {
        let template = self.0.repo.find_template(object)?;
        let verdict = |cluster: &Cluster| ClusterVerdict {
            cluster: cluster.name.clone(),
            chosen: wants(&template.object, cluster),
            refused_by: (!wants(&template.object, cluster)).then_some("Name"),
            score: None,
            replicas: None,
            why: "by its name".to_owned(),
            causes: Vec::new(),
        };
        Some(Explanation {
            dialect: "toy",
            policy: Vec::new(),
            steps: Vec::new(),
            fulfilled: None,
            clusters: self.0.clusters.iter().map(verdict).collect(),
            placement: placed?.clone(),
            rewritten: None,
            deletion_progress: None,
            rollout: None,
        })
    }
}

fn session(to: &str) -> Session {
    let cluster =
        |name: &str| format!("{{apiVersion: toy.example.com/v1, kind: Place, metadata: {{name: {name}}}}}\n");
    let template = format!(
        "{{apiVersion: v1, kind: ConfigMap, metadata: {{name: web, namespace: shop, labels: {{to: {to}}}}}, data: {{k: v}}}}\n"
    );
    let text = ["eu-1", "eu-2", "us-1"].map(cluster).join("---\n") + "---\n" + &template;
    let file = RepoFile { path: "all.yaml".into(), bytes: text.into_bytes().into() };
    let options = SessionOptions::new(Dialects::new(&[&Toy]));
    Session::from_files(vec![file], Config::default(), options)
}

#[test]
fn a_dialect_is_one_file() {
    let session = session("eu");
    assert_eq!(session.check_repo(), []);
    let [row] = session.plan().placements.as_slice() else { panic!("one row: {:?}", session.plan()) };
    let names: Vec<&str> = row.clusters.iter().map(|placed| placed.name.as_ref()).collect();
    assert_eq!((row.dialect.as_str(), names), ("toy", vec!["eu-1", "eu-2"]));

    let [manifest] = session.render().manifests.as_slice() else { panic!("one manifest") };
    assert!(manifest.clusters.len() == 2 && manifest.text.contains("k: v"), "{manifest:?}");

    let Ok(NamedObject::Object(object)) = session.find_object("configmap", "web", None) else {
        panic!("no object")
    };
    let explained = session.explain_object(&object).unwrap().unwrap();
    let refused: Vec<_> = explained.explanation.clusters.iter().filter_map(|row| row.refused_by).collect();
    assert_eq!(refused, ["Name"]);
}

#[test]
fn its_renderings_are_compared() {
    let (from, to) = (session("eu"), session("us"));
    let changes = RevisionComparison { from: &from, to: &to }.compute_changes(&DigestKey::new(b"key"), &[]);
    assert_eq!(changes.placements.len(), 1);
    assert_eq!((changes.totals.from.manifests, changes.totals.to.manifests), (2, 1));
}
