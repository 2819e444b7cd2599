//! `federate push`

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use hyper::Uri;

use crate::cli::deletions::{self, DeletionArgs};
use crate::cli::settings::{OutputFormat, RepoArgs, exit_for_findings};
use crate::cli::{CommandError, Exit, print_notice, print_text, print_value};
use federate_dialect::Plan;
use federate_engine::deletions::ExcessiveDeletions;
use federate_publish::artifact::ArtifactTypes;
use federate_registry::{ArtifactAddress, Credentials, Registry, RegistryOptions, find_credentials, is_tag};
use federate_session::Destination;
use federate_session::artifacts::{ArtifactOrigin, ArtifactStore, Error, PushedArtifacts, TaggedArtifact};
use federate_session::push::{
    self, FailedPush, MovedTags, PushOutcome, PushRequest, PushedSession, SignatureRequest,
};
use federate_source::git::GitLocation;

/// Push the rendered manifests to a registry
///
/// Pushes an OCI artifact per cluster, which Flux and Argo CD read, and one with the plan, the memory of the next run. `{cluster}`
/// in the address stands for the name of each cluster, and for `plan`; without it, they are the last part of the address.
///
/// Every artifact gets the tag of the address, or else the short id of the rendered commit, and those of --tag. What the registry
/// has is not sent again: an artifact whose content is that of the tag --tag keeps its digest. Tags move when everything is there.
/// The plan with the tag --tag is the scheduler's memory, unless --previous names another.
///
/// federate uses docker's credentials for the host of the address.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES, override_usage = "federate push [OPTIONS] [REPO] <ADDRESS>")]
pub(in crate::cli) struct PushCommand {
    /// The artifacts: `oci://HOST/REPOSITORY[/{cluster}][:TAG]`
    // Not parsed with the other arguments, whose errors would show a password in it. If it is the only one, it is in the place
    // of the repo: options may stand between the two, so that the parser cannot know.
    #[arg(value_name = "ADDRESS", index = 2)]
    address: Option<String>,

    /// Set this tag, too, such as latest; it may move from artifact to artifact
    #[arg(long, value_name = "TAG", value_parser = parse_tag)]
    tag: Vec<String>,

    /// The media types
    #[arg(long, value_enum, value_name = "TYPES", default_value = "oci")]
    media_types: TypesName,

    /// Push new artifacts even if the content of earlier ones is the same
    #[arg(long)]
    always: bool,

    /// Sign new artifacts before they are tagged
    #[arg(long, value_enum, value_name = "PROGRAM")]
    sign: Option<SignerName>,

    /// The key of --sign, as `cosign` names it [default: an identity, for which it asks]
    #[arg(long, value_name = "KEY", requires = "sign", hide_short_help = true)]
    sign_key: Option<String>,

    /// Output format
    #[arg(long, short, value_enum, default_value = "table")]
    output: OutputFormat,

    #[command(flatten)]
    deletions: DeletionArgs,

    #[command(flatten)]
    args: RepoArgs,
}

/// The media types of artifacts.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum TypesName {
    /// Those that Argo CD and Flux read
    Oci,
    /// Those of `flux push artifact`, which Argo CD must be configured for
    Flux,
}

/// The programs that sign.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum SignerName {
    /// cosign
    Cosign,
}

const EXAMPLES: &str = "\
Examples:
  federate push examples/repo oci://registry.example.com/acme/fleet --tag latest
  federate push examples/repo oci://registry.example.com/acme/fleet/{cluster}:v1.4.0 --sign cosign
  federate plan examples/repo --previous oci://registry.example.com/acme/fleet/plan:latest";

fn parse_tag(text: &str) -> Result<String, &'static str> {
    if is_tag(text) {
        Ok(text.to_owned())
    } else {
        Err("a tag consists of letters, digits, `_`, `.` and `-`")
    }
}

impl PushCommand {
    pub(super) fn run(mut self) -> Result<Exit, CommandError> {
        let address = self.take_address();
        let address =
            ArtifactAddress::parse(&address).map_err(|error| CommandError::Failed(error.to_string()))?;
        let store = open_store(&address, self.args.plain_http)?;
        let opened = self.args.open_repo()?;
        let origin = match GitLocation::discover_around(&self.args.repo) {
            Ok(place) => ArtifactOrigin::from_provenance(
                &opened.find_provenance(&place),
                &place,
                self.args.revision_name(),
            ),
            Err(_) => ArtifactOrigin::default(),
        };
        let tags = self.choose_tags(&address, &origin)?;
        let earlier = self.earlier_tag(&address);
        let signature = self.sign.map(|SignerName::Cosign| SignatureRequest {
            key: self.sign_key.as_deref(),
            plain_http: self.args.plain_http,
        });
        let request = PushRequest {
            store: &store,
            address: &address,
            tags: &tags,
            earlier: earlier.as_deref(),
            fallback: None,
            has_pushed_fallback: false,
            clusters: &self.args.clusters,
            types: match self.media_types {
                TypesName::Oci => ArtifactTypes::Oci,
                TypesName::Flux => ArtifactTypes::Flux,
            },
            always: self.always,
            signature,
            origin: &origin,
            keep_going: self.args.keep_going,
            prune_limit: self.deletions.prune_limit(),
            may_write: &|| true,
        };
        let PushedSession { session, outcome, moved } = request
            .push_rendering(
                |published| {
                    self.args.open_session_over(opened.source(), None, self.args.read_previous(published)?)
                },
                |error| {
                    if !self.args.quiet {
                        print_notice(&format!("{error}; trying again\n"));
                    }
                },
            )
            .map_err(|FailedPush { error, moved }| {
                print_rest(&moved);
                match error {
                    push::Error::Open(fault) => fault,
                    error => CommandError::Failed(error.to_string()),
                }
            })?;
        let mut findings = session.findings_for(Destination::Files);
        findings.extend(session.secrets_in_clear());
        self.args.say_cluster_notices(&session)?;
        self.args.report_findings(&session, &findings);
        match outcome {
            PushOutcome::Done(artifacts) => {
                self.print_result(&artifacts, None)?;
                Ok(exit_for_findings(&findings))
            }
            PushOutcome::Errors => {
                print_rest(&moved);
                let what = if moved.is_empty() { "nothing" } else { "nothing else" };
                print_notice(&format!(
                    "{what} was pushed; --keep-going skips the objects with errors and pushes the rest\n"
                ));
                Ok(Exit::Error)
            }
            PushOutcome::Refused(excess) => {
                let limit = self.deletions.prune_limit();
                let unread = session.prune_limit(limit) != limit;
                if self.output != OutputFormat::Table {
                    self.print_result(&moved.to_rows(), Some(&excess))?;
                }
                print_rest(&moved);
                Err(CommandError::Failed(deletions::format_refusal(&excess, &address.to_string(), unread)))
            }
        }
    }

    /// The address. Without a repo, it is in its place, and the repo is the current folder.
    fn take_address(&mut self) -> String {
        self.address.take().unwrap_or_else(|| {
            let address = std::mem::replace(&mut self.args.repo, PathBuf::from("."));
            address.to_string_lossy().into_owned()
        })
    }

    /// The tags to set, the lasting one first.
    fn choose_tags(
        &self,
        address: &ArtifactAddress,
        origin: &ArtifactOrigin,
    ) -> Result<Vec<String>, CommandError> {
        let first = address.tag().or(origin.tag());
        let mut tags: Vec<String> = Vec::new();
        for tag in first.into_iter().chain(self.tag.iter().map(String::as_str)) {
            if !tags.iter().any(|known| known == tag) {
                tags.push(tag.to_owned());
            }
        }
        if tags.is_empty() {
            return Err(CommandError::Failed(format!(
                "{} is not in a git repository with a commit, whose id would be the tag: add a tag, for example --tag latest",
                self.args.repo.display()
            )));
        }
        Ok(tags)
    }

    /// The tag of the artifacts that are there: a moving one, or that of the previous plan.
    fn earlier_tag(&self, address: &ArtifactAddress) -> Option<String> {
        let previous = self.args.previous_path().and_then(|path| ArtifactAddress::parse(path.to_str()?).ok());
        let plan = address.for_cluster("plan").ok();
        // A plan from elsewhere says nothing of the artifacts.
        let previous = previous.filter(|previous| {
            plan.is_some_and(|plan| {
                (plan.host(), plan.repository()) == (previous.host(), previous.repository())
            })
        });
        let of_previous = previous.and_then(|previous| previous.tag().map(str::to_owned));
        let moving = self.tag.first().map(String::as_str).or(address.tag());
        of_previous.or_else(|| moving.map(str::to_owned))
    }

    fn print_result(
        &self,
        artifacts: &[TaggedArtifact],
        refused: Option<&ExcessiveDeletions>,
    ) -> Result<(), CommandError> {
        if self.output != OutputFormat::Table {
            let changed = artifacts.iter().any(|artifact| artifact.changed);
            let api_version = federate_dialect::plan::API_VERSION;
            let result = PushedArtifacts { api_version, kind: "PushResult", changed, artifacts, refused };
            return print_value(&result, self.output);
        }
        if self.args.quiet {
            return Ok(());
        }
        print_text(&artifacts.iter().map(format_artifact).collect::<String>())
    }
}

/// Says what has moved although the push has not come to its end.
fn print_rest(moved: &MovedTags) {
    if let Some(said) = moved.describe_rest() {
        print_notice(&format!("{said}\n"));
    }
}

/// A tag as a line for the terminal.
fn format_artifact(artifact: &TaggedArtifact) -> String {
    let TaggedArtifact { url, tag, digest, changed, .. } = artifact;
    let what = if *changed { "pushed" } else { "unchanged" };
    // Twelve digits are enough to name a digest.
    format!("{url}:{tag}: {what}, {digest:.19}\n")
}

/// Connects to a registry with docker's credentials for it.
fn open_store(address: &ArtifactAddress, plain_http: bool) -> Result<ArtifactStore, CommandError> {
    let credentials = find_docker_credentials(address).map_err(CommandError::Failed)?;
    let proxy = find_proxy(address.host()).map_err(CommandError::Failed)?;
    let options = RegistryOptions { plain_http, proxy, ..RegistryOptions::default() };
    let registry = Registry::new(address, credentials, options);
    Ok(ArtifactStore::new(registry.map_err(Error::from)?)?)
}

/// The credentials that docker has for an address.
pub(super) fn find_docker_credentials(address: &ArtifactAddress) -> Result<Credentials, String> {
    let folder = std::env::var_os("DOCKER_CONFIG").map(PathBuf::from);
    let folder = folder.or_else(|| std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".docker")));
    find_credentials(folder.as_deref(), address).map_err(|error| error.to_string())
}

/// The first of two variables of the environment that is set; empty if none is.
fn read_variable(names: [&str; 2]) -> String {
    names.into_iter().find_map(|name| std::env::var(name).ok()).unwrap_or_default()
}

/// The proxy that the environment names for servers with TLS.
pub(super) fn find_proxy(host: &str) -> Result<Option<Uri>, String> {
    let name = host.split(':').next().unwrap_or(host);
    let is_direct = read_variable(["NO_PROXY", "no_proxy"]).split(',').map(str::trim).any(|entry| {
        let suffix = entry.trim_start_matches(['*', '.']);
        entry == "*" || (!suffix.is_empty() && (name == suffix || name.ends_with(&format!(".{suffix}"))))
    });
    let proxy = read_variable(["HTTPS_PROXY", "https_proxy"]);
    if proxy.is_empty() || is_direct {
        return Ok(None);
    }
    // The address of a proxy may hold a password, and is not shown.
    let invalid =
        "HTTPS_PROXY must be the address of a proxy that begins with http://, https:// or socks5://";
    let proxy: Option<Uri> = proxy.parse().ok();
    let proxy = proxy.filter(|proxy| matches!(proxy.scheme_str(), Some("http" | "https" | "socks5")));
    proxy.map(Some).ok_or_else(|| invalid.to_owned())
}

/// Reads the plan in an artifact.
pub(in crate::cli) fn read_plan_artifact(spec: &str, plain_http: bool) -> Result<Plan, CommandError> {
    let address = ArtifactAddress::parse(spec).map_err(|error| CommandError::Failed(error.to_string()))?;
    let tag = address.tag().ok_or_else(|| {
        CommandError::Failed(format!(
            "{address} names no tag: add that of the plan, for example {address}:latest"
        ))
    })?;
    let untagged = ArtifactAddress::parse(spec.strip_suffix(&format!(":{tag}")).unwrap_or(spec))
        .map_err(|error| CommandError::Failed(error.to_string()))?;
    let plan = open_store(&untagged, plain_http)?.read_plan(&untagged, tag)?;
    plan.ok_or_else(|| {
        CommandError::Failed(format!(
            "the registry has no {address}: --fresh plans without the memory of an earlier run, or push the first plan \
             with `federate push`"
        ))
    })
}

impl From<Error> for CommandError {
    fn from(error: Error) -> Self {
        Self::Failed(error.to_string())
    }
}
