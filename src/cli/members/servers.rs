//! API servers as what is read and acted upon: a job for each cluster, and the outcomes.

use std::time::Duration;

use crate::cli::access::AccessArgs;

/// How API servers are used.
pub(in crate::cli) struct Servers<'s> {
    pub(in crate::cli) access: &'s AccessArgs,
    /// What is only tried; `None` where everything is done.
    pub(in crate::cli) trial: Option<Trial>,
    /// How long to wait until everything is healthy.
    pub(in crate::cli) wait: Option<Duration>,
    /// Whether nobody is told how far it is.
    pub(in crate::cli) quiet: bool,
}

/// How much of it is only tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cli) enum Trial {
    /// Clusters are read, and nothing is sent.
    Read,
    /// API servers judge everything and store nothing.
    Judge,
}

#[cfg(not(feature = "live"))]
impl Servers<'_> {
    pub(super) fn outcome(&self, _: &super::Plane<'_>) -> Result<super::Outcome, crate::cli::Fault> {
        let _ = (self.access, self.trial, self.wait, self.quiet);
        let why = "this federate was built without the feature `live` and reaches no cluster: name a dump with --observed";
        Err(crate::cli::Fault::Failed(why.to_owned()))
    }
}

#[cfg(feature = "live")]
mod reached {
    use std::collections::BTreeMap;

    use super::super::progress::Lines;
    use super::super::{Outcome, Plane};
    use super::{Servers, Trial};
    use serde_json::Value;

    use crate::cli::Fault;
    use federate_apiserver::Kind;
    use federate_dialect::{Dialect, Health};
    use federate_engine::actions::Decision;
    use federate_engine::actions::cluster::Decided;
    use federate_kubernetes::{Cluster, ClusterName, Object, ObjectRef};
    use federate_live::{Decider, DryRun, Failure, How, Job, Seen};

    impl Servers<'_> {
        pub(in crate::cli::members) fn outcome(&self, plane: &Plane<'_>) -> Result<Outcome, Fault> {
            let jobs = plane.jobs();
            let lines = Lines::new(self.quiet);
            let how = How {
                inventory: plane.deciding.rules.inventory,
                dry_run: self.trial.map(|trial| match trial {
                    Trial::Read => DryRun::Client,
                    Trial::Judge => DryRun::Server,
                }),
                // What puts drift back is decided field by field.
                judged: plane.deciding.drift.is_none(),
                wait: self.wait,
                progress: &lines,
            };
            let access = self.access.access(&plane.loaded.repo, &plane.loaded.clusters);
            let outcomes = federate_live::apply(&access, &jobs, &Asked::of(plane), &how);
            lines.clear();
            let mut all = Outcome::default();
            for outcome in outcomes.map_err(|error| Fault::Failed(error.to_string()))? {
                all.errors.extend(outcome.failures.iter().map(|failure| line(&outcome.cluster, failure)));
                all.actions.extend(outcome.actions);
            }
            Ok(all)
        }
    }

    fn line(cluster: &ClusterName, failure: &Failure) -> String {
        let object = failure.object.as_ref().map(|object| format!("{object}: ")).unwrap_or_default();
        format!("{cluster}: {object}{}", failure.message)
    }

    impl Plane<'_> {
        fn jobs(&self) -> Vec<Job<'_>> {
            let mut wanted: BTreeMap<&str, Vec<(&ObjectRef, &serde_json::Value)>> = BTreeMap::new();
            for one in self.deciding.desired {
                for cluster in &one.clusters {
                    wanted.entry(cluster).or_default().push((&one.object, &one.body));
                }
            }
            let job = |cluster: &Cluster| Job {
                cluster: cluster.name.clone(),
                wanted: wanted.get(cluster.name.as_ref()).cloned().unwrap_or_default(),
            };
            self.clusters().map(job).collect()
        }
    }

    /// The decisions, as clusters ask for them.
    struct Asked<'p> {
        plane: &'p Plane<'p>,
        dialects: BTreeMap<&'p ObjectRef, &'static dyn Dialect>,
    }

    impl<'p> Asked<'p> {
        fn of(plane: &'p Plane<'p>) -> Self {
            let dialect = |name: &str| federate_session::DIALECTS.get(name);
            let rows = plane.deciding.rendering.plan.placements.iter();
            let dialects = rows.filter_map(|row| Some((&row.object, dialect(&row.dialect)?))).collect();
            Self { plane, dialects }
        }
    }

    impl Decider for Asked<'_> {
        fn decide(&self, cluster: &ClusterName, seen: &Seen) -> Decided {
            let clusters = &self.plane.loaded.clusters;
            let Some(cluster) = clusters.iter().find(|c| c.name == *cluster) else {
                return Decided::default();
            };
            let kind = |object: &ObjectRef| seen.kinds.of(object).cloned().unwrap_or_else(|| nowhere(object));
            self.plane.deciding.cluster(cluster, &seen.live, &kind)
        }

        fn judged(&self, decision: &mut Decision, live: &Value, answer: Value) {
            self.plane.deciding.judged(decision, live, answer);
        }

        fn wave(&self, object: &ObjectRef) -> u32 {
            self.dialects.get(object).map_or(0, |dialect| dialect.wave(object))
        }

        fn health(&self, object: &Object) -> Health {
            match self.dialects.get(&object.id) {
                Some(dialect) => dialect.health(object),
                None => Health::unknown(""),
            }
        }
    }

    /// A kind that the cluster does not serve: it is told when the object is sent.
    fn nowhere(object: &ObjectRef) -> Kind {
        Kind::unknown(&object.api_version, &object.kind, object.namespace.is_some())
    }
}
