//! `-n` and `-l`: objects to which the output is narrowed.

use std::collections::BTreeSet;

use clap::Args;

use federate_dialect::Plan;
use federate_kubernetes::selector::LabelSelector;
use federate_kubernetes::{Finding, ObjectRef};
use federate_session::Session;

use super::settings::COMMON_HEADING;

/// Arguments that narrow the output to objects.
#[derive(Debug, Default, Args)]
pub(super) struct FilterArgs {
    /// Show only objects of this namespace; scheduling still considers all
    #[arg(long, short, value_name = "NAMESPACE", help_heading = COMMON_HEADING)]
    namespace: Option<String>,

    /// Show only objects with these labels (`app=web,tier in (gold, silver),!spot`); scheduling still considers all
    #[arg(long = "selector", short = 'l', value_name = "SELECTOR", value_parser = LabelSelector::parse, help_heading = COMMON_HEADING)]
    selector: Option<LabelSelector>,
}

/// The objects that are shown.
pub(super) struct ObjectFilter<'f> {
    namespace: Option<&'f str>,
    /// The objects with the labels, without versions; `None` for all.
    labelled: Option<BTreeSet<ObjectRef>>,
}

impl FilterArgs {
    /// Whether the output is narrowed.
    pub(super) fn is_given(&self) -> bool {
        self.namespace.is_some() || self.selector.is_some()
    }

    /// The objects of these sessions to show. An object whose labels differ between the sessions is shown if those of any of them
    /// match.
    pub(super) fn build_filter(&self, sessions: &[&Session]) -> ObjectFilter<'_> {
        let labelled = self.selector.as_ref().map(|selector| {
            let repos = sessions.iter().map(|session| session.repo());
            let objects = repos.flat_map(|repo| {
                let templates = repo.templates.iter().map(|template| &template.object);
                templates.chain(repo.claimed.iter().map(|claimed| &claimed.object))
            });
            let labelled = objects.filter(|object| selector.matches(&object.labels()));
            labelled.map(|object| without_version(&object.id)).collect()
        });
        ObjectFilter { namespace: self.namespace.as_deref(), labelled }
    }
}

fn without_version(id: &ObjectRef) -> ObjectRef {
    ObjectRef { api_version: id.group().to_owned(), ..id.clone() }
}

impl ObjectFilter<'_> {
    /// Whether an object is shown.
    pub(super) fn shows_object(&self, id: &ObjectRef) -> bool {
        let in_namespace = self.namespace.is_none_or(|namespace| id.namespace.as_deref() == Some(namespace));
        in_namespace && self.labelled.as_ref().is_none_or(|labelled| labelled.contains(&without_version(id)))
    }

    /// Whether a finding is shown: one about an object that is shown, or about no object.
    pub(super) fn shows_finding(&self, finding: &Finding) -> bool {
        finding.object.as_ref().is_none_or(|id| self.shows_object(id))
    }

    /// Keeps what is shown of a plan.
    pub(super) fn narrow_plan(&self, plan: &mut Plan) {
        plan.placements.retain(|row| self.shows_object(&row.object));
        plan.unmatched.retain(|id| self.shows_object(id));
    }
}
