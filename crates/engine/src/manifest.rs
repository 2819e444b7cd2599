//! From placements to manifests: renders each manifest once for all clusters that receive the same one.
//!
//! A control plane renders a placement as [`ManifestVariant`]s, each with the clusters that receive the same object.
//! [`Engine::render_variants`] applies to them what holds for all control planes, and [`serialize_variants`] makes
//! them [`Manifest`]s, with text, and [`UnsentObject`]s. An object that SOPS encrypted keeps the text of its file. [`Engine::render_plan`] collects these of all placements in a
//! [`Rendering`].

use std::sync::Arc;

use serde_json::Value;

use super::autoscalers::Autoscalers;
use super::controlled_fields::to_applied_body;
use super::encryption::{find_encrypted, refuse_changes, refuse_undecryptable, source_text};
use super::work_limit::{LimitedResults, variants_cost};
use super::{Engine, PlanResult};
use federate_dialect::{
    ClusterNames, ControlPlaneAction, Health, ManifestVariant, NotSent, OverrideChange, Placement, Plan,
    SharedLists,
};
use federate_kubernetes::object::{field_text, pointer_text};
use federate_kubernetes::{Cluster, Finding, Object, ObjectRef, work};
use federate_repo::{Repo, Template};

/// The manifest that some clusters receive of one object.
#[derive(Clone, Debug)]
pub struct Manifest {
    /// The identity of the object in the plan.
    pub object: ObjectRef,
    /// The clusters that receive exactly this manifest, sorted by name.
    pub clusters: ClusterNames,
    /// The manifest as YAML.
    pub text: Arc<str>,
    /// The object as it is applied, where the engine keeps it (`keep_manifest_values`).
    pub value: Option<Arc<Value>>,
    /// The changes that override rules made to it.
    pub changes: Vec<OverrideChange>,
}

impl Manifest {
    /// Keeps only the clusters for which `keep` returns true.
    pub fn retain_clusters(&mut self, keep: impl Fn(&str) -> bool) {
        if !self.clusters.iter().all(|name| keep(name)) {
            self.clusters = self.clusters.iter().filter(|name| keep(name)).cloned().collect();
        }
    }
}

/// A plan with all its manifests.
#[derive(Debug, Default)]
pub struct Rendering {
    /// The plan.
    pub plan: Plan,
    /// The manifests, sorted by object.
    pub manifests: Vec<Manifest>,
    /// The objects that are not sent to some of their clusters, sorted by object.
    pub not_sent: Vec<UnsentObject>,
    /// Errors and warnings about policies, placements and manifests, without those from reading the repo.
    pub findings: Vec<Finding>,
}

/// An object that is not sent, or not updated, in some of its clusters.
#[derive(Clone, Debug)]
pub struct UnsentObject {
    /// The identity of the object in the plan.
    pub object: ObjectRef,
    /// The affected clusters, sorted by name.
    pub clusters: ClusterNames,
    /// The status that the control plane itself reports as the reason.
    pub status: &'static str,
    /// Whether rendering it fails, which is an error.
    pub failed: bool,
}

/// The manifests of one object as text.
#[derive(Clone, Debug, Default)]
pub struct ObjectManifests {
    /// What is sent.
    pub manifests: Vec<Manifest>,
    /// What clusters do not receive now.
    pub not_sent: Vec<UnsentObject>,
    /// Why something cannot be rendered.
    pub findings: Vec<Finding>,
}

impl Rendering {
    /// Returns the manifests that the clusters have after this rendering: the rendered ones and, for objects
    /// that are held back, the retained earlier ones, because control planes leave these unchanged. `earlier`
    /// returns the earlier text of an object in a cluster.
    pub fn with_retained(&self, earlier: impl Fn(&ObjectRef, &str) -> Option<Arc<str>>) -> Vec<Manifest> {
        let held = self.not_sent.iter().flat_map(|held| held.clusters.iter().map(|c| (&held.object, c)));
        let retained = held.filter_map(|(object, cluster)| {
            let text = earlier(object, cluster)?;
            Some(Manifest {
                object: object.clone(),
                clusters: Arc::from([cluster.clone()]),
                text,
                value: None,
                changes: Vec::new(),
            })
        });
        self.manifests.iter().cloned().chain(retained).collect()
    }
}

/// Removes the replicas of a manifest that an autoscaler decides about.
fn omit_scaled_replicas(autoscalers: &Autoscalers, body: &mut Value) {
    let id = ObjectRef {
        api_version: field_text(body, "apiVersion").to_owned(),
        kind: field_text(body, "kind").to_owned(),
        namespace: body.pointer("/metadata/namespace").and_then(Value::as_str).map(str::to_owned),
        name: pointer_text(body, "/metadata/name").to_owned(),
    };
    if autoscalers.scaler_of(&id).is_some()
        && let Some(spec) = body.get_mut("spec").and_then(Value::as_object_mut)
    {
        spec.shift_remove("replicas");
    }
}

impl Engine<'_> {
    /// Places every template, and renders it for each of its clusters.
    pub fn render_repo(&self) -> Rendering {
        self.render_plan(self.compute_plan())
    }

    /// Renders the manifests of a plan.
    pub fn render_plan(&self, planned: PlanResult) -> Rendering {
        self.render_observed(planned, |_, _| ()).0
    }

    /// Renders the manifests of a plan, and returns what `observe` makes of those of each row, up to the row before which the limit
    /// was exceeded.
    pub fn render_observed<T: Send>(
        &self,
        planned: PlanResult,
        observe: impl Fn(&Placement, &[ManifestVariant]) -> T + Sync,
    ) -> (Rendering, Vec<T>) {
        let PlanResult { plan, findings } = planned;
        let limit = self.limit;
        let LimitedResults { results, stopped_at } = limit.run_items(
            &plan.placements,
            |_, placement| {
                let variants = self.render_variants(placement);
                work::charge_steps(variants_cost(&variants));
                let observed = observe(placement, &variants);
                let mut written =
                    serialize_variants(&placement.object, variants, self.lists, self.keep_manifest_values);
                if let Some(template) = find_encrypted(self.repo, &placement.object) {
                    copy_source_texts(self.repo, template, &mut written.manifests);
                }
                (written, observed)
            },
            |_| 0,
        );
        let stopped = stopped_at.and_then(|at| plan.placements.get(at));
        let exceeded = stopped.map(|row| limit.exceeded_finding("rendering manifests", &row.object));
        let mut all = Rendering { plan, findings, ..Rendering::default() };
        all.findings.extend(exceeded);
        let mut observations = Vec::with_capacity(results.len());
        for (part, observed) in results {
            all.manifests.extend(part.manifests);
            all.not_sent.extend(part.not_sent);
            all.findings.extend(part.findings);
            observations.push(observed);
        }
        (all, observations)
    }

    /// What each cluster of a placement receives: what its control plane renders, with the rules that hold for all control planes
    /// (autoscaled replicas, encrypted objects).
    pub fn render_variants(&self, placement: &Placement) -> Vec<ManifestVariant> {
        let mut variants = self
            .find_planner(&placement.dialect)
            .map(|planner| planner.render_placement(placement))
            .unwrap_or_default();
        if let Some(autoscalers) = &self.autoscalers {
            variants.iter_mut().flat_map(|variant| &mut variant.rendered).for_each(|rendered| {
                omit_scaled_replicas(autoscalers, &mut rendered.body);
            });
        }
        match find_encrypted(self.repo, &placement.object) {
            Some(template) => refuse_changes(self.repo, template, variants),
            None if self.decrypts => variants,
            None => refuse_undecryptable(self.repo, &placement.object, variants),
        }
    }

    /// Adds the labels and annotations with which the control plane marks the objects that it creates.
    pub fn mark_object(&self, placement: &Placement, live: &mut Object) {
        if let Some(dialect) = self.dialects.get(&placement.dialect) {
            dialect.members().mark_as_managed(live);
        }
    }

    /// Returns the health of a live object according to the rules for its kind in the repo, as the control plane
    /// of `dialect` evaluates them. `None` if the repo has no such rules.
    pub fn evaluate_health(&self, dialect: &str, live: &Object) -> Option<Health> {
        self.find_planner(dialect)?.kind_rules().assess_health_by_repo(live)
    }

    /// Runs the checks of policies that are too expensive for each run.
    pub fn check_thoroughly(&self) -> Vec<Finding> {
        let checks = self.planners.iter().map(|(_, planner)| {
            let check = || planner.advice().check_policies_thoroughly();
            self.limit
                .run_part("checking policies", check)
                .unwrap_or_else(|exceeded| vec![exceeded.into_finding()])
        });
        checks.flatten().collect()
    }

    /// Returns the action that reconciles one object of the plan in a cluster with the live object there.
    pub fn reconcile_object(
        &self,
        placement: &Placement,
        cluster: &Cluster,
        live: Option<&Object>,
    ) -> Option<ControlPlaneAction> {
        self.find_planner(&placement.dialect)?.reconciler().reconcile_object(placement, cluster, live)
    }

    /// Whether the control plane surely leaves a managed object alone that is as it was applied.
    pub fn keeps_applied(&self, placement: &Placement, cluster: &Cluster) -> bool {
        self.find_planner(&placement.dialect)
            .is_some_and(|planner| planner.reconciler().keeps_applied(placement, cluster))
    }

    /// Returns what each cluster receives of one object of the plan, as values instead of text.
    pub fn object_variants(&self, plan: &Plan, object: &ObjectRef) -> Vec<ManifestVariant> {
        plan.find_placement(object).map(|row| self.render_variants(row)).unwrap_or_default()
    }
}

/// A rendered object as it is applied.
fn applied_body(mut body: Value) -> Arc<Value> {
    to_applied_body(&mut body);
    body.into()
}

/// The manifests of an object as text; `keep_values` says whether they keep their values.
pub fn serialize_variants(
    object: &ObjectRef,
    variants: Vec<ManifestVariant>,
    lists: &SharedLists,
    keep_values: bool,
) -> ObjectManifests {
    let mut all = ObjectManifests::default();
    for variant in variants {
        let clusters = lists.share_names(&variant.clusters);
        match variant.rendered {
            Ok(rendered) => {
                let mut text = String::new();
                federate_yaml::write_document(&rendered.body, &mut text);
                all.manifests.push(Manifest {
                    object: object.clone(),
                    clusters,
                    text: text.into(),
                    value: keep_values.then(|| applied_body(rendered.body)),
                    changes: rendered.changes,
                });
            }
            Err(NotSent { status, finding }) => {
                let failed = finding.is_some();
                all.not_sent.push(UnsentObject { object: object.clone(), clusters, status, failed });
                all.findings.extend(finding);
            }
        }
    }
    all
}

/// Replaces the texts of manifests by those of the files in which they are written.
fn copy_source_texts(repo: &Repo, template: &Template, manifests: &mut [Manifest]) {
    for manifest in manifests {
        let cluster = manifest.clusters.first();
        let object = cluster.map_or(&template.object, |cluster| template.for_cluster(cluster));
        if let Some(text) = source_text(repo, object) {
            manifest.text = text;
        }
    }
}
