//! What the controllers of Argo CD and Flux make of their objects: what is built of which folder or chart, with which settings, for
//! which clusters, and what is changed in what was built. It builds nothing itself.

mod argocd;
mod description;
mod flux;
mod helm_parameters;
mod known_fields;
mod own_repository;
mod remote_reference;
mod values;
pub mod vendored;

pub use argocd::application::{describes_source as is_argo_source, is_controller_setting as is_argo_setting};
pub use argocd::application_set::{
    GeneratedApplications, GenerationUsage, OmissionReason, OmittedApplication,
};
pub use argocd::directory::{DirectoryContent, DirectoryFile, read_directory};
pub use argocd::reader::{ArgoReader, ArgoSettings, PlacementDecisions};
pub use description::{
    BuildChanges, ChartParameter, DescribedChart, DescribedJob, DescribedSource, Description,
    DescriptionError, DirectoryFiles, HookRendering, KUSTOMIZATIONS, KustomizationRules, Note, PostRendering,
    UnknownReason, UnknownValues, is_packaged_chart, list_served_versions, strip_chart_version,
};
pub use flux::references::MissingValues;
pub use flux::substitution::{Substitution, Variables};
pub use flux::{FluxReader, FluxSettings, describes_source as is_flux_source, name_kubeconfig_cluster};
pub use own_repository::OwnRepository;
pub use remote_reference::{
    FluxCharts, MisspeltRepository, RemoteReference, is_chart_name, list_kustomization_references,
};
pub use values::{ValuesError, expand_values, merge_maps};
pub use vendored::VendoredSources;
