//! Workloads whose replicas an autoscaler changes, while their manifests state them.

use federate_kubernetes::Finding;
use federate_repo::Repo;
use federate_repo::config::AutoscaledReplicas;

use federate_engine::autoscalers::Autoscalers;

/// The findings about templates with replicas that an autoscaler of the repo scales.
pub(super) fn find_fixed_replicas(repo: &Repo) -> Vec<Finding> {
    if repo.config.autoscaled_replicas == AutoscaledReplicas::Omit {
        return Vec::new();
    }
    let autoscalers = Autoscalers::from_repo(repo);
    let objects = repo.templates.iter().map(|template| &template.object);
    let fixed = objects.filter_map(|object| {
        let replicas = object.body.pointer("/spec/replicas").filter(|replicas| !replicas.is_null())?;
        let scaler = autoscalers.scaler_of(&object.id)?;
        let message = format!(
            "{scaler} decides about the replicas of {}, but its manifests state {replicas}: a tool that applies them, such as \
             Argo CD or Flux, sets them back",
            object.id
        );
        let help = "set `autoscaledReplicas: omit` in federate.yaml, which leaves the replicas out of the manifests, or remove \
                    them from the template; `federate apply` keeps those of the autoscaler";
        Some(Finding::warning("autoscaled-replicas", object, message).with_pointer("/spec/replicas").with_help(help))
    });
    fixed.collect()
}
