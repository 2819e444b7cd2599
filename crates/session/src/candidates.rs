//! Whether objects would be placed that are not templates of the repo: what other tools build, and definitions of an object
//! besides the one that counts.

use std::collections::BTreeMap;

use federate_dialect::Plan;
use federate_engine::Engine;
use federate_kubernetes::{Labels, Object, ObjectRef};
use federate_repo::config::UnplacedTemplates;
use federate_repo::{Repo, Template};

use crate::Session;

/// How many different definitions of one object are tried. Those beyond count as not placed unless one of these is.
const MAX_DEFINITIONS: usize = 16;

/// What would place an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CandidatePlacement {
    /// The policy; `None` if the object would be placed without one.
    pub(crate) policy: Option<ObjectRef>,
}

/// What selectors of policies can tell apart.
type SelectedBy = (ObjectRef, Labels, Labels);

fn selected_by(object: &Object) -> SelectedBy {
    let annotations = federate_kubernetes::object::string_map(object.value_at(&["metadata", "annotations"]));
    (object.id.clone(), object.labels(), annotations)
}

impl Session {
    /// What would place each of these objects if it were a template.
    pub(crate) fn place_candidates(&self, objects: &[&Object]) -> Vec<Option<CandidatePlacement>> {
        let mut layers: Vec<BTreeMap<&ObjectRef, &Object>> = Vec::new();
        let mut layer_of: BTreeMap<SelectedBy, usize> = BTreeMap::new();
        let mut definitions: BTreeMap<&ObjectRef, usize> = BTreeMap::new();
        for object in objects {
            let key = selected_by(object);
            if layer_of.contains_key(&key) {
                continue;
            }
            let count = definitions.entry(&object.id).or_default();
            if *count == MAX_DEFINITIONS {
                continue;
            }
            if layers.len() == *count {
                layers.push(BTreeMap::new());
            }
            if let Some(layer) = layers.get_mut(*count) {
                layer.insert(&object.id, object);
            }
            layer_of.insert(key, *count);
            *count += 1;
        }
        let plans: Vec<Plan> =
            layers.iter().enumerate().map(|(index, layer)| self.plan_with(layer, index == 0)).collect();
        objects
            .iter()
            .map(|object| {
                let layer = layer_of.get(&selected_by(object));
                match layer {
                    Some(layer) => self.placed_in(plans.get(*layer)?, &object.id),
                    None => plans.iter().find_map(|plan| self.placed_in(plan, &object.id)),
                }
            })
            .collect()
    }

    /// The plan of the repo with more templates. Without `everything`, only the Namespaces of the repo are kept, which
    /// policies may select with their content.
    fn plan_with(&self, candidates: &BTreeMap<&ObjectRef, &Object>, everything: bool) -> Plan {
        let repo = self.repo();
        let mut templates: Vec<Template> = repo
            .templates
            .iter()
            .filter(|template| {
                let id = &template.object.id;
                !candidates.contains_key(id)
                    && (everything || (id.kind == "Namespace" && id.group().is_empty()))
            })
            .cloned()
            .collect();
        let new = candidates.values().map(|object| Template::new((*object).clone()));
        templates.extend(new);
        templates.sort_by(|a, b| a.object.id.cmp(&b.object.id));
        let claimed = repo.claimed.clone();
        let repo = Repo { config: repo.config.clone(), claimed, templates, ..Repo::default() };
        Engine::new(self.dialects(), &repo, self.clusters(), self.settings()).compute_placements()
    }

    /// What places an object in a plan.
    pub(crate) fn placed_in(&self, plan: &Plan, id: &ObjectRef) -> Option<CandidatePlacement> {
        let start = plan.placements.partition_point(|row| row.object < *id);
        let mut rows = plan.placements.get(start..)?.iter().take_while(|row| row.object == *id);
        let everywhere = self.repo().config.unplaced == UnplacedTemplates::Everywhere;
        rows.find(|row| {
            let by_rule = !row.implicit || !row.required_by.is_empty();
            !row.is_unmatched()
                && (row.policy.is_some() || by_rule || (everywhere && !row.clusters.is_empty()))
        })
        .map(|row| CandidatePlacement { policy: row.policy.clone() })
    }
}
