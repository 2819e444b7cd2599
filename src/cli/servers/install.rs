//! `federate install`: applies or prints the manifests of `deploy/sync`.

use std::path::PathBuf;

use clap::Args;
use serde_json::Value;

use crate::cli::{CommandError, Exit, print_notice, print_unchanged};
use federate_sync::counters::MetricCounters;
use federate_sync::hub::HubClient;

/// The manifests, in the order in which they are applied.
const MANIFESTS: [&str; 6] = [
    include_str!("../../../deploy/sync/namespace.yaml"),
    include_str!("../../../deploy/crds/syncs.federate.dev.yaml"),
    include_str!("../../../deploy/sync/rbac.yaml"),
    include_str!("../../../deploy/sync/networkpolicy.yaml"),
    include_str!("../../../deploy/sync/deployment.yaml"),
    include_str!("../../../deploy/sync/pdb.yaml"),
];

/// Install `federate sync` in a cluster
///
/// Applies the CRD of Sync, the RBAC rules and the Deployment in `deploy/sync`, like
/// `kubectl apply -k deploy/sync`. With --export, prints them.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(in crate::cli) struct InstallCommand {
    /// Print the manifests and change nothing
    #[arg(long, conflicts_with_all = ["context", "kubeconfig"])]
    export: bool,

    /// The image of the Deployment [default: the image of this release]
    #[arg(long, value_name = "IMAGE")]
    image: Option<String>,

    /// The kubeconfig context of the cluster
    #[arg(long, value_name = "CONTEXT", required_unless_present = "export")]
    context: Option<String>,

    /// The kubeconfig file [default: $KUBECONFIG or ~/.kube/config]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
}

const EXAMPLES: &str = "\
Examples:
  federate install --export > federate-sync.yaml
  federate install --context hub";

impl InstallCommand {
    pub(super) fn run(&self) -> Result<Exit, CommandError> {
        let manifests = self.build_manifests();
        if self.export {
            let mut text = String::new();
            for manifest in &manifests {
                text.push_str("---\n");
                federate_yaml::write_document(manifest, &mut text);
            }
            print_unchanged(&text)?;
            return Ok(Exit::Clean);
        }
        let hub = HubClient::connect(
            self.kubeconfig.as_deref(),
            self.context.as_deref(),
            &MetricCounters::default(),
        )
        .map_err(|error| CommandError::Failed(error.to_string()))?;
        for manifest in &manifests {
            let name = hub.install_object(manifest);
            let name = name.map_err(|error| CommandError::Failed(error.to_string()))?;
            print_notice(&format!("applied {name}\n"));
        }
        Ok(Exit::Clean)
    }

    fn build_manifests(&self) -> Vec<Value> {
        let documents =
            MANIFESTS.iter().flat_map(|text| federate_yaml::read_stream(text.as_bytes()).documents);
        let mut manifests: Vec<Value> = documents.map(|document| document.value).collect();
        for manifest in &mut manifests {
            let image = manifest.pointer_mut("/spec/template/spec/containers/0/image");
            if let (Some(image), Some(chosen)) = (image, &self.image) {
                *image = chosen.clone().into();
            }
        }
        manifests
    }
}
