//! `federate sync` without files: the Sync objects of an API server.

use std::sync::{Arc, OnceLock, mpsc};

use clap::Args;

use super::{SyncCommand, to_command_error};
use crate::cli::access::AccessArgs;
use crate::cli::builds::shared_builder;
use crate::cli::diff::digest_key;
use crate::cli::servers::push::find_proxy;
use crate::cli::{CommandError, Exit};
use federate_dialects::DIALECTS;
use federate_engine::StepAllowance;
use federate_http_client::AddressPolicy;
use federate_kubernetes::names::is_dns_subdomain;
use federate_live::Fence;
use federate_registry::ArtifactAddress;
use federate_session::Session;
use federate_sync::counters::MetricCounters;
use federate_sync::credentials::{GitCredentials, SecretData};
use federate_sync::environment::{
    CredentialsError, Environment, MemberAccess, RECONCILIATION_ALLOWANCE, SyncServices,
};
use federate_sync::http_server;
use federate_sync::hub::{HubClient, HubStates, Leader, LeaderOptions, SyncObjects, Tenancy};
use federate_sync::registry_access::RegistryAccess;
use federate_sync::supervisor::{LoopEvent, reconcile_objects_once, run_objects};
use federate_sync::sync_files::ValidSync;
use federate_sync::telemetry::Telemetry;

/// What takes the place of `--shared`.
const SHARED_REMOVED: &str = "--shared was removed: replicas of one Sync no longer divide its clusters. Run several replicas, of which one \
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

    /// Let Syncs name servers on this machine: loopback, link-local and its own addresses
    ///
    /// Sources, clusters, registries, proxies and receivers of notifications are refused otherwise if they lead there, also by a name.
    #[arg(long, conflicts_with = "files", hide_short_help = true)]
    allow_local_addresses: bool,
}

impl ObjectArgs {
    /// Follows the Sync objects of the selected namespaces.
    fn follow_objects(
        &self,
        hub: &Arc<HubClient>,
        events: &mpsc::Sender<LoopEvent>,
    ) -> Result<SyncObjects, CommandError> {
        let selector = self.watch_label_selector.as_deref();
        let objects =
            SyncObjects::list_and_watch(hub, &self.namespace, selector, events).map_err(to_command_error)?;
        Ok(objects.permitted_by(self.build_tenancy()))
    }

    /// What Syncs may do.
    fn build_tenancy(&self) -> Tenancy {
        Tenancy {
            default_account: self.default_service_account.clone(),
            within_namespaces: self.no_cross_namespace_refs,
            trusted: self.trusted_namespaces.iter().cloned().collect(),
            allows_local_addresses: self.allow_local_addresses,
        }
    }
}

/// The context of reconciliations of Sync objects: the Secrets next to them, and the Lease.
struct ObjectContext<'s> {
    hub: Arc<HubClient>,
    access: &'s AccessArgs,
    args: &'s ObjectArgs,
    leader: Arc<OnceLock<Leader>>,
    objects: OnceLock<SyncObjects>,
}

impl SyncServices for ObjectContext<'_> {
    fn member_access(
        &self,
        valid_sync: &ValidSync,
        session: &Session,
    ) -> Result<MemberAccess, CredentialsError> {
        let context = self.args.context.as_deref();
        self.hub.member_access(
            valid_sync,
            session,
            self.access.build_sync_access(session, valid_sync.object.spec.hub.is_some()),
            context,
            &self.args.build_tenancy(),
        )
    }

    fn source_credentials(&self, valid_sync: &ValidSync) -> Result<GitCredentials, CredentialsError> {
        self.hub.source_credentials(valid_sync, &self.args.build_tenancy())
    }

    fn registry_access(
        &self,
        valid_sync: &ValidSync,
        address: &ArtifactAddress,
    ) -> Result<RegistryAccess, CredentialsError> {
        let proxy = find_proxy(address.host())?;
        self.hub.registry_access(valid_sync, address, proxy, &self.args.build_tenancy())
    }

    fn address_policy(&self) -> AddressPolicy {
        self.args.build_tenancy().address_policy()
    }

    fn find_sync_of_set(&self, set: &str) -> Option<String> {
        self.objects.get()?.find_sync_of_set(set)
    }

    fn read_secret(&self, valid_sync: &ValidSync, name: &str) -> Result<SecretData, CredentialsError> {
        self.hub.read_secret(valid_sync, name, &self.args.build_tenancy())
    }

    fn allowed_signers(&self, valid_sync: &ValidSync) -> Result<Option<SecretData>, CredentialsError> {
        self.hub.allowed_signers(valid_sync, &self.args.build_tenancy())
    }

    fn is_leading(&self) -> bool {
        // `--once` takes no Lease.
        self.leader.get().is_none_or(Leader::is_leading)
    }

    fn write_fence(&self) -> Option<Fence> {
        let leader = self.leader.clone();
        Some(Arc::new(move || leader.get().is_none_or(Leader::is_leading)))
    }
}

impl SyncCommand {
    /// Runs Sync objects.
    pub(super) fn run_objects(&self) -> Result<Exit, CommandError> {
        let args = &self.objects;
        if args.shared {
            return Err(to_command_error(SHARED_REMOVED));
        }
        let tally = MetricCounters::default();
        let hub = HubClient::connect(self.access.kubeconfig(), args.context.as_deref(), &tally)
            .map_err(to_command_error)?;
        let hub = Arc::new(hub);
        let temporary = tempfile::tempdir().map_err(to_command_error)?;
        let caches = self.state.clone().unwrap_or_else(|| temporary.path().to_owned());
        let states = HubStates::new(hub.clone(), caches);
        let services = ObjectContext {
            hub: hub.clone(),
            access: &self.access,
            args,
            leader: Arc::default(),
            objects: OnceLock::new(),
        };
        let env = Environment {
            dialects: DIALECTS,
            builder: Some(shared_builder()),
            decryptor: self.decryption.open_decryptor()?,
            allowance: self.work_limit.map_or(RECONCILIATION_ALLOWANCE, StepAllowance::Chosen),
            services: &services,
            allowed_signers: self.allowed_signers.clone(),
            digest_key: digest_key()?,
            counters: tally,
        };
        let (events, happens) = mpsc::channel();
        if self.once {
            let objects = args.follow_objects(&hub, &events)?;
            let _ = services.objects.set(objects.clone());
            return self
                .print_results(&reconcile_objects_once(&objects, &states, &env).map_err(to_command_error)?);
        }
        let telemetry = Arc::new(Telemetry::default());
        http_server::start_listeners(self.listen.listen_addresses()?, &telemetry, events.clone())
            .map_err(to_command_error)?;
        let namespace = args.leader_election_namespace.as_deref().unwrap_or(hub.default_namespace());
        let options = LeaderOptions::new(namespace)
            .with_lease_duration(std::time::Duration::from_secs(args.leader_election_lease_duration));
        let options = options.for_selector(args.watch_label_selector.as_deref());
        if !elect_leader(&services, options, &happens) {
            return Ok(Exit::Clean);
        }
        let objects = args.follow_objects(&hub, &events)?;
        let _ = services.objects.set(objects.clone());
        let release = || {
            if let Some(leader) = services.leader.get() {
                leader.release_lease();
            }
        };
        run_objects(&objects, &hub, &states, &env, &telemetry, &happens, release);
        release();
        Ok(Exit::Clean)
    }
}

/// Waits until this process is the leader; returns `false` if it must end before that. A process that loses
/// the Lease to another one exits at once.
fn elect_leader(
    services: &ObjectContext<'_>,
    options: LeaderOptions,
    happens: &mpsc::Receiver<LoopEvent>,
) -> bool {
    let leader = Leader::wait_for_lease(
        &services.hub,
        options,
        &|| matches!(happens.try_recv(), Ok(LoopEvent::End)),
        || std::process::exit(Exit::Error as i32),
    );
    leader.is_some_and(|leader| services.leader.set(leader).is_ok())
}
