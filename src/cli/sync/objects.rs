//! `federate sync` without files: the Sync objects of an API server.

use std::sync::{Arc, OnceLock, mpsc};

use clap::Args;

use super::{Sync, failed};
use crate::cli::access::AccessArgs;
use crate::cli::diff::digest_key;
use crate::cli::settings::builder;
use crate::cli::{Exit, Fault};
use federate_control_planes::DIALECTS;
use federate_kubernetes::names::is_dns_subdomain;
use federate_live::Fence;
use federate_session::Session;
use federate_sync::credentials::{Credentials, Keys};
use federate_sync::environment::{Environment, MemberAccess, RoundContext};
use federate_sync::hub::{Hub, HubStateStore, Leader, LeaderOptions, Objects, Tenancy};
use federate_sync::listen;
use federate_sync::read::Loaded;
use federate_sync::tally::Tally;
use federate_sync::telemetry::Telemetry;
use federate_sync::watch::{Event, once_objects, watch_objects};

/// What takes the place of `--shared`.
const SHARED: &str = "--shared was removed: replicas of one Sync no longer divide its clusters. Run several replicas, of which one \
    leads and the others stand by; divide Syncs among installations with --watch-label-selector; and divide the clusters of one \
    repo among several Syncs with `spec.clusters`, in the order that `spec.dependsOn` gives";

/// Checks the name of a `ServiceAccount`.
fn account_name(text: &str) -> Result<String, String> {
    if is_dns_subdomain(text) {
        Ok(text.to_owned())
    } else {
        Err("it is not a name: lower-case letters, digits, `-` and `.`".to_owned())
    }
}

/// Arguments about Sync objects.
#[derive(Debug, Args)]
#[command(next_help_heading = "Options for Sync objects in an API server")]
pub(super) struct ObjectArgs {
    /// Run the Sync objects in this context's API server [default: the cluster federate runs in]
    #[arg(long, value_name = "CONTEXT", conflicts_with = "files")]
    context: Option<String>,

    /// Only run the Sync objects in these namespaces
    #[arg(long, short, value_name = "NAMESPACE", value_delimiter = ',', conflicts_with = "files")]
    namespace: Vec<String>,

    /// The namespace of the leader election Lease [default: that of the pod or context]
    #[arg(long, value_name = "NAMESPACE", conflicts_with = "files", hide_short_help = true)]
    leader_election_namespace: Option<String>,

    /// How long the Leases of leader election last, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 35, value_parser = clap::value_parser!(u64).range(5..), conflicts_with = "files", hide_short_help = true)]
    leader_election_lease_duration: u64,

    /// Only run the Sync objects with these labels (`shard=a`, `!shard`)
    ///
    /// Several installations divide Syncs by label, each with its own Lease, as Flux's controllers do.
    #[arg(long, value_name = "SELECTOR", conflicts_with = "files", hide_short_help = true)]
    watch_label_selector: Option<String>,

    /// Removed: use --watch-label-selector and `spec.clusters`
    #[arg(long, hide = true)]
    shared: bool,

    /// Impersonate this `ServiceAccount` in member clusters if a Sync names none
    #[arg(long, value_name = "NAME", value_parser = account_name, conflicts_with = "files", hide_short_help = true)]
    default_service_account: Option<String>,

    /// Refuse Syncs that name objects of other namespaces
    #[arg(long, conflicts_with = "files", hide_short_help = true)]
    no_cross_namespace_refs: bool,

    /// Trust the Syncs of these namespaces with credentials that are not theirs
    ///
    /// Without a `ServiceAccount` to impersonate, they may use federate's own credentials and those of the control plane (`hub`).
    #[arg(
        long,
        value_name = "NAMESPACE",
        value_delimiter = ',',
        conflicts_with = "files",
        hide_short_help = true
    )]
    trusted_namespaces: Vec<String>,
}

impl ObjectArgs {
    /// Follows the Sync objects of the selected namespaces.
    fn follow(&self, hub: &Arc<Hub>, events: &mpsc::Sender<Event>) -> Result<Objects, Fault> {
        let selector = self.watch_label_selector.as_deref();
        let objects = Objects::follow(hub, &self.namespace, selector, events).map_err(failed)?;
        Ok(objects.permitted_by(self.tenancy()))
    }

    /// What Syncs may do.
    fn tenancy(&self) -> Tenancy {
        Tenancy {
            default_account: self.default_service_account.clone(),
            within_namespaces: self.no_cross_namespace_refs,
            trusted: self.trusted_namespaces.iter().cloned().collect(),
        }
    }
}

/// The context of rounds of Sync objects: the Secrets next to them, and the Lease.
struct ObjectContext<'s> {
    hub: Arc<Hub>,
    access: &'s AccessArgs,
    args: &'s ObjectArgs,
    leader: Arc<OnceLock<Leader>>,
    objects: OnceLock<Objects>,
}

impl RoundContext for ObjectContext<'_> {
    fn access(&self, loaded: &Loaded, session: &Session) -> Result<MemberAccess, String> {
        let context = self.args.context.as_deref();
        self.hub.member_access(loaded, session, self.access.access(session), context, &self.args.tenancy())
    }

    fn credentials(&self, loaded: &Loaded) -> Result<Credentials, String> {
        self.hub.credentials(loaded, &self.args.tenancy())
    }

    fn sync_of(&self, set: &str) -> Option<String> {
        self.objects.get()?.sync_of(set)
    }

    fn secret(&self, loaded: &Loaded, name: &str) -> Result<Keys, String> {
        self.hub.secret(loaded, name, &self.args.tenancy())
    }

    fn signers(&self, loaded: &Loaded) -> Result<Option<Keys>, String> {
        self.hub.signers(loaded, &self.args.tenancy())
    }

    fn leads(&self) -> bool {
        // `--once` takes no Lease.
        self.leader.get().is_none_or(Leader::leads)
    }

    fn fence(&self) -> Option<Fence> {
        let leader = self.leader.clone();
        Some(Arc::new(move || leader.get().is_none_or(Leader::leads)))
    }
}

impl Sync {
    /// Runs Sync objects.
    pub(super) fn run_objects(&self) -> Result<Exit, Fault> {
        let args = &self.objects;
        if args.shared {
            return Err(failed(SHARED));
        }
        let tally = Tally::default();
        let hub = Hub::connect(self.access.kubeconfig(), args.context.as_deref(), &tally).map_err(failed)?;
        let hub = Arc::new(hub);
        let temporary = tempfile::tempdir().map_err(failed)?;
        let caches = self.state.clone().unwrap_or_else(|| temporary.path().to_owned());
        let states = HubStateStore::new(hub.clone(), caches);
        let world = ObjectContext {
            hub: hub.clone(),
            access: &self.access,
            args,
            leader: Arc::default(),
            objects: OnceLock::new(),
        };
        let env = Environment {
            dialects: DIALECTS,
            builder: Some(builder()),
            world: &world,
            allowed_signers: self.allowed_signers.clone(),
            key: digest_key()?,
            tally,
        };
        let (events, happens) = mpsc::channel();
        if self.once {
            let objects = args.follow(&hub, &events)?;
            let _ = world.objects.set(objects.clone());
            return self.show(&once_objects(&objects, &states, &env).map_err(failed)?);
        }
        let telemetry = Arc::new(Telemetry::default());
        listen::start(self.listen.addresses()?, &telemetry, events.clone()).map_err(failed)?;
        let namespace = args.leader_election_namespace.as_deref().unwrap_or(hub.namespace());
        let options = LeaderOptions::new(namespace)
            .with_lease_duration(std::time::Duration::from_secs(args.leader_election_lease_duration));
        let options = options.for_selector(args.watch_label_selector.as_deref());
        if !elect(&world, options, &happens) {
            return Ok(Exit::Clean);
        }
        let objects = args.follow(&hub, &events)?;
        let _ = world.objects.set(objects.clone());
        watch_objects(&objects, (&hub, &states), &env, &telemetry, &happens);
        if let Some(leader) = world.leader.get() {
            leader.release();
        }
        Ok(Exit::Clean)
    }
}

/// Waits until this process is the leader; returns `false` if it must end before that. A process that loses
/// the Lease to another one exits at once.
fn elect(world: &ObjectContext<'_>, options: LeaderOptions, happens: &mpsc::Receiver<Event>) -> bool {
    let end = || matches!(happens.try_recv(), Ok(Event::End));
    let lost = || std::process::exit(Exit::Error as i32);
    let Some(leader) = Leader::elect(&world.hub, options, &end, lost) else { return false };
    world.leader.set(leader).is_ok()
}
