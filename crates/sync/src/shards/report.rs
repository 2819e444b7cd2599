//! What a replica reports about its clusters: to the leader, which writes the status.
//!
//! The report about a Sync is a `ConfigMap` beside it, which only its replica writes. It says for each cluster which work
//! was done, so that a report about former work does not count.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use federate_engine::actions::Orphans;
use federate_live::path::ApiPath;
use federate_sync_api::record::{digest, spec_digest};
use federate_sync_api::status::Reason;
use http::Method;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::driver::Shares;
use crate::backoff::{Backoffs, Cause, CauseKind, Drifted};
use crate::hub::{Error, JSON};
use crate::members::Members;
use crate::opened::rendering;
use crate::read::Loaded;
use crate::rollout::policies::Released;
use crate::round::RoundError;

/// The label that names the Sync of a report, by its uid.
const LABEL: &str = "federate.dev/report-of";

/// The work of a Sync that is being deleted.
pub(crate) const REMOVED: &str = "removed";
/// How soon the leader looks for reports again.
const LOOK: Duration = Duration::from_secs(1);

/// The reports about clusters, by name.
pub(crate) type Report = BTreeMap<String, ClusterReport>;

/// What a replica reports about a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ClusterReport {
    /// What was done: the digest of a spec, a revision and what it renders.
    pub(crate) work: String,
    /// Why the cluster fails.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) cause: Option<Cause>,
    /// What drifted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) drifted: Option<Drifted>,
    /// What is left behind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) orphans: Option<Orphans>,
    /// What became of what policies have released to it.
    #[serde(default, skip_serializing_if = "Released::is_empty")]
    pub(crate) released: Released,
}

impl Shares {
    /// Writes the report about a Sync.
    pub(crate) fn write_report(&self, loaded: &Loaded, report: &Report) -> Result<(), Error> {
        let sync = &loaded.sync;
        let uid = uid(loaded);
        let name = format!("federate.{}.{}", sync.metadata.name, self.identity);
        let owner = json!({
            "apiVersion": "federate.dev/v1alpha1", "kind": "Sync", "name": sync.metadata.name, "uid": uid,
        });
        let body = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": name, "labels": {LABEL: uid}, "ownerReferences": [owner]},
            "data": {"report": serde_json::to_string(report).unwrap_or_default()},
        });
        let folder = folder(loaded);
        match self.hub.send(&Method::PUT, &folder.clone().join(&name), JSON, Some(&body)) {
            Err(error) if error.is_absent() => {
                self.hub.send(&Method::POST, &folder, JSON, Some(&body)).map(drop)
            }
            other => other.map(drop),
        }
    }

    /// Deletes the reports of replicas that are gone.
    pub(crate) fn sweep_reports(&self, loaded: &Loaded) -> Result<(), Error> {
        let alive = self.alive();
        for item in self.list(loaded)? {
            let name = item["metadata"]["name"].as_str().unwrap_or_default();
            if alive.iter().any(|replica| name.ends_with(&format!(".{replica}"))) {
                continue;
            }
            let path = folder(loaded).join(name);
            match self.hub.send(&Method::DELETE, &path, JSON, None) {
                Err(error) if !error.is_absent() => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }

    fn list(&self, loaded: &Loaded) -> Result<Vec<Value>, Error> {
        let path = folder(loaded).query("labelSelector", &format!("{LABEL}={}", uid(loaded)));
        let list = self.hub.find(&path)?.unwrap_or_default();
        Ok(list["items"].as_array().cloned().unwrap_or_default())
    }

    /// What the other replicas report about the clusters of a Sync. Where two have worked on a cluster, the report that
    /// was written last counts.
    pub(crate) fn reports(&self, loaded: &Loaded) -> Result<Report, Error> {
        let mut items = self.list(loaded)?;
        items.sort_by_key(|item| {
            let version = item["metadata"]["resourceVersion"].as_str().unwrap_or_default();
            version.parse::<u64>().unwrap_or_default()
        });
        let text = |item: &Value| item["data"]["report"].as_str().map(str::to_owned);
        let reports = items.iter().filter_map(text);
        let read = reports.filter_map(|text| serde_json::from_str::<Report>(&text).ok());
        Ok(read.flatten().collect())
    }
}

fn uid(loaded: &Loaded) -> &str {
    loaded.sync.meta.as_ref().map(|meta| meta.uid.as_str()).unwrap_or_default()
}

fn folder(loaded: &Loaded) -> ApiPath {
    ApiPath::of_version("v1").in_namespace(&loaded.sync.metadata.namespace).join("configmaps")
}

impl Members<'_> {
    /// What is done in clusters: the number of the publication, the spec, the revision and what it renders. Empty if this replica works on all of them.
    pub(crate) fn work(&self) -> String {
        if self.turn.shares().is_none() {
            return String::new();
        }
        let revision = self.repo.as_ref().and_then(|repo| repo.revision.clone()).unwrap_or_default();
        let spec = spec_digest(&self.loaded.sync);
        let rendering = rendering(self.session);
        digest([&self.number.to_be_bytes()[..], spec.as_bytes(), revision.as_bytes(), rendering.as_bytes()])
    }

    /// What is done in a cluster: `work`, and what policies have released to it.
    pub(crate) fn work_in(&self, work: &str, cluster: &str) -> String {
        match self.releases.get(cluster).filter(|_| self.turn.shares().is_some()) {
            Some(release) => digest([work.as_bytes(), release.as_bytes()]),
            None => work.to_owned(),
        }
    }

    /// The clusters of other replicas, with their reports about some work.
    fn elsewhere(
        &self,
        work: impl Fn(&str) -> String,
    ) -> Result<Vec<(String, Option<ClusterReport>)>, RoundError> {
        // What is only a part of the work is not reported on its own.
        let leads = self.turn.leads() && !self.also;
        let Some(shares) = self.turn.shares().filter(|_| leads) else { return Ok(Vec::new()) };
        let failed = |error: Error| RoundError::new(Reason::ReconciliationFailed, error.to_string());
        let mut reports = shares.reports(self.loaded).map_err(failed)?;
        reports.retain(|name, report| report.work == work(name));
        let names = self.session.clusters().iter().map(|cluster| cluster.name.to_string());
        let names = names.filter(|name| !self.turn.has(name));
        Ok(names.map(|name| (name.clone(), reports.remove(&name))).collect())
    }

    /// Notes which clusters of other replicas fail, or are not reported yet.
    pub(crate) fn note_reports(
        &self,
        work: impl Fn(&str) -> String,
        backoffs: &mut Backoffs,
        wanted: impl Fn(&str) -> bool,
    ) -> Result<(), RoundError> {
        let waits = Cause { kind: CauseKind::Elsewhere, message: "another replica works on it".to_owned() };
        for (name, report) in self.elsewhere(work)?.into_iter().filter(|(name, _)| wanted(name)) {
            if let Some(orphans) = report.as_ref().and_then(|report| report.orphans) {
                backoffs.note_orphans(&name, orphans);
            }
            let cause = report.map_or_else(|| Some(waits.clone()), |report| report.cause);
            let waits = cause.as_ref().is_some_and(|cause| cause.kind == CauseKind::Elsewhere);
            let pause = if waits { LOOK } else { self.loaded.sync.spec.retry_interval() };
            backoffs.note(&name, cause, (pause, pause));
        }
        Ok(())
    }

    /// What other replicas report about resources that policies have released to some clusters.
    pub(crate) fn reported_releases(
        &self,
        clusters: &BTreeSet<String>,
    ) -> Result<Vec<(String, Released)>, RoundError> {
        let work = self.work();
        let reports = self.elsewhere(|name| self.work_in(&work, name))?.into_iter();
        let wanted = reports.filter(|(name, _)| clusters.contains(name));
        Ok(wanted.filter_map(|(name, report)| Some((name, report?.released))).collect())
    }

    /// Notes what drifted in clusters of other replicas, as far as that is reported.
    pub(crate) fn note_reported_drift(&self, backoffs: &mut Backoffs) -> Result<(), RoundError> {
        let work = self.work();
        for (name, report) in self.elsewhere(|name| self.work_in(&work, name))? {
            if let Some(report) = report {
                let pause = self.loaded.sync.spec.retry_interval();
                backoffs.note(&name, report.cause, (pause, pause));
                backoffs.note_drift(&name, report.drifted);
                if let Some(orphans) = report.orphans {
                    backoffs.note_orphans(&name, orphans);
                }
            }
        }
        Ok(())
    }
}
