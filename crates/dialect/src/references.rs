//! What an object refers to by name: clusters, labels of clusters, templates, other objects. `federate check`
//! compares the names with the repo, in the same way for every dialect.

use serde_json::Value;

use federate_kubernetes::schema::Cursor;

/// The references of one object.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ObjectReferences {
    /// Clusters by name.
    pub clusters: Vec<LocatedName>,
    /// Requirements on the labels and fields of clusters.
    pub cluster_labels: Vec<ClusterRequirement>,
    /// The selections of clusters. Each of them should select some clusters.
    pub cluster_terms: Vec<ClusterTerm>,
    /// Labels whose values are read of every cluster, by key.
    pub read_cluster_labels: Vec<String>,
    /// Selectors of templates.
    pub selectors: Vec<TemplateSelector>,
    /// Other objects by name.
    pub objects: Vec<RepoObjectReference>,
    /// Containers of templates by name.
    pub containers: Vec<LocatedName>,
}

/// A name, and the place where it is written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LocatedName {
    /// The name.
    pub name: String,
    /// The place, as a JSON pointer into the object.
    pub pointer: String,
}

/// A requirement that a label or a field of a cluster has one of these values, or any value if there are none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterRequirement {
    /// The property.
    pub property: ClusterProperty,
    /// The place of the key.
    pub pointer: String,
    /// The values, with their places.
    pub values: Vec<LocatedName>,
}

/// A selection of clusters: all of its conditions hold for each cluster that it selects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterTerm {
    /// The only clusters that it selects; empty if the name does not matter.
    pub names: Vec<String>,
    /// Clusters that it does not select.
    pub excluded: Vec<String>,
    /// What holds for the properties of each cluster.
    pub conditions: Vec<PropertyCondition>,
    /// How many clusters it must select, if more than one.
    pub count: usize,
    /// Properties of which the selected clusters must have that many different values.
    pub distinct: Vec<(ClusterProperty, usize)>,
    /// Whether it applies only where the terms of the object before it do not suffice, so that it means other clusters.
    pub fallback: bool,
    /// What it demands of clusters that only their status has, such as their number of nodes: the names of the properties.
    pub status_properties: Vec<String>,
}

/// What holds for a property of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PropertyCondition {
    /// The property.
    pub property: ClusterProperty,
    /// How its value compares with `values`.
    pub operator: ClusterOperator,
    /// The values.
    pub values: Vec<String>,
}

/// The operators of selectors of clusters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClusterOperator {
    /// It is one of the values.
    In,
    /// It is none of the values, or the property is not set.
    NotIn,
    /// It is set.
    Exists,
    /// It is not set.
    DoesNotExist,
    /// It is an integer that is greater than the value.
    Gt,
    /// It is an integer that is less than the value.
    Lt,
}

impl ClusterOperator {
    fn parse(text: &str) -> Option<Self> {
        Some(match text {
            "In" => Self::In,
            "NotIn" => Self::NotIn,
            "Exists" => Self::Exists,
            "DoesNotExist" => Self::DoesNotExist,
            "Gt" => Self::Gt,
            "Lt" => Self::Lt,
            _ => return None,
        })
    }
}

impl ClusterTerm {
    /// Selects only clusters of this list, if it has any.
    #[must_use]
    pub fn only_clusters(mut self, list: &Cursor<'_>) -> Self {
        self.names.extend(read_texts(list));
        self
    }

    /// Does not select the clusters of this list.
    #[must_use]
    pub fn except_clusters(mut self, list: &Cursor<'_>) -> Self {
        self.excluded.extend(read_texts(list));
        self
    }

    /// Selects only clusters that a label selector selects.
    #[must_use]
    pub fn with_label_selector(self, selector: &Cursor<'_>) -> Self {
        self.with_labels(&selector.field("matchLabels"))
            .with_label_requirements(&selector.field("matchExpressions"))
    }

    /// Selects only clusters with these labels.
    #[must_use]
    pub fn with_labels(mut self, labels: &Cursor<'_>) -> Self {
        for (key, value) in labels.value().as_object().into_iter().flatten() {
            let values = value.as_str().map(str::to_owned).into_iter().collect();
            let of = ClusterProperty::Label(key.clone());
            self.conditions.push(PropertyCondition { property: of, operator: ClusterOperator::In, values });
        }
        self
    }

    /// Selects only clusters whose labels meet these requirements.
    #[must_use]
    pub fn with_label_requirements(self, requirements: &Cursor<'_>) -> Self {
        self.with_requirements(requirements, |key| Some(ClusterProperty::Label(key.to_owned())))
    }

    /// Selects only clusters that meet these requirements. `property` returns the property that a key means.
    #[must_use]
    pub fn with_requirements(
        mut self,
        requirements: &Cursor<'_>,
        property: impl Fn(&str) -> Option<ClusterProperty>,
    ) -> Self {
        for requirement in requirements.items() {
            let key = requirement.field("key");
            let Some(of) = property(key.as_text()).filter(|_| !key.as_text().is_empty()) else { continue };
            let Some(operator) = ClusterOperator::parse(requirement.field("operator").as_text()) else {
                continue;
            };
            let values = read_texts(&requirement.field("values")).collect();
            self.conditions.push(PropertyCondition { property: of, operator, values });
        }
        self
    }
}

fn read_texts<'c>(list: &Cursor<'c>) -> impl Iterator<Item = String> + use<'c> {
    let items: Vec<Cursor<'c>> = list.items().collect();
    items.into_iter().filter_map(|item| Some(LocatedName::from_cursor(&item)?.name))
}

/// A property of clusters by which policies select them.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ClusterProperty {
    /// A label, by its key.
    Label(String),
    /// The provider.
    Provider,
    /// The region.
    Region,
    /// The zones.
    Zone,
}

/// A selector of templates. What is `None` does not matter to the selector.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TemplateSelector {
    /// The place of the selector.
    pub pointer: String,
    /// The API group.
    pub group: Option<LocatedName>,
    /// The API version, `group/version`.
    pub api_version: Option<LocatedName>,
    /// Whether it also selects objects in other versions, as long as the API server serves its own.
    pub any_version: bool,
    /// The kind.
    pub kind: LocatedName,
    /// The namespace.
    pub namespace: Option<LocatedName>,
    /// The name.
    pub name: Option<LocatedName>,
    /// The label selector, with its place.
    pub labels: Option<(Value, String)>,
    /// Whether it also selects everything in the namespaces that it selects.
    pub with_content: bool,
}

/// A reference to an object of the repo.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RepoObjectReference {
    /// The API group.
    pub group: &'static str,
    /// The kind.
    pub kind: &'static str,
    /// The namespace; `None` for cluster-scoped objects.
    pub namespace: Option<String>,
    /// The name, with its place.
    pub name: LocatedName,
    /// What happens without the object.
    pub consequence: &'static str,
    /// The object of another kind that may be meant.
    pub other: Option<OtherKind>,
}

/// An object of the same name and another kind, which a reference names by mistake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OtherKind {
    /// The kind, of the same group.
    pub kind: &'static str,
    /// The namespace; `None` for cluster-scoped objects.
    pub namespace: Option<String>,
    /// How to refer to it.
    pub help: &'static str,
}

impl LocatedName {
    /// The text at a place; `None` if it is empty or not text.
    pub fn from_cursor(cursor: &Cursor<'_>) -> Option<Self> {
        let name = cursor.value().as_str().filter(|name| !name.is_empty())?;
        Some(Self { name: name.to_owned(), pointer: cursor.pointer().to_owned() })
    }
}

impl ObjectReferences {
    /// Adds the names of clusters in a list.
    pub fn add_cluster_list(&mut self, list: &Cursor<'_>) {
        self.clusters.extend(list.items().filter_map(|item| LocatedName::from_cursor(&item)));
    }

    /// Adds the name of a cluster.
    pub fn add_cluster(&mut self, name: &Cursor<'_>) {
        self.clusters.extend(LocatedName::from_cursor(name));
    }

    /// Adds a label selector of clusters.
    pub fn add_cluster_selector(&mut self, selector: &Cursor<'_>) {
        self.add_cluster_labels(&selector.field("matchLabels"));
        self.add_label_requirements(&selector.field("matchExpressions"));
    }

    /// Adds a mapping from the labels of clusters to their values.
    pub fn add_cluster_labels(&mut self, labels: &Cursor<'_>) {
        for (key, _) in labels.value().as_object().into_iter().flatten() {
            let value = labels.entry(key);
            let pointer = value.pointer().to_owned();
            let values = LocatedName::from_cursor(&value).into_iter().collect();
            self.cluster_labels.push(ClusterRequirement {
                property: ClusterProperty::Label(key.clone()),
                pointer,
                values,
            });
        }
    }

    /// Adds requirements on the labels of clusters. Only those that a cluster without the label does not meet
    /// count.
    pub fn add_label_requirements(&mut self, requirements: &Cursor<'_>) {
        self.add_requirements(requirements, |key| Some(ClusterProperty::Label(key.to_owned())));
    }

    /// Adds requirements on properties of clusters. `property` returns the property that a key means.
    pub fn add_requirements(
        &mut self,
        requirements: &Cursor<'_>,
        property: impl Fn(&str) -> Option<ClusterProperty>,
    ) {
        for requirement in requirements.items() {
            let key = requirement.field("key");
            let Some(of) = property(key.as_text()).filter(|_| !key.as_text().is_empty()) else { continue };
            let values = match requirement.field("operator").as_text() {
                "In" => {
                    requirement.field("values").items().filter_map(|v| LocatedName::from_cursor(&v)).collect()
                }
                "Exists" => Vec::new(),
                _ => continue,
            };
            self.cluster_labels.push(ClusterRequirement {
                property: of,
                pointer: key.pointer().to_owned(),
                values,
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn requirements_that_a_cluster_without_the_label_meets_do_not_count() {
        let value = json!({"matchExpressions": [
            {"key": "region", "operator": "NotIn", "values": ["eu"]},
            {"key": "gpu", "operator": "DoesNotExist"},
            {"key": "zone", "operator": "In", "values": ["a", 1]},
        ]});
        let mut references = ObjectReferences::default();
        references.add_cluster_selector(&Cursor::new(&value));
        let [zone] = references.cluster_labels.as_slice() else { panic!("{references:?}") };
        assert_eq!(zone.property, ClusterProperty::Label("zone".to_owned()));
        assert_eq!(zone.values.len(), 1);
        assert_eq!(zone.values[0].pointer, "/matchExpressions/2/values/0");
    }
}
