//! From the intents of a repo to the edits of its files.
//!
//! The new side is rendered in memory by the rules of the new control plane, and compared with what the old one sends.
//! What control planes add to or leave out of every manifest is then written into the objects themselves, what differs
//! between clusters into overrides.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use federate_dialect::import::{ImportEdit, apply_edits};
use federate_engine::EngineSettings;
use federate_kubernetes::names::is_dns_subdomain;
use federate_kubernetes::{Cluster, ClusterName, Finding, Object, ObjectRef, Origin, sops};
use federate_repo::{ClaimedObject, Repo, Role, Template};
use federate_session::Session;
use serde_json::Value;

use crate::difference;
use crate::error::{MigrationError, MigrationProblem};
use crate::intent::{
    ClusterOperations, ClusterRule, OverrideIntent, PatchAction, PlacementIntent, ReplicaRule, RepoIntent,
    TaintRule, TemplateIntent, TemplateSource, group_operations, unequal_rule, unread_rules,
};
use crate::inventory::write_cluster;
use crate::placed::find_placed;
use crate::present::PresentState;
use crate::read::kubefed;
use crate::rendering::{MigratedRepo, SentVariants, claim_object};
use crate::repo_text::{CutObject, RepoText, common_folder, is_template_file};
use crate::write::{self, PolicyDraft, PolicyRole, karmada};
use crate::{MigratedObject, Migration, Mode, Reason, Target};

mod config;
mod operations;
mod plain;
mod rendered_files;

use operations::{TriedOperations, append_operations, pair_variants, take_common};

/// The numbers that divide replicas.
const DIVIDED_POINTERS: [&str; 3] = ["/spec/replicas", "/spec/parallelism", "/spec/completions"];

/// The most leaders that are named for an object that follows them.
const MAX_LEADERS: usize = 3;

/// What names an object.
const IDENTITY_POINTERS: [&str; 4] = ["/apiVersion", "/kind", "/metadata/name", "/metadata/namespace"];

/// A migration of one repo.
pub(crate) struct RepoConversion<'s> {
    pub session: &'s Session,
    pub target: Target,
    pub mode: Mode,
    /// The dialects that are left.
    pub sources: BTreeSet<&'static str>,
}

impl RepoConversion<'_> {
    /// The migration of a repo with this intent. Rules of override policies that leave no room for what else differs between
    /// clusters are written by what they lead to now.
    pub(crate) fn convert(&self, intent: RepoIntent) -> Result<Migration, MigrationError> {
        if !intent.has_own_rules() {
            return self.convert_intent(intent);
        }
        let mut without_rules = intent.clone();
        match self.convert_intent(intent) {
            Err(MigrationError::Problems(_)) => {
                without_rules.drop_own_rules(|_| true);
                self.convert_intent(without_rules)
            }
            converted => converted,
        }
    }

    fn convert_intent(&self, mut intent: RepoIntent) -> Result<Migration, MigrationError> {
        let mut text = RepoText::new(self.session.repo());
        self.remove_marks(&mut intent);
        self.leave_out_clusters(&mut intent);
        let accepts = |name: &str| self.accepts_name(name);
        let present = PresentState::new(self.session, &self.sources, &intent, accepts);
        write::fit_intent(self.target, &mut intent, &present);
        self.prepare_namespaces(&mut intent);
        self.note_lost_apis(&mut intent);
        let edited = self.find_edited(&intent);
        self.replace_template_files(&mut intent, &text, &edited, "");
        let mut problems = self.find_obstacles(&edited, &mut text);
        if !problems.is_empty() {
            return Err(MigrationError::Problems(problems));
        }
        let taken = self.taken_names();
        let mut scaled = BTreeSet::new();
        let mut simulated = self.simulate(&intent, &taken);
        if self.drop_failing_overrides(&mut intent, &simulated, &taken) {
            simulated = self.simulate(&intent, &taken);
        }
        let (has_leaders, is_premature) =
            (self.stop_leaders(&mut intent, &simulated), self.withhold_unplaced(&mut intent, &simulated));
        if has_leaders || is_premature {
            simulated = self.simulate(&intent, &taken);
        }
        let has_stragglers = self.place_stragglers(&mut intent, &simulated);
        if Self::raise_replicas(&mut intent, &simulated, &mut scaled) || has_stragglers {
            simulated = self.simulate(&intent, &taken);
        }
        let unplaced = self.find_unplaced(&mut intent, &simulated);
        let sent = SentVariants::from_rendering(self.session.render(), self.session.dialects());
        let aligned = self.align_manifests(&mut intent, &sent, &simulated, Some(&scaled), &mut text);
        problems.extend(aligned.problems);
        if aligned.has_changes {
            // An override can change what the control plane has filled in: with another image, another pull policy.
            simulated = self.simulate(&intent, &taken);
            let aligned = self.align_manifests(&mut intent, &sent, &simulated, None, &mut text);
            problems.extend(aligned.problems);
            if aligned.has_changes {
                // What an edit does not reach, an override does.
                simulated = self.simulate(&intent, &taken);
                problems
                    .extend(self.align_manifests(&mut intent, &sent, &simulated, None, &mut text).problems);
            }
        }
        if !problems.is_empty() {
            return Err(MigrationError::Problems(problems));
        }
        intent.placements = self.share_placements(std::mem::take(&mut intent.placements), &intent.overrides);
        write::keep_selectors(self.target, &mut intent, &present);
        let drafts = write::write_policies(self.target, &intent, &taken);
        let problems = write::find_problems(self.target, &drafts);
        if !problems.is_empty() {
            return Err(MigrationError::Problems(problems));
        }
        add_labels(&mut intent, &drafts);
        self.write_templates(&intent, &mut text);
        self.write_policies(&intent, &drafts, &mut text);
        self.remove_policies(&intent, &mut text);
        self.write_config(&mut text);
        let edits = text.into_edits().map_err(MigrationError::Problems)?;
        let objects = self.list_objects(&intent, &unplaced);
        let mut unequal = intent.unequal_of_repo;
        unequal.sort();
        Ok(Migration { edits, objects, unequal })
    }

    fn repo(&self) -> &Repo {
        self.session.repo()
    }

    /// The objects of the control planes that are left.
    fn left_objects(&self) -> impl Iterator<Item = &ClaimedObject> {
        self.repo().claimed.iter().filter(|claimed| self.sources.contains(claimed.dialect))
    }

    /// The names of the policies that the repo has for the new control plane.
    fn taken_names(&self) -> BTreeSet<ObjectRef> {
        let claimed = self.repo().claimed.iter();
        claimed.filter(|claimed| claimed.dialect == self.target.name()).map(|c| c.object.id.clone()).collect()
    }

    /// The objects that change in their files, by their old names.
    fn find_edited(&self, intent: &RepoIntent) -> BTreeSet<ObjectRef> {
        let named = write::find_edited(self.target, intent);
        let edited = intent.templates.iter().filter(|one| !one.edits.is_empty() || named.contains(&one.id));
        edited.filter(|one| one.source.is_own()).map(|one| one.old.clone()).collect()
    }

    /// What keeps the files from being edited in which these objects and the policies are.
    fn find_obstacles(&self, edited: &BTreeSet<ObjectRef>, text: &mut RepoText<'_>) -> Vec<MigrationProblem> {
        let mut problems = Vec::new();
        text.read_files(&self.left_objects().map(|claimed| claimed.object.origin.file.clone()).collect());
        for claimed in self.left_objects() {
            problems.extend(text.find_obstacle(&claimed.object.id, &claimed.object.origin));
        }
        for own in edited.iter().filter_map(|id| self.repo().find_template(id)) {
            if !is_template_file(&own.object.origin.file) {
                problems.extend(text.find_obstacle(&own.object.id, &own.object.origin));
            }
        }
        problems
    }

    /// Removes the labels and annotations that only the old control planes read.
    fn remove_marks(&self, intent: &mut RepoIntent) {
        let known: BTreeMap<ObjectRef, usize> =
            intent.templates.iter().enumerate().map(|(at, template)| (template.old.clone(), at)).collect();
        for own in &self.repo().templates {
            let edits = self.mark_removals(&own.object);
            if edits.is_empty() {
                continue;
            }
            let id = &own.object.id;
            match known.get(id).and_then(|at| intent.templates.get_mut(*at)) {
                Some(template) if !template.source.is_own() => {}
                Some(template) => template.edits.extend(edits),
                None => {
                    let template = TemplateIntent::unchanged(id.clone(), id.clone(), TemplateSource::Own);
                    intent.templates.push(TemplateIntent { edits, ..template });
                }
            }
        }
    }

    /// The labels and annotations of an object that belong to the old control planes. Maps that they leave empty go, too.
    fn mark_removals(&self, object: &Object) -> Vec<ImportEdit> {
        let domains: Vec<&str> = self
            .session
            .dialects()
            .iter()
            .filter(|dialect| self.sources.contains(dialect.name()))
            .flat_map(|dialect| dialect.kinds().own_domains())
            .copied()
            .collect();
        let mut edits = Vec::new();
        for field in ["labels", "annotations"] {
            let Some(map) = object.value_at(&["metadata", field]).and_then(Value::as_object) else {
                continue;
            };
            let is_own = |key: &&String| {
                let domain = key.split_once('/').map_or("", |(domain, _)| domain);
                domains.iter().any(|own| {
                    domain.strip_suffix(own).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
                })
            };
            let own: Vec<&String> = map.keys().filter(is_own).collect();
            let pointer = format!("/metadata/{field}");
            if !own.is_empty() && own.len() == map.len() {
                edits.push(ImportEdit { pointer, value: None });
                continue;
            }
            edits.extend(own.into_iter().map(|key| ImportEdit {
                pointer: format!("{pointer}/{}", federate_kubernetes::pointer::escape(key)),
                value: None,
            }));
        }
        edits
    }

    /// Makes Namespaces go where they go now: Karmada sends each to all clusters that is not labelled otherwise.
    fn prepare_namespaces(&self, intent: &mut RepoIntent) {
        match self.target {
            Target::Karmada => {}
            Target::KubeAdmiral => return self.release_namespaces(intent),
            Target::KubeFleet | Target::Plain => return,
        }
        let is_namespace = |id: &ObjectRef| id.kind == "Namespace" && id.api_version == "v1";
        let goes_everywhere = |id: &ObjectRef| is_namespace(id) && !karmada::is_reserved_namespace(&id.name);
        // A rule for every cluster needs no policy.
        intent.placements.retain(|placement| {
            !(placement.clusters.is_everywhere()
                && placement.taints == TaintRule::Ignored
                && placement.max_clusters.is_none()
                && placement.objects.iter().all(goes_everywhere))
                || placement.suspension != crate::intent::Suspended::Nowhere
        });
        let mut restricted: BTreeSet<ObjectRef> = BTreeSet::new();
        for placement in &intent.placements {
            restricted.extend(placement.objects.iter().filter(|id| is_namespace(id)).cloned());
        }
        let known: BTreeMap<ObjectRef, usize> = intent
            .templates
            .iter()
            .enumerate()
            .filter(|(_, template)| is_namespace(&template.id))
            .map(|(at, template)| (template.id.clone(), at))
            .collect();
        let placed = find_placed(self.session, &self.sources);
        let own = self.repo().templates.iter().map(|template| &template.object.id);
        let all: BTreeSet<&ObjectRef> = own.filter(|id| is_namespace(id)).chain(known.keys()).collect();
        let mut added = Vec::new();
        for id in all {
            let everywhere =
                placed.get(id).is_some_and(|placed| !placed.clusters.is_empty()) && !restricted.contains(id);
            if everywhere || karmada::is_reserved_namespace(&id.name) {
                continue;
            }
            let own = self.repo().find_template(id);
            if own.is_some_and(|own| own.object.label(karmada::SKIP_LABEL).is_some()) {
                continue;
            }
            let pointer =
                format!("/metadata/labels/{}", federate_kubernetes::pointer::escape(karmada::SKIP_LABEL));
            let edit = ImportEdit { pointer, value: Some("true".into()) };
            if let Some(template) = known.get(id).and_then(|at| intent.templates.get_mut(*at)) {
                template.edits.push(edit);
            } else {
                let template = TemplateIntent::unchanged(id.clone(), id.clone(), TemplateSource::Own);
                added.push(TemplateIntent { edits: vec![edit], ..template });
            }
        }
        intent.templates.extend(added);
    }

    /// Leaves out the placements of Namespaces, which `KubeAdmiral` sends to all clusters.
    fn release_namespaces(&self, intent: &mut RepoIntent) {
        let is_sent = |id: &ObjectRef| {
            id.kind == "Namespace" && id.api_version == "v1" && write::kubeadmiral::sends_namespace(&id.name)
        };
        for placement in &mut intent.placements {
            placement.objects.retain(|object| !is_sent(object));
        }
        intent.placements.retain(|placement| !placement.objects.is_empty());
        let known: BTreeSet<ObjectRef> =
            intent.templates.iter().map(|template| template.id.clone()).collect();
        let own = self.repo().templates.iter().map(|template| &template.object.id);
        let added: Vec<&ObjectRef> = own.filter(|id| is_sent(id) && !known.contains(id)).collect();
        let added = added
            .into_iter()
            .map(|id| TemplateIntent::unchanged(id.clone(), id.clone(), TemplateSource::Own));
        intent.templates.extend(added);
        let placed = find_placed(self.session, &self.sources);
        let all = self.session.clusters().len();
        let restricted: Vec<ObjectRef> = intent
            .templates
            .iter()
            .filter(|template| is_sent(&template.id))
            .filter(|template| placed.get(&template.old).is_none_or(|one| one.clusters.len() < all))
            .map(|template| template.old.clone())
            .collect();
        for old in restricted {
            let origin = self.repo().find_template(&old).map(|own| &own.object.origin);
            let detail = "the Namespace goes to every cluster";
            intent.add_unequal(&old, unequal_rule(Reason::Namespaces, detail, origin, ""));
        }
    }

    /// The new side in memory.
    fn simulate(&self, intent: &RepoIntent, taken: &BTreeSet<ObjectRef>) -> MigratedRepo {
        let dialects = self.session.dialects();
        let drafts = write::write_policies(self.target, intent, taken);
        let labels = find_labels(&drafts);
        let edited: BTreeMap<&ObjectRef, &TemplateIntent> =
            intent.templates.iter().map(|template| (&template.id, template)).collect();
        let mut templates: Vec<Template> = Vec::new();
        for own in &self.repo().templates {
            match edited.get(&own.object.id) {
                Some(template) if !template.source.is_own() => {}
                Some(template)
                    if own.per_cluster.is_none()
                        && (!template.edits.is_empty() || labels.contains_key(&template.id)) =>
                {
                    let mut object = own.object.clone();
                    apply_edits(&template.edits, &mut object.body);
                    apply_labels(&labels, &mut object);
                    templates.push(Template::new(object));
                }
                _ => templates.push(own.clone()),
            }
        }
        for template in &intent.templates {
            if let Some((file, body)) = template.source.find_written() {
                let mut body = body.clone();
                apply_edits(&template.edits, &mut body);
                let origin = match &template.source {
                    TemplateSource::Embedded { origin, .. } => origin.clone(),
                    _ => Origin { file: file.clone(), document: 0, item: None, line: 0 },
                };
                let mut object = Object { id: template.id.clone(), body, origin };
                apply_labels(&labels, &mut object);
                templates.push(Template::new(object));
            }
        }
        let claimed = self.repo().claimed.iter();
        let mut claimed: Vec<ClaimedObject> =
            claimed.filter(|claimed| !self.sources.contains(claimed.dialect)).cloned().collect();
        claimed.extend(drafts.iter().filter_map(|draft| claim_object(dialects, &draft.value)));
        let clusters = self.left_clusters();
        claimed.extend(clusters.filter_map(|cluster| claim_object(dialects, &cluster.value)));
        let mut repo = self.repo().clone();
        repo.config.clusters.retain(|cluster| self.accepts_name(&cluster.name));
        for source in &self.sources {
            repo.config.dialects.remove(*source);
        }
        MigratedRepo::new(self.session, repo, templates, claimed, self.engine_settings())
    }

    /// With what the new side in memory is rendered.
    fn engine_settings(&self) -> EngineSettings {
        EngineSettings {
            now: self.session.now(),
            live: self.session.observed().clone(),
            ..EngineSettings::default()
        }
    }

    /// The clusters that objects of the old control planes describe, as the new one describes them, without those that it cannot have.
    fn left_clusters(&self) -> impl Iterator<Item = LeftCluster<'_>> {
        let inventory: BTreeMap<&ObjectRef, &Object> = self
            .left_objects()
            .filter(|claimed| claimed.role == Role::Inventory)
            .map(|claimed| (&claimed.object.id, &claimed.object))
            .collect();
        self.session.clusters().iter().filter_map(move |cluster| {
            let object = *inventory.get(&cluster.id)?;
            if !kubefed::sees_cluster(self.repo(), &object.id) || !self.accepts_name(&cluster.name) {
                return None;
            }
            Some(LeftCluster { object, cluster, value: write_cluster(cluster, self.target) })
        })
    }

    /// Whether policies of the new control plane can have a cluster of this name.
    fn accepts_name(&self, cluster: &str) -> bool {
        self.target != Target::KubeFleet || is_dns_subdomain(cluster)
    }

    /// Leaves out the clusters whose names the new control plane cannot have, and notes which objects they have.
    fn leave_out_clusters(&self, intent: &mut RepoIntent) {
        let refused = self.session.clusters().iter().filter(|cluster| !self.accepts_name(&cluster.name));
        let refused: BTreeMap<&str, &Origin> =
            refused.map(|cluster| (cluster.name.as_ref(), &cluster.origin)).collect();
        if refused.is_empty() {
            return;
        }
        intent.leave_out_clusters(|name| refused.contains_key(name));
        let placed = find_placed(self.session, &self.sources);
        for (old, placed) in placed {
            for (name, origin) in refused.iter().filter(|(name, _)| placed.clusters.contains(**name)) {
                let detail = format!("{} has no cluster `{name}`", self.target.title());
                intent.add_unequal(old, unequal_rule(Reason::ClusterNames, detail, Some(origin), ""));
            }
        }
        for (name, origin) in refused {
            let detail = format!(
                "the cluster `{name}` is left out: a name of {} has lowercase letters, digits, `-` and `.`; rename it first, here and \
                 in all policies that name it",
                self.target.title()
            );
            let rule = unequal_rule(Reason::ClusterNames, detail, Some(origin), "/metadata/name");
            intent.unequal_of_repo.push(rule);
        }
    }

    /// Leaves out the rules of override policies that the new control plane refuses or fails to apply: what they do is then
    /// found by comparing manifests. Returns whether there are any.
    fn drop_failing_overrides(
        &self,
        intent: &mut RepoIntent,
        simulated: &MigratedRepo,
        taken: &BTreeSet<ObjectRef>,
    ) -> bool {
        if !intent.has_own_rules() {
            return false;
        }
        let dialects = self.session.dialects();
        let failed = simulated.rendering.not_sent.iter().filter(|held| held.failed);
        let mut dropped: BTreeSet<ObjectRef> = failed.map(|held| held.object.clone()).collect();
        let drafts = write::write_policies(self.target, intent, taken);
        for draft in drafts.iter().filter(|draft| draft.role == PolicyRole::Override) {
            let Some(claimed) = claim_object(dialects, &draft.value) else { continue };
            let Some(dialect) = dialects.get(claimed.dialect) else { continue };
            let findings = dialect.validate_object(&claimed, &simulated.repo.config);
            if findings.iter().any(Finding::is_error) {
                dropped.extend(draft.objects.iter().cloned());
            }
        }
        intent.drop_own_rules(|object| dropped.contains(object))
    }

    /// Lets objects lead no others, where the new control plane would send more than the old one. Returns whether there are any.
    fn stop_leaders(&self, intent: &mut RepoIntent, simulated: &MigratedRepo) -> bool {
        let placed = find_placed(self.session, &self.sources);
        let mut leaders: BTreeSet<&ObjectRef> = BTreeSet::new();
        for row in &simulated.rendering.plan.placements {
            let had = placed.get(&row.object);
            let is_new = |name: &ClusterName| had.is_none_or(|had| !had.clusters.contains(name));
            if row.clusters.iter().any(|cluster| is_new(&cluster.name)) {
                leaders.extend(&row.required_by);
            }
        }
        let mut has_leaders = false;
        for placement in intent.placements.iter_mut().filter(|placement| placement.leads) {
            if placement.objects.iter().any(|object| leaders.contains(object)) {
                (placement.leads, has_leaders) = (false, true);
            }
        }
        has_leaders
    }

    /// Leaves out the placements of objects that are nowhere now, and that the new control plane would place. Returns whether there
    /// are any.
    fn withhold_unplaced(&self, intent: &mut RepoIntent, simulated: &MigratedRepo) -> bool {
        let placed = find_placed(self.session, &self.sources);
        let rows = simulated.rendering.plan.placements.iter();
        let reached: BTreeSet<&ObjectRef> =
            rows.filter(|row| !row.clusters.is_empty()).map(|row| &row.object).collect();
        let templates = intent.templates.iter();
        let premature: BTreeMap<ObjectRef, ObjectRef> = templates
            .filter(|one| reached.contains(&one.id))
            .filter(|one| placed.get(&one.old).is_some_and(|placed| placed.clusters.is_empty()))
            .map(|one| (one.id.clone(), one.old.clone()))
            .collect();
        let mut withheld = Vec::new();
        for placement in &mut intent.placements {
            let origin = placement.origin.clone();
            placement.objects.retain(|object| {
                let old = premature.get(object);
                withheld.extend(old.map(|old| (old.clone(), origin.clone())));
                old.is_none()
            });
        }
        intent.placements.retain(|placement| !placement.objects.is_empty());
        let is_premature = !withheld.is_empty();
        for (old, origin) in withheld {
            let detail =
                "it is nowhere now, and the new control plane would place it: its policy is left out";
            intent.add_unequal(&old, unequal_rule(Reason::Frozen, detail, origin.as_ref(), ""));
        }
        is_premature
    }

    /// Places objects by name that went with others by rules which the new control plane does not have. Returns whether there are
    /// any.
    fn place_stragglers(&self, intent: &mut RepoIntent, simulated: &MigratedRepo) -> bool {
        let rows = simulated.rendering.plan.placements.iter();
        let mut reached: BTreeMap<&ObjectRef, BTreeSet<&str>> = BTreeMap::new();
        for row in rows {
            let clusters = row.clusters.iter().map(|placed| placed.name.as_ref());
            reached.entry(&row.object).or_default().extend(clusters);
        }
        let intended = intent.placements.iter().flat_map(|placement| &placement.objects);
        let intended: BTreeSet<ObjectRef> = intended.cloned().collect();
        let mut stragglers = Vec::new();
        for (old, placed) in find_placed(self.session, &self.sources) {
            let follows = placed.rows.iter().all(|row| row.policy.is_none() && !row.required_by.is_empty());
            let mut clusters: BTreeSet<&str> = placed.clusters.iter().map(AsRef::as_ref).collect();
            clusters.retain(|name| self.accepts_name(name));
            if !follows || clusters.is_empty() || intended.contains(old) {
                continue;
            }
            let leaders = || placed.rows.iter().flat_map(|row| &row.required_by);
            let is_straggler = reached.get(old) != Some(&clusters);
            if is_straggler {
                stragglers.push(PlacementIntent::from_object(old.clone(), ClusterRule::from_names(clusters)));
            }
            if is_straggler || leaders().any(|leader| intent.unequal.contains_key(leader)) {
                let leaders: Vec<String> = leaders().take(MAX_LEADERS).map(ToString::to_string).collect();
                let detail = format!("it follows {}", leaders.join(", "));
                let origin = self.repo().find_template(old).map(|own| &own.object.origin);
                intent.add_unequal(old, unequal_rule(Reason::Followers, detail, origin, ""));
            }
        }
        let has_stragglers = !stragglers.is_empty();
        intent.placements.extend(stragglers);
        has_stragglers
    }

    /// Lets objects without replicas have one, where the new control plane would place none: the clusters then override it.
    /// Returns whether there are any.
    fn raise_replicas(
        intent: &mut RepoIntent,
        simulated: &MigratedRepo,
        scaled: &mut BTreeSet<ObjectRef>,
    ) -> bool {
        let plan = &simulated.rendering.plan;
        let reached: BTreeSet<&ObjectRef> =
            plan.placements.iter().filter(|row| !row.clusters.is_empty()).map(|row| &row.object).collect();
        let duplicated = intent.placements.iter().filter(|one| one.replicas == ReplicaRule::Duplicated);
        let wanted: BTreeSet<ObjectRef> =
            duplicated.flat_map(|one| &one.objects).filter(|id| !reached.contains(id)).cloned().collect();
        let pointer = DIVIDED_POINTERS[0];
        for template in intent.templates.iter_mut().filter(|template| wanted.contains(&template.id)) {
            let own = simulated.repo.find_template(&template.id);
            let own = own.filter(|own| own.per_cluster.is_none());
            if own.is_some_and(|own| own.object.body.pointer(pointer) == Some(&Value::from(0))) {
                template.edits.push(ImportEdit { pointer: pointer.to_owned(), value: Some(1.into()) });
                scaled.insert(template.id.clone());
            }
        }
        !scaled.is_empty()
    }

    /// The objects that the new control plane never sends to members.
    fn find_unplaced(&self, intent: &mut RepoIntent, simulated: &MigratedRepo) -> BTreeSet<ObjectRef> {
        let engine = simulated.build_engine();
        let Some(plane) = engine.find_planner(self.target.name()) else { return BTreeSet::new() };
        let mut unplaced = BTreeSet::new();
        let rows = || simulated.rendering.plan.placements.iter();
        let reached: BTreeSet<&ObjectRef> =
            rows().filter(|row| !row.clusters.is_empty()).map(|row| &row.object).collect();
        let refused = rows().filter_map(|row| Some((&row.object, row.unschedulable.as_ref()?)));
        let refused: BTreeMap<&ObjectRef, String> = refused
            .filter(|(_, why)| why.reason == "NotFederated")
            .map(|(object, why)| (object, why.message.clone()))
            .collect();
        let intended = intent.placements.iter().flat_map(|placement| &placement.objects);
        let intended: BTreeSet<ObjectRef> = intended.cloned().collect();
        for template in &intent.templates {
            let Some(new) = simulated.repo.find_template(&template.id) else { continue };
            if intended.contains(&template.id)
                && !reached.contains(&template.id)
                && let Some(why) = plane
                    .advice()
                    .never_propagated_reason(&new.object)
                    .or_else(|| refused.get(&template.id).cloned())
            {
                let rule = unequal_rule(Reason::NeverPropagated, why, Some(&new.object.origin), "");
                intent.unequal.entry(template.old.clone()).or_default().push(rule);
                unplaced.insert(template.id.clone());
            }
        }
        for placement in &mut intent.placements {
            placement.objects.retain(|object| !unplaced.contains(object));
        }
        intent.placements.retain(|placement| !placement.objects.is_empty());
        unplaced
    }

    /// Makes manifests equal: by edits of objects where all clusters differ alike, else by overrides. Without `scaled`, by
    /// overrides alone.
    fn align_manifests(
        &self,
        intent: &mut RepoIntent,
        old: &SentVariants,
        simulated: &MigratedRepo,
        scaled: Option<&BTreeSet<ObjectRef>>,
        text: &mut RepoText<'_>,
    ) -> AlignedManifests {
        let new = SentVariants::from_rendering(&simulated.rendering, self.session.dialects());
        let divided = intent.placements.iter().filter(|one| one.replicas != ReplicaRule::Duplicated);
        let divided: BTreeSet<ObjectRef> = divided.flat_map(|one| &one.objects).cloned().collect();
        let mut overrides: BTreeMap<ObjectRef, Vec<ClusterOperations>> = BTreeMap::new();
        let (mut problems, mut has_changes) = (Vec::new(), false);
        let tried = match scaled {
            Some(_) => TriedOperations::default(),
            None => TriedOperations::new(intent),
        };
        let mut written: BTreeMap<ObjectRef, Option<ObjectRef>> = BTreeMap::new();
        let selecting: BTreeMap<ObjectRef, Vec<Origin>> = intent
            .overrides
            .iter()
            .filter(|one| one.own.iter().any(|rule| rule.clusters.plain_names().is_none()))
            .map(|one| (one.object.clone(), one.origins.clone()))
            .collect();
        let mut supplemented: BTreeMap<ObjectRef, Vec<Origin>> = BTreeMap::new();
        let known_texts = self.known_texts();
        let strict = write::has_strict_patches(self.target);
        let mut useless: BTreeMap<ObjectRef, BTreeSet<String>> = BTreeMap::new();
        for template in &mut intent.templates {
            let variants = old.find_variants(&template.old);
            let pairs = pair_variants(variants, new.find_variants(&template.id));
            let bodies: Vec<&Value> = pairs.iter().map(|pair| &pair.new.body).collect();
            let mut changes: Vec<ClusterOperations> =
                pairs.into_iter().map(|pair| pair.into_operations(strict)).collect();
            for change in &mut changes {
                change.operations.retain(|operation| {
                    !(divided.contains(&template.id)
                        && DIVIDED_POINTERS.contains(&operation.pointer.as_str()))
                });
            }
            for change in &mut changes {
                change.operations.retain(|operation| {
                    let is_identity = IDENTITY_POINTERS.contains(&operation.pointer.as_str());
                    let is_new = !is_identity && !tried.contains(&template.id, operation);
                    if !is_new {
                        useless.entry(template.old.clone()).or_default().insert(operation.pointer.clone());
                    }
                    is_new
                });
            }
            if changes.iter().all(|change| change.operations.is_empty()) {
                continue;
            }
            has_changes = true;
            let own = self.repo().find_template(&template.old).filter(|_| template.source.is_own());
            let is_editable = own.is_none_or(|own| {
                own.per_cluster.is_none()
                    && text.find_obstacle(&own.object.id, &own.object.origin).is_none()
                    && !sops::is_encrypted(&own.object.body)
            });
            if let Some(scaled) = scaled.filter(|_| is_editable) {
                let common = take_common(&mut changes, |operation| {
                    let is_overridden = variants.iter().any(|one| one.is_overridden(&operation.pointer));
                    !(scaled.contains(&template.id) && operation.pointer == DIVIDED_POINTERS[0])
                        && match self.mode {
                            Mode::Idiomatic => !is_overridden,
                            Mode::Freeze => operation.action == PatchAction::Remove,
                        }
                });
                template.edits.extend(difference::to_edits(common));
            }
            for (change, body) in changes.iter_mut().zip(bodies) {
                change.operations.retain(|operation| {
                    // For the control planes, there is nothing to remove where the value is null.
                    let is_null = operation.action == PatchAction::Remove
                        && body.pointer(&operation.pointer).is_some_and(Value::is_null);
                    let is_possible = !is_null && write::can_override(self.target, operation);
                    if !is_possible {
                        useless.entry(template.old.clone()).or_default().insert(operation.pointer.clone());
                    }
                    is_possible
                });
            }
            if self.mode == Mode::Idiomatic
                && scaled.is_some()
                && changes
                    .iter()
                    .flat_map(|change| &change.operations)
                    .any(|operation| variants.iter().any(|one| one.is_overridden(&operation.pointer)))
            {
                let policy = variants.iter().find_map(|one| one.policies.first());
                written.insert(template.old.clone(), policy.cloned());
            }
            if let Some(problem) = self.find_new_secrets(template, &changes, &known_texts) {
                problems.push(problem);
                continue;
            }
            let mut operations = changes.iter().flat_map(|change| &change.operations);
            if let Some(origins) = selecting.get(&template.id)
                && operations.any(|operation| !DIVIDED_POINTERS.contains(&operation.pointer.as_str()))
            {
                // What is added to the rules in other clusters is not known.
                supplemented.insert(template.old.clone(), origins.clone());
            }
            overrides.insert(template.id.clone(), changes);
        }
        overrides.retain(|_, changes| changes.iter().any(|change| !change.operations.is_empty()));
        let policies: BTreeMap<&ObjectRef, &Origin> =
            self.left_objects().map(|one| (&one.object.id, &one.object.origin)).collect();
        for (old, policy) in written {
            let origin = policy.as_ref().and_then(|policy| policies.get(policy).copied());
            let detail = "what override rules make of it for each cluster";
            let known = intent.unequal.get(&old).into_iter().flatten();
            if known
                .into_iter()
                .any(|rule| rule.reason == Reason::Overrides && rule.origin.as_ref() == origin)
            {
                continue;
            }
            intent.add_unequal(&old, unequal_rule(Reason::Overrides, detail, origin, ""));
        }
        for (old, pointers) in useless {
            for pointer in pointers {
                let detail = format!("{pointer} cannot be sent as it is now");
                intent.add_unequal(&old, unequal_rule(Reason::Overrides, detail, None, ""));
            }
        }
        for known in std::mem::take(&mut intent.overrides) {
            let changes = overrides.remove(&known.object).unwrap_or_default();
            let rules =
                if changes.is_empty() { known.rules } else { append_operations(known.rules, changes) };
            intent.overrides.push(OverrideIntent { rules, ..known });
        }
        for (object, changes) in overrides {
            intent.overrides.push(OverrideIntent::from_rules(object, group_operations(changes)));
        }
        for (old, origins) in supplemented {
            for origin in origins {
                intent.add_unequal(&old, unread_rules(&origin));
            }
        }
        AlignedManifests { problems, has_changes }
    }

    /// The values of a Secret that are not in the repo are not written into it.
    fn find_new_secrets(
        &self,
        template: &TemplateIntent,
        changes: &[ClusterOperations],
        known: &BTreeSet<&str>,
    ) -> Option<MigrationProblem> {
        if template.id.kind != "Secret" {
            return None;
        }
        let mut operations = changes.iter().flat_map(|change| &change.operations);
        let is_new = operations.any(|operation| {
            let mut values = Vec::new();
            operation.action.value().into_iter().for_each(|value| collect_texts(value, &mut values));
            values.iter().any(|value| !known.contains(value))
        });
        let origin = self.repo().find_template(&template.old).map(|own| own.object.origin.clone());
        is_new.then(|| MigrationProblem {
            object: Some(template.id.clone()),
            origin,
            message: format!(
                "{} differs between clusters in values that are not in the repo as they are sent",
                template.id
            ),
            help: "write the Secret of each cluster as an object of its own, or its values as overrides"
                .to_owned(),
        })
    }

    /// The texts in Secrets and policies of the repo.
    fn known_texts(&self) -> BTreeSet<&str> {
        let secrets = self.repo().templates.iter().filter(|template| template.object.id.kind == "Secret");
        // What a template file is rendered to is made of what the repo has in plain text.
        let rendered = secrets.clone().filter(|template| is_template_file(&template.object.origin.file));
        let rendered = rendered.flat_map(|template| template.per_cluster.iter().flat_map(BTreeMap::values));
        let secrets = secrets.map(|template| &template.object).chain(rendered.map(AsRef::as_ref));
        let mut texts = Vec::new();
        for object in secrets.chain(self.left_objects().map(|claimed| &claimed.object)) {
            collect_texts(&object.body, &mut texts);
        }
        texts.into_iter().collect()
    }

    /// Lets objects share a policy that says the same about all of them. In a frozen repo, an object with overrides has a
    /// policy of its own, so that it can be loosened by itself.
    fn share_placements(
        &self,
        placements: Vec<PlacementIntent>,
        overrides: &[OverrideIntent],
    ) -> Vec<PlacementIntent> {
        let separate: BTreeSet<&ObjectRef> = match self.mode {
            Mode::Freeze => overrides.iter().map(|intent| &intent.object).collect(),
            Mode::Idiomatic => BTreeSet::new(),
        };
        let mut shared: Vec<PlacementIntent> = Vec::new();
        let mut known: BTreeMap<String, usize> = BTreeMap::new();
        let mut renamed: BTreeSet<String> = BTreeSet::new();
        for placement in placements {
            let first = placement.objects.first().filter(|_| !placement.is_cluster_wide);
            let namespace = first.and_then(|object| object.namespace.clone());
            let is_named = first.is_none() && placement.objects.iter().all(|id| id.name != placement.name);
            let wide_name = (placement.is_cluster_wide && is_named).then_some(&placement.name);
            let is_separate = placement.objects.iter().any(|object| separate.contains(object));
            let rule = (&placement.clusters, &placement.replicas, &placement.suspension);
            let rest = (&placement.taints, placement.adoption, placement.is_preserved);
            let more = (placement.max_clusters, placement.leads, wide_name.filter(|_| !is_separate));
            let own = is_separate.then_some(&placement.objects);
            let key = format!("{namespace:?} {rule:?} {rest:?} {more:?} {own:?}");
            if let Some(found) = known.get(&key).and_then(|at| shared.get_mut(*at)) {
                if found.name != placement.name {
                    renamed.insert(key);
                }
                found.objects.extend(placement.objects);
                found.selectors.extend(placement.selectors);
            } else {
                known.insert(key, shared.len());
                shared.push(placement);
            }
        }
        for at in renamed.iter().filter_map(|key| known.get(key)) {
            if let Some(placement) = shared.get_mut(*at) {
                placement.name = name_group(&placement.objects);
            }
        }
        shared.sort_by(|a, b| a.objects.cmp(&b.objects));
        shared
    }

    fn write_templates(&self, intent: &RepoIntent, text: &mut RepoText<'_>) {
        let mut cut: BTreeMap<&Origin, Vec<CutObject<'_>>> = BTreeMap::new();
        for template in &intent.templates {
            match &template.source {
                TemplateSource::Own => {
                    if let Some(own) = self.repo().find_template(&template.old) {
                        text.edit_object(&own.object.origin, &template.edits);
                    }
                }
                TemplateSource::Embedded { origin, pointer, body } => {
                    cut.entry(origin).or_default().push(CutObject { pointer, body, edits: &template.edits });
                    if let Some(own) = self.repo().find_template(&template.id) {
                        text.remove_object(&own.object.origin);
                    }
                }
                TemplateSource::Rendered { .. } => {}
            }
        }
        text.cut_objects(&cut);
        Self::write_rendered(intent, text);
    }

    fn write_policies(&self, intent: &RepoIntent, drafts: &[PolicyDraft], text: &mut RepoText<'_>) {
        let mut files: BTreeMap<&ObjectRef, Arc<str>> = BTreeMap::new();
        for template in &intent.templates {
            let file = match &template.source {
                TemplateSource::Own => {
                    self.repo().find_template(&template.old).map(|own| own.object.origin.file.clone())
                }
                source => source.find_written().map(|(file, _)| file.clone()),
            };
            files.extend(file.map(|file| (&template.id, file)));
        }
        let folders: BTreeMap<PolicyRole, bool> = [PolicyRole::Placement, PolicyRole::Override]
            .into_iter()
            .map(|role| (role, text.has_folder(role.folder())))
            .collect();
        for draft in drafts {
            let about: BTreeSet<Arc<str>> =
                draft.objects.iter().filter_map(|object| files.get(object)).cloned().collect();
            let name = draft.value.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
            let single = about.first().filter(|file| about.len() == 1 && text.accepts_documents(file));
            let role = match draft.role {
                PolicyRole::Override if folders.get(&PolicyRole::Override) != Some(&true) => {
                    PolicyRole::Placement
                }
                role => role,
            };
            let file: Arc<str> = if let Some(file) =
                draft.file.as_ref().filter(|file| text.accepts_documents(file))
            {
                file.clone()
            } else if folders.get(&role) == Some(&true) {
                format!("{}/{name}.yaml", role.folder()).into()
            } else if let Some(file) = single {
                file.clone()
            } else {
                let is_built = about.iter().any(|file| !text.accepts_documents(file));
                let folder =
                    if is_built { PolicyRole::Placement.folder().to_owned() } else { common_folder(&about) };
                let slash = if folder.is_empty() { "" } else { "/" };
                format!("{folder}{slash}{name}-{}.yaml", draft.role.suffix(self.target)).into()
            };
            text.add_document(&file, &draft.value);
        }
    }

    /// Removes the policies, settings and clusters of the old control planes.
    fn remove_policies(&self, intent: &RepoIntent, text: &mut RepoText<'_>) {
        let cut: BTreeSet<&Origin> = intent
            .templates
            .iter()
            .filter_map(|template| match &template.source {
                TemplateSource::Embedded { origin, .. } => Some(origin),
                TemplateSource::Own | TemplateSource::Rendered { .. } => None,
            })
            .collect();
        let clusters: BTreeMap<&ObjectRef, Value> =
            self.left_clusters().map(|cluster| (&cluster.object.id, cluster.value)).collect();
        let mut removed: BTreeSet<&ObjectRef> = BTreeSet::new();
        for claimed in self.left_objects() {
            let object = &claimed.object;
            removed.insert(&object.id);
            match clusters.get(&object.id).filter(|_| self.target != Target::Plain) {
                Some(value) => text.replace_object(&object.origin, value),
                None if cut.contains(&object.origin) => {}
                None => text.remove_object(&object.origin),
            }
        }
        for duplicate in self.repo().duplicates.iter().filter(|one| removed.contains(&one.id)) {
            for origin in &duplicate.others {
                text.remove_object(origin);
            }
        }
    }

    /// Every object that the old side places, with its unequal rules.
    fn list_objects(&self, intent: &RepoIntent, unplaced: &BTreeSet<ObjectRef>) -> Vec<MigratedObject> {
        let templates: BTreeMap<&ObjectRef, &TemplateIntent> =
            intent.templates.iter().map(|template| (&template.old, template)).collect();
        let placed = find_placed(self.session, &self.sources);
        let mut objects = Vec::new();
        for (old, placed) in placed {
            let template = templates.get(old);
            if placed.clusters.is_empty() && template.is_none() {
                continue;
            }
            let new = template.map(|template| template.id.clone()).filter(|id| !unplaced.contains(id));
            let mut unequal = intent.unequal.get(old).cloned().unwrap_or_default();
            unequal.sort();
            let new = new.or_else(|| placed.is_implicit().then(|| old.clone()));
            objects.push(MigratedObject { old: old.clone(), new, unequal });
        }
        // What only the new side places.
        let known: BTreeSet<&ObjectRef> = objects.iter().map(|object| &object.old).collect();
        let added: Vec<MigratedObject> = intent
            .unequal
            .iter()
            .filter(|(old, _)| !known.contains(old))
            .filter_map(|(old, unequal)| {
                let template = templates.get(old)?;
                Some(MigratedObject {
                    old: old.clone(),
                    new: Some(template.id.clone()),
                    unequal: unequal.clone(),
                })
            })
            .collect();
        objects.extend(added);
        objects.sort_by(|a, b| a.old.cmp(&b.old));
        objects
    }
}

/// The labels by which objects name their policies.
fn find_labels(drafts: &[PolicyDraft]) -> BTreeMap<&ObjectRef, Vec<&ImportEdit>> {
    let mut labels: BTreeMap<&ObjectRef, Vec<&ImportEdit>> = BTreeMap::new();
    for draft in drafts {
        for object in draft.objects.iter().filter(|_| draft.label.is_some()) {
            labels.entry(object).or_default().extend(&draft.label);
        }
    }
    labels
}

fn apply_labels(labels: &BTreeMap<&ObjectRef, Vec<&ImportEdit>>, object: &mut Object) {
    for label in labels.get(&object.id).into_iter().flatten() {
        apply_edits(std::slice::from_ref(*label), &mut object.body);
    }
}

/// Labels objects with the names of their policies.
fn add_labels(intent: &mut RepoIntent, drafts: &[PolicyDraft]) {
    let mut labels = find_labels(drafts);
    for template in &mut intent.templates {
        let named = labels.remove(&template.id).unwrap_or_default();
        template.edits.extend(named.into_iter().cloned());
    }
}

/// What came of making manifests equal.
struct AlignedManifests {
    problems: Vec<MigrationProblem>,
    /// Whether objects or overrides have changed.
    has_changes: bool,
}

/// A cluster of an old control plane.
struct LeftCluster<'r> {
    object: &'r Object,
    cluster: &'r Cluster,
    /// As the new control plane describes it.
    value: Value,
}

/// The texts in a value.
fn collect_texts<'v>(value: &'v Value, out: &mut Vec<&'v str>) {
    match value {
        Value::String(text) => out.push(text),
        Value::Array(items) => items.iter().for_each(|item| collect_texts(item, out)),
        Value::Object(map) => map.values().for_each(|item| collect_texts(item, out)),
        _ => {}
    }
}

/// A name for objects that share a policy: theirs, if they have one, that of a workload, or that of their namespace.
fn name_group(objects: &BTreeSet<ObjectRef>) -> String {
    const WORKLOADS: [&str; 5] = ["Deployment", "StatefulSet", "DaemonSet", "Job", "CronJob"];
    let names: BTreeSet<&str> = objects.iter().map(|object| object.name.as_str()).collect();
    let workloads: BTreeSet<&str> = objects
        .iter()
        .filter(|object| WORKLOADS.contains(&object.kind.as_str()))
        .map(|object| object.name.as_str())
        .collect();
    let namespace = objects.first().and_then(|object| object.namespace.as_deref());
    let only = [names, workloads].into_iter().find(|names| names.len() == 1);
    let only = only.and_then(|names| names.first().copied());
    let kinds: BTreeSet<&str> = objects.iter().map(|object| object.kind.as_str()).collect();
    match (only.or(namespace), kinds.first().filter(|_| kinds.len() == 1)) {
        (Some(name), _) => name.to_owned(),
        (None, Some(kind)) => format!("{}s", kind.to_lowercase()),
        (None, None) => "cluster-wide".to_owned(),
    }
}
