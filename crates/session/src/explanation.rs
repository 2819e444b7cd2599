//! Explains where an object is placed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rayon::prelude::*;
use serde_json::Value;

use federate_dialect::RolloutDriver;
use federate_dialect::rollout::RolloutExplanation;
use federate_engine::change::readable_path;
use federate_engine::{Engine, TooMuchWork};
use federate_kubernetes::schema::find_nearest;
use federate_kubernetes::{Finding, ObjectRef};
use federate_repo::{ClaimedObject, Role};
use federate_report::explanation::{
    ChangedManifest, ExplainedObject, ExplainedPolicy, ManifestOverrides, UnplacedExplanation,
};
use federate_report::plan;

use crate::Session;
use crate::kind_name::KindName;
use crate::policy_mismatches;

/// What a name stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NamedObject {
    /// A template, or another object of the plan.
    Object(ObjectRef),
    /// A policy or an override policy.
    Policy(ObjectRef),
}

/// Why a name does not identify one object.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NotFound {
    /// No object has this name.
    #[error("the repo has no template and no policy {kind}/{name}{}", why_not_found(.built_by.as_ref(), .near.as_ref()))]
    None {
        /// The given kind.
        kind: String,
        /// The name.
        name: String,
        /// An object with a similar name.
        near: Option<ObjectRef>,
        /// The file from which another tool builds an object with this name.
        built_by: Option<Arc<str>>,
    },
    /// Several objects have this name.
    #[error(
        "{kind}/{name} is ambiguous: {}; select one with -n, or write the kind in full",
        .objects.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
    )]
    Several {
        /// The given kind.
        kind: String,
        /// The name.
        name: String,
        /// The matching objects.
        objects: Vec<ObjectRef>,
    },
}

fn why_not_found(built_by: Option<&Arc<str>>, near: Option<&ObjectRef>) -> String {
    match built_by {
        Some(file) => format!("; another tool builds it from {file}, and `federate check` says what to do"),
        None => did_you_mean(near),
    }
}

fn did_you_mean(near: Option<&ObjectRef>) -> String {
    match near {
        Some(near) => format!("; did you mean {}?", plan::format_name(near)),
        None => "; `federate plan` lists the objects".to_owned(),
    }
}

impl Session {
    /// Finds the object with this name, written as `KIND/NAME` or `KIND/NAMESPACE/NAME`, among the templates and other
    /// objects of the plan, then among the policies. Kinds are named as `kubectl` names them.
    pub fn find_object(
        &self,
        kind: &str,
        name: &str,
        namespace: Option<&str>,
    ) -> Result<NamedObject, NotFound> {
        let (within, name) = match name.split_once('/') {
            Some((within, name)) => (Some(within), name),
            None => (namespace, name),
        };
        let crds = self.repo().templates.iter().map(|template| &template.object);
        let kinds = KindName::parse(kind, crds);
        let placements = &self.plan().placements;
        let templates = self.repo().templates.iter().map(|template| &template.object.id);
        let objects: BTreeSet<&ObjectRef> =
            templates.chain(placements.iter().map(|row| &row.object)).collect();
        let policies = self.repo().claimed.iter().filter(|claimed| claimed.role != Role::Inventory);
        let policies: BTreeSet<&ObjectRef> = policies.map(|claimed| &claimed.object.id).collect();
        for (among, is_policy) in [(&objects, false), (&policies, true)] {
            let found: Vec<ObjectRef> = among
                .iter()
                .filter(|id| kinds.names_object(id, name, within))
                .map(|id| (*id).clone())
                .collect();
            match <[ObjectRef; 1]>::try_from(found) {
                Ok([one]) if is_policy => return Ok(NamedObject::Policy(one)),
                Ok([one]) => return Ok(NamedObject::Object(one)),
                Err(objects) if objects.is_empty() => {}
                Err(objects) => {
                    return Err(NotFound::Several { kind: kind.to_owned(), name: name.to_owned(), objects });
                }
            }
        }
        let all = objects.iter().chain(&policies);
        let mut of_kind = all.clone().filter(|id| kinds.matches_object(id));
        let names: Vec<&str> = of_kind.clone().map(|id| id.name.as_str()).collect();
        let near = find_nearest(name, &names).and_then(|near| of_kind.find(|id| id.name == near));
        // If it is the kind that is mistyped, the name is right, and the namespace most likely, too.
        let near = near
            .or_else(|| all.filter(|id| id.name == name).min_by_key(|id| id.namespace.as_deref() != within))
            .map(|id| (*id).clone());
        let built_by = self.repo().builds.iter().find(|build| {
            let mut objects = build.objects.iter().chain(&build.unlisted);
            objects.any(|object| kinds.names_object(&object.id, name, within))
        });
        let built_by = built_by.map(|build| build.file.clone());
        Err(NotFound::None { kind: kind.to_owned(), name: name.to_owned(), near, built_by })
    }

    /// Whether an object belongs to a control plane, and no decision depends on it.
    pub fn stays_on_control_plane(&self, object: &ObjectRef) -> bool {
        let own = self.repo().claimed.iter().filter(|claimed| claimed.role == Role::ControlPlane);
        own.map(|claimed| &claimed.object.id).any(|id| id == object)
    }

    /// What becomes of an object that belongs to a control plane, where its dialect knows.
    pub fn describe_kept_object(&self, object: &ObjectRef) -> Option<&'static str> {
        let claimed = self.repo().claimed.iter().find(|claimed| claimed.object.id == *object)?;
        self.dialects().get(claimed.dialect)?.advice().describe_kept_object(object)
    }

    /// What a policy places, or an override policy changes; `None` if the repo has no such policy.
    ///
    /// # Errors
    ///
    /// If that takes more work than a part of a run may.
    pub fn explain_policy(&self, policy: &ObjectRef) -> Result<Option<ExplainedPolicy>, TooMuchWork> {
        let Some(claimed) = self.repo().claimed.iter().find(|claimed| claimed.object.id == *policy) else {
            return Ok(None);
        };
        let placed = self.plan().placements.iter().filter(|row| row.policy.as_ref() == Some(policy));
        let placed = placed.map(|row| row.object.clone()).collect();
        let mut changed: Vec<ChangedManifest> = Vec::new();
        if claimed.role == Role::Override {
            for manifest in &self.render().manifests {
                for change in manifest.changes.iter().filter(|change| change.policy == *policy) {
                    let variants = self.object_variants(&manifest.object);
                    let variant = variants.iter().find(|variant| variant.clusters == manifest.clusters);
                    let body = variant.and_then(|variant| Some(&variant.rendered.as_ref().ok()?.body));
                    let body = body.unwrap_or(&Value::Null);
                    changed.push(ChangedManifest {
                        object: manifest.object.clone(),
                        clusters: manifest.clusters.to_vec(),
                        paths: change.paths.iter().map(|pointer| readable_path(pointer, body)).collect(),
                    });
                }
            }
        }
        let (rollout, rollout_steps) = self.explain_rollout(claimed)?;
        Ok(Some(ExplainedPolicy {
            policy: policy.clone(),
            origin: claimed.object.origin.to_string(),
            overrides: claimed.role == Role::Override,
            placed,
            changed,
            rollout,
            rollout_steps,
        }))
    }

    /// How a policy is rolled out, if it limits that, with the steps of the decision.
    fn explain_rollout(
        &self,
        policy: &ClaimedObject,
    ) -> Result<(Option<RolloutExplanation>, Vec<String>), TooMuchWork> {
        let (engine, id) = (self.build_engine(), &policy.object.id);
        let what = format!("explaining {id}");
        let explained = engine.work_limit().run_part(&what, || {
            let plane = engine.find_planner(policy.dialect)?;
            let is_limited = plane.rollout().controls_updates_of(id, RolloutDriver::Scenario);
            let explain = || plane.explain_placement(id, &self.settings().previous, None);
            is_limited.then(explain).flatten()
        })?;
        let explained = explained.filter(|explanation| explanation.rollout.is_some());
        Ok(explained.map_or_else(Default::default, |explained| (explained.rollout, explained.steps)))
    }

    /// Why an object is placed nowhere. `found` are the findings about it.
    pub fn explain_unplaced(&self, object: &ObjectRef, found: &[Finding]) -> UnplacedExplanation {
        let template = self.repo().find_template(object).map(|template| &template.object);
        let origin = template.map(|template| template.origin.to_string());
        let policies =
            template.map(|template| policy_mismatches::explain_policies(self, template)).unwrap_or_default();
        let mut reasons: Vec<String> = found
            .iter()
            .map(|finding| match &finding.help {
                Some(help) => format!("{}: {help}", finding.message),
                None => finding.message.clone(),
            })
            .collect();
        if reasons.is_empty() {
            reasons.push("no policy matches it".to_owned());
        }
        UnplacedExplanation { object: object.clone(), origin, reasons, policies }
    }

    /// Explains the placement and the overrides of an object; `None` if no control plane handles it.
    ///
    /// # Errors
    ///
    /// If that takes more work than a part of a run may.
    pub fn explain_object(&self, object: &ObjectRef) -> Result<Option<ExplainedObject>, TooMuchWork> {
        let explained = self.explain_decision(object)?;
        Ok(explained.map(|explained| ExplainedObject { facts: self.find_facts(object), ..explained }))
    }

    /// The objects whose policies divide replicas and found room for fewer than the repo asks for, with the number asked for.
    pub fn unmet_replicas(&self) -> BTreeMap<ObjectRef, i64> {
        let engine = self.build_engine();
        let unmet = self.plan().placements.iter().filter_map(|row| {
            let placed = row.clusters.total_replicas().or_else(|| row.unschedulable.as_ref().map(|_| 0))?;
            let object = &self.repo().find_template(&row.object)?.object;
            let wanted = engine.stated_replicas(&row.dialect, object)?;
            (placed < wanted).then(|| (row.object.clone(), wanted))
        });
        unmet.collect()
    }

    /// Like [`explain_object`](Self::explain_object), without the facts of a snapshot, each of which costs a decision without it.
    ///
    /// # Errors
    ///
    /// If that takes more work than a part of a run may.
    pub fn explain_decision(&self, object: &ObjectRef) -> Result<Option<ExplainedObject>, TooMuchWork> {
        self.explain_within_limit(&self.build_engine(), object)
    }

    /// The decisions about several objects, in their order; `None` where no control plane handles the object, or its explanation
    /// takes more work than a part of a run may.
    pub fn explain_decisions(&self, objects: &[ObjectRef]) -> Vec<Option<ExplainedObject>> {
        let engine = self.build_engine();
        let explained =
            objects.par_iter().map(|object| self.explain_within_limit(&engine, object).ok().flatten());
        explained.collect()
    }

    fn explain_within_limit(
        &self,
        engine: &Engine<'_>,
        object: &ObjectRef,
    ) -> Result<Option<ExplainedObject>, TooMuchWork> {
        let what = format!("explaining {object}");
        engine.work_limit().run_part(&what, || self.explain_with(engine, object))
    }

    fn explain_with(&self, engine: &Engine<'_>, object: &ObjectRef) -> Option<ExplainedObject> {
        let explanation = engine.explain_placement(object, self.plan())?;
        let template = self.repo().find_template(object).map(|template| &template.object);
        let policy = explanation.placement.policy.as_ref();
        let origin = &template
            .or_else(|| self.repo().claimed.iter().map(|c| &c.object).find(|o| Some(&o.id) == policy))?
            .origin;
        let changed =
            engine.object_variants(self.plan(), object).into_iter().map(|variant| match variant.rendered {
                Ok(rendered) => {
                    let mut fields: Vec<Vec<String>> = Vec::new();
                    for change in &rendered.changes {
                        let paths = change.paths.iter();
                        fields.push(paths.map(|path| readable_path(path, &rendered.body)).collect());
                    }
                    ManifestOverrides {
                        clusters: variant.clusters.to_vec(),
                        fields,
                        overrides: rendered.changes,
                        failed: None,
                    }
                }
                Err(not_sent) => {
                    let failed = not_sent.finding.map_or_else(|| not_sent.status.to_owned(), |f| f.message);
                    ManifestOverrides {
                        clusters: variant.clusters.to_vec(),
                        overrides: Vec::new(),
                        fields: Vec::new(),
                        failed: Some(failed),
                    }
                }
            });
        let mut explained = ExplainedObject::new(origin, explanation, changed.collect());
        let records = self.repo().sources.iter().filter(|record| record.objects.contains(object));
        let described = records.filter_map(|record| Some((&record.chain, record.described_by.as_ref()?)));
        let chains: BTreeSet<Vec<ObjectRef>> =
            described.map(|(chain, by)| chain.iter().chain([by]).cloned().collect()).collect();
        explained.built_by = chains.into_iter().collect();
        let not_ready = self.clusters().iter().filter_map(|cluster| {
            let not_ready = cluster.not_ready(self.now())?;
            Some((cluster.name.clone(), not_ready.to_string()))
        });
        explained.not_ready = not_ready.collect();
        Some(explained)
    }
}
