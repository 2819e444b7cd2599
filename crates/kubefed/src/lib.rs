//! The `KubeFed` dialect: the sync controllers, replica scheduler and DNS controllers of Federation v2, and
//! Federation v1, as pure functions.
//!
//! ```text
//! types ─► federated ─► decide (placement, namespace, preference ─► division) ─► manifest (overrides)
//! dns     records ─► status ─► endpoints, on the host
//! member  what is there ─► create, adopt, update (retain ─► overrides ─► version), delete, release
//! v1      annotated templates ─► selector ─► preferences ─► division ─► manifest
//! ```

use std::collections::BTreeMap;

use jiff::Timestamp;
use rayon::prelude::*;
use serde::Deserialize;
use serde_json::Value;

use federate_kubernetes::kinds::{GroupKinds, Scope};
use federate_kubernetes::{Cluster, Connection, ConnectionError, Finding, Object, ObjectRef};
use federate_repo::config::ConfiguredCluster;
use federate_repo::{ClaimedObject, DeclaredKind, Repo, Role, Template};

use federate_dialect::admission::AdmittedObjects;
use federate_dialect::import::Importer;
use federate_dialect::{
    AuthorAdvice, CarriedReplicas, CarriedTemplate, ClusterObservation, ClusterReads, ControlPlaneAction,
    DecisionKeys, DecisionSubject, Dialect, DialectDecisions, Explanation, HubKinds, HubReader, KindCatalog,
    ManifestVariant, MemberManager, MemberReconciler, MemberRules, ObjectReferences, OutageRules, OutageStep,
    Placement, PlannerInput, PolicyAdvice, PolicyPlanner, PreviousPlan, RenamedGroup, Starter, TemplateReads,
    UnreadableObject,
};

mod api;
pub mod capacity;
mod cluster;
mod config;
mod connection;
mod decision;
mod division;
mod dns;
mod explanation;
mod federated_object;
pub mod hub;
mod import;
mod kinds;
mod manifest;
mod member;
mod observation;
mod overrides;
mod placement;
mod preference;
mod references;
mod starter;
mod state;
mod types;
mod v1;
mod validation;

use config::ControlPlaneConfig;
use federated_object::FederatedObject;
use preference::SchedulingPreference;
use types::FederatedTypeIndex;

const NAME: &str = "kubefed";

/// The status of a selected cluster that is not ready.
const CLUSTER_NOT_READY: &str = "ClusterNotReady";

/// The dialect.
pub struct KubeFed;

impl Dialect for KubeFed {
    fn name(&self) -> &'static str {
        NAME
    }

    fn role_of_kind(&self, api_version: &str, kind: &str) -> Option<Role> {
        let group = api_version.split_once('/').map_or("", |(group, _)| group);
        match (group, kind) {
            ("core.kubefed.io" | "core.kubefed.k8s.io", "KubeFedCluster") | ("federation", "Cluster") => {
                Some(Role::Inventory)
            }
            ("core.kubefed.io", kind) if member::is_record(kind) => Some(Role::Other),
            ("core.kubefed.io" | "core.kubefed.k8s.io", "FederatedTypeConfig" | "KubeFedConfig")
            | ("multiclusterdns.kubefed.io", "Domain") => Some(Role::Other),
            ("types.kubefed.io" | "types.kubefed.k8s.io", kind) if kind.starts_with("Federated") => {
                Some(Role::Bundle)
            }
            ("scheduling.kubefed.io", "ReplicaSchedulingPreference")
            | ("multiclusterdns.kubefed.io", "ServiceDNSRecord" | "IngressDNSRecord") => {
                Some(Role::Placement)
            }
            _ => None,
        }
    }

    fn validate_object(&self, claimed: &ClaimedObject, _: &federate_repo::Config) -> Vec<Finding> {
        validation::check_object(&claimed.object, claimed.role)
    }

    fn read_cluster(
        &self,
        object: &Object,
        strict: bool,
        _: &federate_repo::Config,
    ) -> Result<Cluster, Finding> {
        cluster::read_cluster(object, strict)
    }

    fn compile_policies<'a>(&self, input: PlannerInput<'a>) -> Box<dyn PolicyPlanner + 'a> {
        Box::new(KubeFedPlanner::new(input))
    }

    fn kinds(&self) -> &dyn KindCatalog {
        self
    }

    fn hub(&self) -> &dyn HubReader {
        self
    }

    fn outages(&self) -> &dyn OutageRules {
        self
    }

    fn members(&self) -> &dyn MemberRules {
        self
    }

    fn advice(&self) -> &dyn AuthorAdvice {
        self
    }
}

impl KindCatalog for KubeFed {
    fn declared_kind(&self, object: &Object) -> Option<DeclaredKind> {
        if self.role_of_kind(&object.id.api_version, &object.id.kind)? != Role::Other
            || object.id.kind != "FederatedTypeConfig"
        {
            return None;
        }
        let (group, kind, scope) = types::declared_type(object)?;
        Some(DeclaredKind { group, kind, role: Role::Bundle, scope })
    }

    fn own_kinds(&self) -> &'static [GroupKinds] {
        &kinds::KINDS
    }

    fn scope_of_kind(&self, group: &str, kind: &str) -> Option<Scope> {
        kinds::scope_of_kind(group, kind)
    }

    fn own_domains(&self) -> &'static [&'static str] {
        &[
            "kubefed.io",
            "kubefed.k8s.io",
            "federation",
            "federation.kubernetes.io",
            "federation.alpha.kubernetes.io",
        ]
    }

    fn find_carried_replicas(&self, object: &Object) -> Option<CarriedReplicas> {
        types::find_carried_replicas(object)
    }

    fn metadata_keys(&self) -> &'static [&'static str] {
        &references::METADATA_KEYS
    }

    fn renamed_groups(&self) -> &'static [RenamedGroup] {
        &[RenamedGroup { group: "core.kubefed.k8s.io", now: "core.kubefed.io" }]
    }
}

impl HubReader for KubeFed {
    fn read_hub_plan(&self, hub: &[Object]) -> Result<federate_dialect::Plan, UnreadableObject> {
        Ok(hub::read_plan(hub))
    }

    fn compute_cluster_status(&self, _: &Object, seen: &ClusterObservation) -> Option<Value> {
        Some(capacity::observed_status(seen))
    }

    fn hub_kinds(&self) -> &'static [HubKinds] {
        &hub::HUB_KINDS
    }

    fn read_connection(&self, object: &Object) -> Result<Connection, ConnectionError> {
        connection::read_connection(object)
    }
}

impl OutageRules for KubeFed {
    /// A cluster that was ready is not ready at its first failed probe. Schedulers look again after a delay, so that short
    /// failures move nothing.
    fn outage_steps(&self, repo: &Repo, cluster: &Cluster, _: bool) -> Vec<OutageStep> {
        let mut lost = cluster.clone();
        self.mark_unreachable(&mut lost);
        let timing = config::Timing::from_objects(repo.claimed_objects(NAME, Role::Other));
        let offline = OutageStep {
            seconds: timing.probes,
            what: format!("{}: Offline is True", cluster.name),
            cluster: cluster.clone(),
        };
        let unavailable = OutageStep {
            seconds: timing.probes + timing.unavailable,
            what: format!("{}: it counts as unavailable", cluster.name),
            cluster: lost,
        };
        vec![offline, unavailable]
    }
}

impl MemberRules for KubeFed {
    fn member_managers(&self) -> &'static [MemberManager] {
        // The program is one of several symbolic links to `hyperfed`; other projects have one of that name as well.
        const {
            &[
                MemberManager { name: "controller-manager", label: Some(manifest::MANAGED_LABEL) },
                MemberManager { name: "hyperfed", label: None },
            ]
        }
    }

    fn mark_as_managed(&self, live: &mut Object) {
        live.set_label(manifest::MANAGED_LABEL, "true");
    }
}

impl AuthorAdvice for KubeFed {
    fn build_starter(&self, clusters: &[ConfiguredCluster], _: &[&ObjectRef]) -> Starter {
        starter::build_starter(clusters)
    }

    fn importer(&self) -> Option<Importer> {
        Some(import::IMPORTER)
    }

    fn selected_by(&self) -> &'static str {
        "wrap it in a federated object (as `federate import` does)"
    }

    fn find_references(&self, object: &Object) -> ObjectReferences {
        references::find_references(object)
    }
}

/// `KubeFed`'s control plane over one repo.
struct KubeFedPlanner<'a> {
    input: PlannerInput<'a>,
    /// The clock, in seconds.
    now: Option<i64>,
    config: ControlPlaneConfig,
    /// The clusters that it sees, sorted by name.
    clusters: Vec<&'a Cluster>,
    federated: Vec<FederatedObject<'a>>,
    /// Federated objects by the namespace that they federate.
    namespaces: BTreeMap<&'a str, usize>,
    /// By namespace and name.
    preferences: BTreeMap<&'a str, BTreeMap<&'a str, SchedulingPreference<'a>>>,
    /// Domains of DNS records by name.
    domains: BTreeMap<&'a str, api::Domain>,
    /// DNS records.
    records: Vec<&'a Object>,
    /// Records of the versions of objects that were sent.
    sent: Vec<&'a Object>,
    /// The templates of Federation v1.
    templates: Vec<&'a Template>,
    /// Indexes of subjects by their own id.
    subjects: BTreeMap<ObjectRef, usize>,
    /// Indexes of subjects by the id of the target in the plan.
    about: BTreeMap<ObjectRef, usize>,
    findings: Vec<Finding>,
}

impl<'a> KubeFedPlanner<'a> {
    fn new(input: PlannerInput<'a>) -> Self {
        let repo = input.repo;
        let (admitted, mut findings) = AdmittedObjects::from_repo(repo, &KubeFed);
        let config = ControlPlaneConfig::from_objects(admitted.with_role(Role::Other));
        let types = FederatedTypeIndex::from_configs(admitted.with_role(Role::Other), &config.namespace);
        let mut federated = Vec::new();
        for object in admitted.with_role(Role::Bundle) {
            let read = match types.get(&object.id) {
                Some(kind) => FederatedObject::new(object, kind),
                None => Err(validation::unknown_type(object, &config, &types)),
            };
            match read {
                Ok(one) => federated.push(one),
                Err(finding) => findings.push(finding),
            }
        }
        let mut plane = Self {
            input,
            now: input.now.map(Timestamp::as_second),
            clusters: input.clusters.iter().filter(|c| config.sees_cluster(c)).collect(),
            namespaces: BTreeMap::new(),
            preferences: BTreeMap::new(),
            domains: admitted
                .with_role(Role::Other)
                .filter(|o| o.id.kind == "Domain" && o.id.namespace.as_deref() == Some(&config.namespace))
                .map(|o| (o.id.name.as_str(), api::Domain::deserialize(&o.body).unwrap_or_default()))
                .collect(),
            records: admitted.with_role(Role::Placement).filter(|o| dns::is_record(o)).collect(),
            sent: admitted.with_role(Role::Other).filter(|o| member::is_record(&o.id.kind)).collect(),
            templates: Vec::new(),
            config,
            federated,
            subjects: BTreeMap::new(),
            about: BTreeMap::new(),
            findings,
        };
        let placements = admitted.with_role(Role::Placement);
        for object in placements.filter(|o| o.id.kind == "ReplicaSchedulingPreference") {
            plane.add_preference(object);
        }
        let mut mine = repo.claimed.iter().filter(|c| c.dialect == NAME);
        // A template without annotations belongs to Federation v1 only if the repo uses Federation v1, and contains
        // nothing of KubeFed but clusters.
        let implicit = input.implicit && mine.all(|c| c.role == Role::Inventory) && v1::is_used(repo);
        plane.templates = repo.templates.par_iter().filter(|t| v1::handles_template(t, implicit)).collect();
        plane.findings.par_extend(repo.templates.par_iter().filter_map(v1::ignored_annotations));
        plane.index_subjects();
        plane
    }

    fn add_preference(&mut self, object: &'a Object) {
        let namespace = object.id.namespace.as_deref().unwrap_or_default();
        match api::read_spec(object) {
            Ok(spec) => {
                let of_namespace = self.preferences.entry(namespace).or_default();
                of_namespace.insert(object.id.name.as_str(), SchedulingPreference { object, spec });
            }
            Err(finding) => self.findings.push(finding),
        }
    }

    /// Two federated objects can have the same target. Then the active one counts.
    fn index_subjects(&mut self) {
        for (unit, federated) in self.federated.iter().enumerate() {
            if federated.federates_namespace() {
                self.namespaces.insert(federated.object.id.name.as_str(), unit);
            }
            if !self.about.contains_key(&federated.target)
                || decision::inactive_refusal(self, federated).is_none()
            {
                self.about.insert(federated.target.clone(), unit);
            }
        }
        let records = self.records.iter().map(|record| dns::endpoint_ref(record));
        let others = records.chain(self.templates.iter().map(|template| template.object.id.clone()));
        for (unit, id) in (self.federated.len()..).zip(others) {
            self.about.entry(id).or_insert(unit);
        }
        let subjects = self.all_subjects().enumerate();
        self.subjects = subjects.map(|(unit, subject)| (subject.object().id.clone(), unit)).collect();
    }

    /// All subjects of decisions.
    fn all_subjects(&self) -> impl Iterator<Item = KubeFedSubject<'_, 'a>> {
        let federated = self.federated.iter().map(KubeFedSubject::Federated);
        let records = self.records.iter().map(|record| KubeFedSubject::Record(record));
        federated
            .chain(records)
            .chain(self.templates.iter().map(|template| KubeFedSubject::Template(template)))
    }

    /// The subject that decides about an object of the plan.
    fn subject_about(&self, object: &ObjectRef) -> Option<KubeFedSubject<'_, 'a>> {
        self.subject_at(*self.about.get(object)?)
    }

    /// The subject at index `unit`.
    fn subject_at(&self, unit: usize) -> Option<KubeFedSubject<'_, 'a>> {
        if let Some(federated) = self.federated.get(unit) {
            return Some(KubeFedSubject::Federated(federated));
        }
        let unit = unit - self.federated.len();
        if let Some(record) = self.records.get(unit) {
            return Some(KubeFedSubject::Record(record));
        }
        self.templates.get(unit - self.records.len()).map(|template| KubeFedSubject::Template(template))
    }

    /// The cluster of that name, if it is seen.
    fn find_cluster(&self, name: &str) -> Option<&'a Cluster> {
        let at = self.clusters.binary_search_by(|c| c.name.as_ref().cmp(name)).ok()?;
        self.clusters.get(at).copied()
    }

    /// The federated namespace that limits an object.
    fn namespace_of(&self, federated: &FederatedObject<'_>) -> Option<&FederatedObject<'a>> {
        self.federated.get(*self.namespaces.get(federated.namespace())?)
    }

    /// The preference for an object: of its namespace and name, and for its kind.
    fn preference_of(&self, federated: &FederatedObject<'_>) -> Option<&SchedulingPreference<'a>> {
        let named = self.preferences.get(federated.namespace())?.get(federated.object.id.name.as_str());
        named.filter(|preference| preference.spec.target_kind == federated.object.id.kind)
    }

    /// Whether the decision at index `unit` is the one that counts for an object.
    fn is_authoritative(&self, unit: usize, object: &ObjectRef) -> bool {
        self.about.get(object) == Some(&unit)
    }
}

/// What one decision is about.
enum KubeFedSubject<'p, 'a> {
    Federated(&'p FederatedObject<'a>),
    Record(&'a Object),
    Template(&'a Template),
}

impl<'p> KubeFedSubject<'p, '_> {
    /// The object of the repo.
    fn object(&self) -> &'p Object {
        match *self {
            Self::Federated(federated) => federated.object,
            Self::Record(record) => record,
            Self::Template(template) => &template.object,
        }
    }
}

impl PolicyPlanner for KubeFedPlanner<'_> {
    fn check_policies(&self) -> Vec<Finding> {
        let mut findings = self.findings.clone();
        if !self.subjects.is_empty() {
            findings.extend(validation::find_ineffective(self));
        }
        findings
    }

    fn decision_subjects(&self) -> Vec<DecisionSubject> {
        let ids = self.all_subjects().map(|subject| subject.object().id.clone());
        ids.map(|object| DecisionSubject { object, reads: TemplateReads::Subject }).collect()
    }

    fn decide_placements(&self, subject: &ObjectRef, previous: &PreviousPlan) -> DialectDecisions {
        match self.subjects.get(subject).and_then(|unit| Some((*unit, self.subject_at(*unit)?))) {
            Some((unit, KubeFedSubject::Federated(federated))) => {
                let mut decided = decision::decide_federated(self, federated, previous);
                if decision::inactive_refusal(self, federated).is_some()
                    && !self.is_authoritative(unit, &federated.target)
                {
                    decided.placements.clear();
                }
                decided
            }
            Some((_, KubeFedSubject::Record(record))) => dns::decide_record(self, record),
            Some((_, KubeFedSubject::Template(template))) => v1::decide_template(self, template, previous),
            None => DialectDecisions::default(),
        }
    }

    fn render_placement(&self, placement: &Placement) -> Vec<ManifestVariant> {
        match self.subject_about(&placement.object) {
            Some(KubeFedSubject::Federated(federated)) => {
                manifest::render_federated(self, placement, federated)
            }
            Some(KubeFedSubject::Record(record)) => dns::render_endpoint(self, placement, record),
            Some(KubeFedSubject::Template(template)) => v1::manifest::render_template(placement, template),
            None => Vec::new(),
        }
    }

    fn may_change_replicas(&self, placement: &Placement) -> bool {
        match self.subject_about(&placement.object) {
            Some(KubeFedSubject::Federated(federated)) => {
                manifest::may_change_replicas(self, placement, federated)
            }
            Some(KubeFedSubject::Template(template)) => template.object.id.kind == "Job",
            Some(KubeFedSubject::Record(_)) | None => false,
        }
    }

    fn explain_placement(
        &self,
        object: &ObjectRef,
        previous: &PreviousPlan,
        placed: Option<&Placement>,
    ) -> Option<Explanation> {
        Some(match self.subject_about(object)? {
            KubeFedSubject::Federated(federated) => {
                explanation::explain_federated(self, federated, previous, placed)
            }
            KubeFedSubject::Record(record) => dns::explain_record(self, record, placed),
            KubeFedSubject::Template(template) => {
                v1::explanation::explain_template(self, template, previous, placed)
            }
        })
    }

    fn reconciler(&self) -> &dyn MemberReconciler {
        self
    }

    fn keys(&self) -> &dyn DecisionKeys {
        self
    }

    fn advice(&self) -> &dyn PolicyAdvice {
        self
    }
}

impl MemberReconciler for KubeFedPlanner<'_> {
    fn cluster_reads(&self) -> ClusterReads {
        let mut reads = ClusterReads::default();
        for federated in self.federated.iter().filter(|f| self.preference_of(f).is_some()) {
            reads.add_workload(&federated.target);
        }
        for template in self.templates.iter().filter(|template| v1::observes_clusters(template)) {
            reads.add_workload(&template.object.id);
        }
        reads
    }

    fn reconcile_object(
        &self,
        placement: &Placement,
        cluster: &Cluster,
        live: Option<&Object>,
    ) -> Option<ControlPlaneAction> {
        match self.subject_about(&placement.object)? {
            KubeFedSubject::Federated(federated) => {
                member::reconcile_member(self, placement, federated, cluster, live)
            }
            KubeFedSubject::Template(template) => {
                v1::member::reconcile_member(self, placement, template, cluster, live)
            }
            KubeFedSubject::Record(_) => None,
        }
    }
}

impl DecisionKeys for KubeFedPlanner<'_> {
    fn never_adds_followers(&self) -> bool {
        true
    }
}

impl PolicyAdvice for KubeFedPlanner<'_> {
    fn check_policies_thoroughly(&self) -> Vec<Finding> {
        let keys = self.templates.iter().flat_map(|template| v1::unknown_keys(template));
        keys.chain(validation::find_overruled_selectors(self))
            .chain(validation::placements::check_placements(self))
            .collect()
    }

    fn carried_templates(&self) -> Vec<CarriedTemplate> {
        let templates = self.federated.iter().map(|one| CarriedTemplate {
            carrier: one.object.id.clone(),
            pointer: "/spec/template".to_owned(),
            object: one.target.clone(),
        });
        templates.collect()
    }
}
