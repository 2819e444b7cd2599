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
use federate_kubernetes::{Cluster, Connection, Finding, Object, ObjectRef};
use federate_repo::{Claimed, Declared, Repo, Role, Template};

use federate_dialect::admitted::Admitted;
use federate_dialect::import::Importer;
use federate_dialect::{
    Action, ClusterReads, ControlPlane, Decided, Dialect, Explanation, HubKinds, Input, LossStep,
    MemberManager, Observation, Placement, Previous, Reads, References, Starter, Variant,
};

mod api;
pub mod capacity;
mod cluster;
mod config;
mod connection;
mod decide;
mod division;
mod dns;
mod explain;
mod federated;
pub mod hub;
mod import;
mod kinds;
mod manifest;
mod member;
mod memory;
mod observe;
mod overrides;
mod placement;
mod preference;
mod references;
mod starter;
mod types;
mod v1;
mod validate;

use config::Config;
use federated::Federated;
use preference::Preference;
use types::Types;

const NAME: &str = "kubefed";

/// The status of a selected cluster that is not ready.
const NOT_READY: &str = "ClusterNotReady";

/// The dialect.
pub struct KubeFed;

impl Dialect for KubeFed {
    fn name(&self) -> &'static str {
        NAME
    }

    fn role(&self, api_version: &str, kind: &str) -> Option<Role> {
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

    fn declares(&self, object: &Object) -> Option<Declared> {
        if self.role(&object.id.api_version, &object.id.kind)? != Role::Other
            || object.id.kind != "FederatedTypeConfig"
        {
            return None;
        }
        let (group, kind, scope) = types::declared(object)?;
        Some(Declared { group, kind, role: Role::Bundle, scope })
    }

    fn kinds(&self) -> &'static [GroupKinds] {
        &kinds::KINDS
    }

    fn scope(&self, group: &str, kind: &str) -> Option<Scope> {
        kinds::scope(group, kind)
    }

    fn domains(&self) -> &'static [&'static str] {
        &[
            "kubefed.io",
            "kubefed.k8s.io",
            "federation",
            "federation.kubernetes.io",
            "federation.alpha.kubernetes.io",
        ]
    }

    fn member_managers(&self) -> &'static [MemberManager] {
        // The program is one of several symbolic links to `hyperfed`; other projects have one of that name as well.
        const {
            &[
                MemberManager { name: "controller-manager", label: Some(manifest::MANAGED) },
                MemberManager { name: "hyperfed", label: None },
            ]
        }
    }

    fn memory(&self, hub: &[Object]) -> Result<federate_dialect::Plan, String> {
        Ok(hub::memory_of(hub))
    }

    fn starter(&self, clusters: &[String], _: &[&ObjectRef]) -> Starter {
        starter::starter(clusters)
    }

    fn importer(&self) -> Option<Importer> {
        Some(import::IMPORTER)
    }

    fn mark(&self, live: &mut Object) {
        live.set_label(manifest::MANAGED, "true");
    }

    fn metadata_keys(&self) -> &'static [&'static str] {
        &references::KEYS
    }

    fn selected_by(&self) -> &'static str {
        "wrap it in a federated object (as `federate import` does)"
    }

    fn references(&self, object: &Object) -> References {
        references::of(object)
    }

    fn validate(&self, claimed: &Claimed, _: &federate_repo::Config) -> Vec<Finding> {
        validate::check(&claimed.object, claimed.role)
    }

    fn cluster(&self, object: &Object, strict: bool, _: &federate_repo::Config) -> Result<Cluster, Finding> {
        cluster::read(object, strict)
    }

    fn cluster_status(&self, _: &Object, seen: &Observation) -> Option<Value> {
        Some(capacity::status(seen))
    }

    /// A cluster that was ready is not ready at its first failed probe. Schedulers look again after a delay, so that short
    /// failures move nothing.
    fn loss(&self, repo: &Repo, cluster: &Cluster, _: bool) -> Vec<LossStep> {
        let mut lost = cluster.clone();
        self.lose(&mut lost);
        let timing = config::Timing::of(repo.claimed(NAME, Role::Other));
        let step = |seconds, what: &str, cluster| LossStep {
            seconds,
            what: format!("{}: {what}", lost.name),
            cluster,
        };
        vec![
            step(timing.probes, "Offline is True", cluster.clone()),
            step(timing.probes + timing.unavailable, "it counts as unavailable", lost.clone()),
        ]
    }

    fn hub_kinds(&self) -> &'static [HubKinds] {
        &hub::HUB_KINDS
    }

    fn connection(&self, object: &Object) -> Result<Connection, String> {
        connection::read(object)
    }

    fn open<'a>(&self, input: Input<'a>) -> Box<dyn ControlPlane + 'a> {
        Box::new(KubeFedPlane::new(input))
    }
}

/// `KubeFed`'s control plane over one repo.
struct KubeFedPlane<'a> {
    input: Input<'a>,
    /// The clock, in seconds.
    now: Option<i64>,
    config: Config,
    /// The clusters that it sees, sorted by name.
    clusters: Vec<&'a Cluster>,
    federated: Vec<Federated<'a>>,
    /// Federated objects by the namespace that they federate.
    namespaces: BTreeMap<&'a str, usize>,
    /// By namespace and name.
    preferences: BTreeMap<&'a str, BTreeMap<&'a str, Preference<'a>>>,
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

impl<'a> KubeFedPlane<'a> {
    fn new(input: Input<'a>) -> Self {
        let repo = input.repo;
        let (admitted, mut findings) = Admitted::of(repo, &KubeFed);
        let valid = |role| admitted.role(role);
        let config = Config::of(valid(Role::Other));
        let types = Types::of(valid(Role::Other), &config.namespace);
        let mut federated = Vec::new();
        for object in valid(Role::Bundle) {
            let read = match types.get(&object.id) {
                Some(kind) => Federated::new(object, kind),
                None => Err(validate::unknown_type(object, &config, &types)),
            };
            match read {
                Ok(one) => federated.push(one),
                Err(finding) => findings.push(finding),
            }
        }
        let mut plane = Self {
            input,
            now: input.now.map(Timestamp::as_second),
            clusters: input.clusters.iter().filter(|c| config.sees(c)).collect(),
            namespaces: BTreeMap::new(),
            preferences: BTreeMap::new(),
            domains: valid(Role::Other)
                .filter(|o| o.id.kind == "Domain" && o.id.namespace.as_deref() == Some(&config.namespace))
                .map(|o| (o.id.name.as_str(), api::Domain::deserialize(&o.body).unwrap_or_default()))
                .collect(),
            records: valid(Role::Placement).filter(|o| dns::is_record(o)).collect(),
            sent: valid(Role::Other).filter(|o| member::is_record(&o.id.kind)).collect(),
            templates: Vec::new(),
            config,
            federated,
            subjects: BTreeMap::new(),
            about: BTreeMap::new(),
            findings,
        };
        for object in valid(Role::Placement).filter(|o| o.id.kind == "ReplicaSchedulingPreference") {
            plane.prefer(object);
        }
        let mut mine = repo.claimed.iter().filter(|c| c.dialect == NAME);
        // A template without annotations belongs to Federation v1 only where something else does, and nothing belongs
        // to its successor.
        let implicit = input.implicit && mine.all(|c| c.role == Role::Inventory) && v1::is_used(repo);
        plane.templates = repo.templates.par_iter().filter(|t| v1::handles_template(t, implicit)).collect();
        plane.findings.par_extend(repo.templates.par_iter().filter_map(v1::ignored_annotations));
        plane.index();
        plane
    }

    fn prefer(&mut self, object: &'a Object) {
        let namespace = object.id.namespace.as_deref().unwrap_or_default();
        match api::spec(object) {
            Ok(spec) => {
                let of_namespace = self.preferences.entry(namespace).or_default();
                of_namespace.insert(object.id.name.as_str(), Preference { object, spec });
            }
            Err(finding) => self.findings.push(finding),
        }
    }

    /// Two federated objects can have the same target. Then the active one counts.
    fn index(&mut self) {
        for (unit, federated) in self.federated.iter().enumerate() {
            if federated.federates_namespace() {
                self.namespaces.insert(federated.object.id.name.as_str(), unit);
            }
            if !self.about.contains_key(&federated.target) || decide::inactive(self, federated).is_none() {
                self.about.insert(federated.target.clone(), unit);
            }
        }
        let records = self.records.iter().map(|record| dns::target(record));
        let others = records.chain(self.templates.iter().map(|template| template.object.id.clone()));
        for (unit, id) in (self.federated.len()..).zip(others) {
            self.about.entry(id).or_insert(unit);
        }
        let own = |(unit, subject): (usize, Subject<'_, '_>)| (subject.object().id.clone(), unit);
        self.subjects = self.all().enumerate().map(own).collect();
    }

    /// All subjects of decisions.
    fn all(&self) -> impl Iterator<Item = Subject<'_, 'a>> {
        let federated = self.federated.iter().map(Subject::Federated);
        let records = self.records.iter().map(|record| Subject::Record(record));
        federated.chain(records).chain(self.templates.iter().map(|template| Subject::Template(template)))
    }

    /// The subject that decides about an object of the plan.
    fn about(&self, object: &ObjectRef) -> Option<Subject<'_, 'a>> {
        self.subject(*self.about.get(object)?)
    }

    /// The subject at index `unit`.
    fn subject(&self, unit: usize) -> Option<Subject<'_, 'a>> {
        let federated = || self.federated.get(unit).map(Subject::Federated);
        let record = |at: usize| self.records.get(at).map(|record| Subject::Record(record));
        let template = |at: usize| self.templates.get(at).map(|template| Subject::Template(template));
        let after = unit.checked_sub(self.federated.len());
        federated().or_else(|| record(after?)).or_else(|| template(after?.checked_sub(self.records.len())?))
    }

    /// The cluster of that name, if it is seen.
    fn cluster(&self, name: &str) -> Option<&'a Cluster> {
        let at = self.clusters.binary_search_by(|c| c.name.as_ref().cmp(name)).ok()?;
        self.clusters.get(at).copied()
    }

    /// The federated namespace that limits an object.
    fn namespace_of(&self, federated: &Federated<'_>) -> Option<&Federated<'a>> {
        self.federated.get(*self.namespaces.get(federated.namespace())?)
    }

    /// The preference for an object: of its namespace and name, and for its kind.
    fn preference_of(&self, federated: &Federated<'_>) -> Option<&Preference<'a>> {
        let named = self.preferences.get(federated.namespace())?.get(federated.object.id.name.as_str());
        named.filter(|preference| preference.spec.target_kind == federated.object.id.kind)
    }

    /// Whether the decision at index `unit` is the one that counts for an object.
    fn counts(&self, unit: usize, object: &ObjectRef) -> bool {
        self.about.get(object) == Some(&unit)
    }
}

/// What one decision is about.
enum Subject<'p, 'a> {
    Federated(&'p Federated<'a>),
    Record(&'a Object),
    Template(&'a Template),
}

impl<'p> Subject<'p, '_> {
    /// The object of the repo.
    fn object(&self) -> &'p Object {
        match *self {
            Self::Federated(federated) => federated.object,
            Self::Record(record) => record,
            Self::Template(template) => &template.object,
        }
    }
}

impl ControlPlane for KubeFedPlane<'_> {
    fn check(&self) -> Vec<Finding> {
        let mut findings = self.findings.clone();
        if !self.subjects.is_empty() {
            findings.extend(validate::ineffective(self));
        }
        findings
    }

    fn examine(&self) -> Vec<Finding> {
        let keys = self.templates.iter().flat_map(|template| v1::unknown_keys(template));
        keys.chain(validate::outvoted(self)).chain(validate::placements::findings(self)).collect()
    }

    fn wrapped(&self) -> Vec<(ObjectRef, ObjectRef)> {
        self.federated.iter().map(|one| (one.object.id.clone(), one.target.clone())).collect()
    }

    fn cluster_reads(&self) -> ClusterReads {
        let mut reads = ClusterReads::default();
        for federated in self.federated.iter().filter(|f| self.preference_of(f).is_some()) {
            reads.add_workload(&federated.target);
        }
        for template in self.templates.iter().filter(|template| v1::observes(template)) {
            reads.add_workload(&template.object.id);
        }
        reads
    }

    fn subjects(&self) -> Vec<federate_dialect::Subject> {
        let subject = |subject: Subject<'_, '_>| federate_dialect::Subject {
            object: subject.object().id.clone(),
            reads: Reads::Subject,
        };
        self.all().map(subject).collect()
    }

    fn decide(&self, subject: &ObjectRef, previous: &Previous) -> Decided {
        match self.subjects.get(subject).and_then(|unit| Some((*unit, self.subject(*unit)?))) {
            Some((unit, Subject::Federated(federated))) => {
                let mut decided = decide::decide(self, federated, previous);
                if decide::inactive(self, federated).is_some() && !self.counts(unit, &federated.target) {
                    decided.placements.clear();
                }
                decided
            }
            Some((_, Subject::Record(record))) => dns::decide(self, record),
            Some((_, Subject::Template(template))) => v1::decide(self, template, previous),
            None => Decided::default(),
        }
    }

    fn is_complete(&self) -> bool {
        true
    }

    fn manifests(&self, placement: &Placement) -> Vec<Variant> {
        match self.about(&placement.object) {
            Some(Subject::Federated(federated)) => manifest::variants(self, placement, federated),
            Some(Subject::Record(record)) => dns::variants(self, placement, record),
            Some(Subject::Template(template)) => v1::manifest::variants(placement, template),
            None => Vec::new(),
        }
    }

    fn reconcile(&self, placement: &Placement, cluster: &Cluster, live: Option<&Object>) -> Option<Action> {
        match self.about(&placement.object)? {
            Subject::Federated(federated) => member::reconcile(self, placement, federated, cluster, live),
            Subject::Template(template) => v1::member::reconcile(self, placement, template, cluster, live),
            Subject::Record(_) => None,
        }
    }

    fn explain(
        &self,
        object: &ObjectRef,
        previous: &Previous,
        placed: Option<&Placement>,
    ) -> Option<Explanation> {
        Some(match self.about(object)? {
            Subject::Federated(federated) => explain::explain(self, federated, previous, placed),
            Subject::Record(record) => dns::explain(self, record, placed),
            Subject::Template(template) => v1::explain::explain(self, template, previous, placed),
        })
    }
}
