//! The generator `clusterDecisionResource`: clusters that an object such as a `PlacementDecision` names in its status.
//!
//! Facts: a ConfigMap in the namespace of the set names the resource, the list in the status, and the key of the entries that holds
//! the name of a cluster. Entries without a cluster of that name are left out, `values` are not filled, and the fields of an
//! entry may overwrite the parameters `name` and `server`. The controller of ACM's `GitOpsCluster` makes the ConfigMaps
//! `acm-placement` and `acm-placementrule`.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use federate_kubernetes::Object;
use federate_kubernetes::object::field_text;

use super::generators::{Generation, read_values};
use super::parameters::{Parameter, Parameters, count_bytes, count_value_bytes, print_parameter};
use super::selector::RowSelector;
use crate::argocd::clusters::{ArgoCluster, LOCAL_NAME};
use crate::description::DescriptionError;

/// What a ConfigMap says about the resource.
struct DecisionResource {
    api_version: String,
    /// The name of the resource, in the plural.
    resource: String,
    list_key: String,
    match_key: String,
}

impl DecisionResource {
    /// The resource of a ConfigMap that ACM makes on the hub, so that a repo need not have it.
    fn of_acm(config_map: &str) -> Option<Self> {
        let (api_version, resource) = match config_map {
            "acm-placement" => ("cluster.open-cluster-management.io/v1beta1", "placementdecisions"),
            "acm-placementrule" => ("apps.open-cluster-management.io/v1", "placementrules"),
            _ => return None,
        };
        Some(Self {
            api_version: api_version.to_owned(),
            resource: resource.to_owned(),
            list_key: "decisions".to_owned(),
            match_key: "clusterName".to_owned(),
        })
    }
}

/// The label of a `PlacementDecision` with the name of its `Placement`.
const PLACEMENT_LABEL: &str = "cluster.open-cluster-management.io/placement";
const OCM_GROUP: &str = "cluster.open-cluster-management.io";

impl Generation<'_> {
    pub(super) fn list_decisions(
        &self,
        generator: &Value,
        at: &str,
    ) -> Result<Vec<Parameters>, DescriptionError> {
        self.charge_work(8 * (self.reader.objects.len() + self.reader.clusters.count()), at)?;
        let resource = self.read_decision_resource(generator, at)?;
        let (name, selector) = (field_text(generator, "name"), generator.get("labelSelector"));
        let selector = selector.filter(|selector| !selector.is_null());
        let selector = selector
            .map(|selector| RowSelector::read(selector, true, &format!("{at}/labelSelector")))
            .transpose()?
            .filter(|selector| !selector.is_empty());
        let selector = match (name, selector) {
            ("", Some(selector)) => Some(selector),
            ("", None) => return Err(DescriptionError::new(at, "it has neither `name` nor `labelSelector`")),
            (_, None) => None,
            (_, Some(_)) => return Err(DescriptionError::new(at, "it has both `name` and `labelSelector`")),
        };
        let mut statuses: Vec<(&str, Value)> = Vec::new();
        for object in self.find_resources(&resource) {
            let is_selected = match &selector {
                Some(selector) => selector.matches(&object.labels()),
                None => object.id.name == name,
            };
            if is_selected {
                let status = object.body.get("status").cloned().unwrap_or_default();
                self.charge_work(count_value_bytes(&status), at)?;
                statuses.push((&object.id.name, status));
            }
        }
        statuses.sort_by_key(|(name, _)| *name);
        if statuses.is_empty() {
            statuses.extend(self.decide_placement(&resource, generator).map(|status| (name, status)));
        }
        if statuses.is_empty() {
            let why = format!("the repo has no `{}` that it selects", resource.resource);
            return Err(DescriptionError::new(at, why));
        }
        let clusters = self.reader.clusters.list_for(self.namespace());
        let local = ArgoCluster::local();
        let mut by_name: BTreeMap<&str, &ArgoCluster> = [(LOCAL_NAME, &local)].into();
        by_name.extend(clusters.into_iter().map(|cluster| (cluster.name.as_str(), cluster)));
        let values = read_values(generator, &format!("{at}/values"))?;
        let values: BTreeMap<String, String> =
            values.into_iter().map(|(key, text)| (key.to_owned(), text.to_owned())).collect();
        let mut rows = Vec::new();
        for (name, status) in statuses {
            if status.is_null() {
                continue;
            }
            let entries = status.get(&resource.list_key).and_then(Value::as_array).ok_or_else(|| {
                let why = format!("the status of `{name}` has no list `{}`", resource.list_key);
                DescriptionError::new(at, why).with_help("name the list in `statusListKey` of the ConfigMap")
            })?;
            for entry in entries {
                let matched = entry.get(&resource.match_key).filter(|_| !resource.match_key.is_empty());
                let matched = matched.and_then(Value::as_str).and_then(|name| by_name.get(name));
                let Some(cluster) = matched else { continue };
                let row = self.decision_parameters(cluster, entry, &values);
                self.charge_work(count_bytes(&row), at)?;
                rows.push(row);
            }
        }
        Ok(rows)
    }

    fn decision_parameters(
        &self,
        cluster: &ArgoCluster,
        entry: &Value,
        values: &BTreeMap<String, String>,
    ) -> Parameters {
        let mut row: Parameters = [("name", &cluster.name), ("server", &cluster.server)]
            .map(|(key, text)| (key.to_owned(), Parameter::from_text(text.clone())))
            .into();
        for (key, value) in entry.as_object().into_iter().flatten() {
            let text = print_parameter(&Parameter::from_json(value.clone()));
            row.insert(key.clone(), Parameter::from_text(text));
        }
        if !values.is_empty() {
            self.put_values(&mut row, values.clone());
        }
        row
    }

    fn read_decision_resource(
        &self,
        generator: &Value,
        at: &str,
    ) -> Result<DecisionResource, DescriptionError> {
        let at = format!("{at}/configMapRef");
        let name = field_text(generator, "configMapRef");
        let config_map = self.objects_beside().find(|object| {
            object.id.kind == "ConfigMap" && object.id.api_version == "v1" && object.id.name == name
        });
        if config_map.is_none()
            && let Some(known) = DecisionResource::of_acm(name)
        {
            return Ok(known);
        }
        let data = config_map.and_then(|object| object.body.get("data"));
        let data = data.ok_or_else(|| {
            let why = format!("the repo has no ConfigMap `{name}` in the namespace of the set");
            DescriptionError::new(&at, why)
                .with_help("add it: `federate plan -o placementdecisions=ocm` prints it")
        })?;
        let text = |key: &str| field_text(data, key).to_owned();
        let resource = DecisionResource {
            api_version: text("apiVersion"),
            resource: text("kind"),
            list_key: Some(text("statusListKey"))
                .filter(|key| !key.is_empty())
                .unwrap_or_else(|| "clusters".to_owned()),
            match_key: text("matchKey"),
        };
        if !resource.api_version.contains('/') || resource.resource.is_empty() {
            let why = format!(
                "the ConfigMap `{name}` names no resource of a group: it needs `apiVersion` and `kind`"
            );
            return Err(DescriptionError::new(&at, why));
        }
        Ok(resource)
    }

    /// The objects in the namespace of the set, by their namespaces and names.
    fn objects_beside(&self) -> impl Iterator<Item = &Object> {
        let namespace = self.namespace();
        let is_beside = move |object: &&Object| {
            let own = object.id.namespace.as_deref().unwrap_or_default();
            own == namespace || own.is_empty() || namespace.is_empty()
        };
        self.reader.objects.iter().copied().filter(is_beside)
    }

    /// The objects of a resource, whose name is their kind in the plural.
    fn find_resources(&self, resource: &DecisionResource) -> impl Iterator<Item = &Object> {
        let is_one = |object: &&Object| {
            object.id.api_version == resource.api_version && is_plural_of(&resource.resource, &object.id.kind)
        };
        self.objects_beside().filter(is_one)
    }

    /// The status of the decisions of a placement that federate decides itself.
    fn decide_placement(&self, resource: &DecisionResource, generator: &Value) -> Option<Value> {
        let decide = self.reader.decisions?;
        let group = resource.api_version.split('/').next().unwrap_or_default();
        if group != OCM_GROUP || resource.resource != "placementdecisions" {
            return None;
        }
        let labels = generator.pointer("/labelSelector/matchLabels").and_then(Value::as_object)?;
        let placement = labels.get(PLACEMENT_LABEL).filter(|_| labels.len() == 1)?.as_str()?;
        let clusters = decide(self.namespace(), placement)?;
        let decisions = clusters.iter().map(|name| json!({"clusterName": &**name, "reason": ""}));
        Some(json!({"decisions": decisions.collect::<Vec<_>>()}))
    }
}

/// Whether the name of a resource is the plural of a kind.
fn is_plural_of(resource: &str, kind: &str) -> bool {
    let kind = kind.to_lowercase();
    let plural = match (kind.strip_suffix('y'), kind.ends_with('s') || kind.ends_with('x')) {
        (Some(stem), _) => format!("{stem}ies"),
        (None, true) => format!("{kind}es"),
        (None, false) => format!("{kind}s"),
    };
    resource == plural || resource == format!("{kind}s")
}
