//! An inventory for a repo that has none: the fewest clusters that its policies and overrides name and select.
//!
//! Each selection of clusters narrows the properties of one cluster (or of several, if it must spread): that of a cluster that
//! it names, or of the first cluster that can meet it together with the selections before.

use std::collections::{BTreeMap, BTreeSet};

use federate_dialect::Dialects;
use federate_dialect::references::{ClusterOperator, ClusterProperty, ClusterTerm, PropertyCondition};
use federate_kubernetes::ObjectRef;
use federate_kubernetes::names::safe_cluster;
use federate_kubernetes::schema::find_similar;
use federate_repo::config::ConfiguredCluster;
use federate_repo::{Repo, Role};

use crate::references::collect_references;

/// The inventory that a repo needs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DraftedInventory {
    /// The clusters, sorted by name.
    pub clusters: Vec<ConfiguredCluster>,
    /// The clusters whose names are placeholders, because the repo only says what they must be like.
    pub placeholders: Vec<String>,
    /// Selections that no cluster can meet besides the others: the object, and which clusters it names.
    pub unmet: Vec<(ObjectRef, String)>,
    /// What objects demand of clusters that only their status has: the object, and the name of the property.
    pub undrafted: BTreeSet<(ObjectRef, String)>,
}

/// Drafts the inventory of a repo. Clusters with the `given` names take the places of those that the repo does not name.
/// Without them, the result is empty if nothing in the repo says anything about a cluster.
pub fn draft_inventory(dialects: Dialects, repo: &Repo, given: &[String]) -> DraftedInventory {
    let mut draft = InventoryDraft::default();
    let references: Vec<_> = collect_references(dialects, repo).collect();
    let names = references.iter().flat_map(|(_, found)| &found.clusters);
    for name in names.map(|name| name.name.as_str()).filter(|name| safe_cluster(name).is_ok()) {
        draft.index_of_name(name);
    }
    let terms: Vec<&ClusterTerm> =
        references.iter().flat_map(|(_, references)| &references.cluster_terms).collect();
    // Overrides change what placements send, so they are to share their clusters.
    let overrides: BTreeSet<&ObjectRef> = repo
        .claimed
        .iter()
        .filter(|claimed| claimed.role == Role::Override)
        .map(|claimed| &claimed.object.id)
        .collect();
    let (later, first): (Vec<_>, Vec<_>) =
        references.iter().partition(|(object, _)| overrides.contains(&object.id));
    for (object, references) in first.into_iter().chain(later) {
        draft.add_terms(&object.id, &references.cluster_terms);
    }
    draft.add_lookalikes(&terms);
    for key in references.iter().flat_map(|(_, references)| &references.read_cluster_labels) {
        draft.label_all(key);
    }
    draft.finish_draft(given)
}

#[derive(Debug, Default)]
struct InventoryDraft {
    clusters: Vec<ClusterDraft>,
    /// The clusters with names.
    by_name: BTreeMap<String, usize>,
    unmet: Vec<(ObjectRef, String)>,
    undrafted: BTreeSet<(ObjectRef, String)>,
}

/// A cluster, as far as selections determine it.
#[derive(Clone, Debug, Default, PartialEq)]
struct ClusterDraft {
    name: Option<String>,
    /// Names that it must not get.
    excluded: BTreeSet<String>,
    /// Whether a selection takes it.
    is_selected: bool,
    properties: BTreeMap<ClusterProperty, PropertyRange>,
}

/// The values that a property may have.
#[derive(Clone, Debug, Default, PartialEq)]
struct PropertyRange {
    /// Only these, if it is set.
    allowed: Option<Vec<String>>,
    denied: BTreeSet<String>,
    must_be_set: bool,
    must_not_be_set: bool,
    above: Option<i64>,
    below: Option<i64>,
}

/// No value meets all conditions.
struct Contradiction;

impl InventoryDraft {
    /// The cluster with this name.
    fn index_of_name(&mut self, name: &str) -> usize {
        let next = self.clusters.len();
        let at = *self.by_name.entry(name.to_owned()).or_insert(next);
        if at == next {
            self.clusters.push(ClusterDraft { name: Some(name.to_owned()), ..ClusterDraft::default() });
        }
        at
    }

    /// Makes clusters meet the selections of an object.
    fn add_terms(&mut self, object: &ObjectRef, terms: &[ClusterTerm]) {
        let mut used = BTreeSet::new();
        for term in terms {
            let undrafted = term.status_properties.iter().map(|property| (object.clone(), property.clone()));
            self.undrafted.extend(undrafted);
            // Any cluster meets it.
            if term.fallback && term.names.is_empty() && term.conditions.is_empty() {
                continue;
            }
            let selected = if term.names.is_empty() {
                let avoided = if term.fallback { used.clone() } else { BTreeSet::new() };
                self.add_unnamed(term, avoided)
            } else {
                self.add_named(object, term)
            };
            for (property, values) in &term.distinct {
                self.spread_values(&selected, property, *values);
            }
            used.extend(selected);
        }
    }

    /// Narrows the clusters that a term names.
    fn add_named(&mut self, object: &ObjectRef, term: &ClusterTerm) -> Vec<usize> {
        let names = term.names.iter().filter(|name| !term.excluded.contains(name));
        let names: Vec<&String> = names.filter(|name| safe_cluster(name).is_ok()).collect();
        let mut selected = Vec::new();
        for name in names {
            let at = self.index_of_name(name);
            match self.clusters.get(at).and_then(|cluster| cluster.with_conditions(&term.conditions)) {
                Some(narrowed) => {
                    self.replace_cluster(at, narrowed);
                    selected.push(at);
                }
                None => self.unmet.push((object.clone(), name.clone())),
            }
        }
        selected
    }

    /// Narrows as many clusters as a term needs, or adds them.
    fn add_unnamed(&mut self, term: &ClusterTerm, mut avoided: BTreeSet<usize>) -> Vec<usize> {
        let mut selected = Vec::new();
        for _ in 0..term.count.max(1) {
            let Some((at, narrowed)) = self.find_best(term, &avoided) else { break };
            self.replace_cluster(at, narrowed);
            avoided.insert(at);
            selected.push(at);
        }
        selected
    }

    /// The cluster that meets a term with the least change: one that does already, else one that is selected, else one without
    /// a name, else any, or a new one. `None` if the term contradicts itself.
    fn find_best(&self, term: &ClusterTerm, avoided: &BTreeSet<usize>) -> Option<(usize, ClusterDraft)> {
        let candidates = self.clusters.iter().enumerate().filter(|(at, cluster)| {
            let is_excluded = cluster.name.as_ref().is_some_and(|name| term.excluded.contains(name));
            !avoided.contains(at) && !is_excluded
        });
        let narrowed = candidates.filter_map(|(at, cluster)| {
            let narrowed = cluster.with_conditions(&term.conditions)?;
            let change = (narrowed != *cluster, !cluster.is_selected, cluster.name.is_some(), at);
            Some((change, (at, narrowed)))
        });
        let best = narrowed.min_by_key(|(change, _)| *change).map(|(_, best)| best);
        let (at, mut cluster) = match best {
            Some(best) => best,
            None => (self.clusters.len(), ClusterDraft::default().with_conditions(&term.conditions)?),
        };
        cluster.excluded.extend(term.excluded.iter().cloned());
        Some((at, cluster))
    }

    /// Replaces the cluster at this place, or adds it, for a selection that takes it.
    fn replace_cluster(&mut self, at: usize, cluster: ClusterDraft) {
        let cluster = ClusterDraft { is_selected: true, ..cluster };
        match self.clusters.get_mut(at) {
            Some(known) => *known = cluster,
            None => self.clusters.push(cluster),
        }
    }

    /// Gives clusters that many different values of a property, if they can have them.
    fn spread_values(&mut self, selected: &[usize], property: &ClusterProperty, values: usize) {
        let mut used: BTreeSet<String> = BTreeSet::new();
        for &at in selected {
            let Some(cluster) = self.clusters.get(at) else { continue };
            let range = cluster.properties.get(property).cloned().unwrap_or_default();
            let unused = range.allowed.iter().flatten().find(|value| !used.contains(*value)).cloned();
            let value = match range.choose_value() {
                Ok(Some(value)) if used.insert(value.clone()) => continue,
                _ if used.len() >= values => continue,
                _ => unused.unwrap_or_else(|| invented_value(property, &used)),
            };
            let operator = ClusterOperator::In;
            let condition =
                PropertyCondition { property: property.clone(), operator, values: vec![value.clone()] };
            if let Some(narrowed) = cluster.with_conditions(&[condition]) {
                used.insert(value);
                self.replace_cluster(at, narrowed);
            }
        }
    }

    /// Adds clusters with values that are nearly the value of another one: without them, they would be taken for
    /// mistyped ones.
    fn add_lookalikes(&mut self, terms: &[&ClusterTerm]) {
        for term in terms {
            for condition in
                term.conditions.iter().filter(|condition| condition.operator == ClusterOperator::In)
            {
                for value in &condition.values {
                    let known = self.values_of(&condition.property);
                    let known: Vec<&str> = known.iter().map(String::as_str).collect();
                    if known.contains(&value.as_str()) {
                        continue;
                    }
                    let Some(near) = find_similar(value, &known).map(str::to_owned) else { continue };
                    self.pin_value(condition, &near);
                    let own = PropertyCondition { values: vec![value.clone()], ..condition.clone() };
                    let others = term.conditions.iter().filter(|other| *other != condition).cloned();
                    let conditions = others.chain([own]).collect();
                    let pinned = ClusterTerm { conditions, count: 1, names: Vec::new(), ..(*term).clone() };
                    self.add_unnamed(&pinned, BTreeSet::new());
                }
            }
        }
    }

    /// Lets the clusters that have a value of a condition keep it.
    fn pin_value(&mut self, condition: &PropertyCondition, value: &str) {
        let own = PropertyCondition { values: vec![value.to_owned()], ..condition.clone() };
        for cluster in &mut self.clusters {
            let range = cluster.properties.get(&condition.property);
            let has_it =
                range.is_some_and(|range| range.choose_value().ok().flatten().as_deref() == Some(value));
            if let Some(pinned) = cluster.with_conditions(std::slice::from_ref(&own)).filter(|_| has_it) {
                *cluster = pinned;
            }
        }
    }

    fn values_of(&self, property: &ClusterProperty) -> BTreeSet<String> {
        let ranges = self.clusters.iter().filter_map(|cluster| cluster.properties.get(property));
        ranges.filter_map(|range| range.choose_value().ok().flatten()).collect()
    }

    /// Gives each cluster a label that is read of all clusters.
    fn label_all(&mut self, key: &str) {
        let of = ClusterProperty::Label(key.to_owned());
        let exists =
            PropertyCondition { property: of, operator: ClusterOperator::Exists, values: Vec::new() };
        for cluster in &mut self.clusters {
            if let Some(narrowed) = cluster.with_conditions(std::slice::from_ref(&exists)) {
                *cluster = narrowed;
            }
        }
    }

    /// Names the clusters, and chooses their values.
    fn finish_draft(mut self, given: &[String]) -> DraftedInventory {
        if given.is_empty()
            && self
                .clusters
                .iter()
                .all(|cluster| cluster.name.is_none() && cluster.property_values().is_empty())
        {
            return DraftedInventory { undrafted: self.undrafted, ..DraftedInventory::default() };
        }
        let mut free: Vec<&String> = given.iter().filter(|name| !self.by_name.contains_key(*name)).collect();
        let mut placeholders = Vec::new();
        let mut number = 0_usize;
        for cluster in self.clusters.iter_mut().filter(|cluster| cluster.name.is_none()) {
            let given_name = free.iter().position(|name| !cluster.excluded.contains(*name));
            let name = if let Some(at) = given_name {
                free.remove(at).clone()
            } else {
                let name = loop {
                    number += 1;
                    let name = format!("cluster-{number}");
                    let is_free = !self.by_name.contains_key(&name) && !given.contains(&name);
                    if is_free && !cluster.excluded.contains(&name) {
                        break name;
                    }
                };
                placeholders.push(name.clone());
                name
            };
            cluster.name = Some(name);
        }
        let rest =
            free.into_iter().map(|name| ClusterDraft { name: Some(name.clone()), ..ClusterDraft::default() });
        self.clusters.extend(rest);
        let mut clusters: Vec<ConfiguredCluster> =
            self.clusters.iter().map(ClusterDraft::to_configured).collect();
        clusters.sort_by(|a, b| a.name.cmp(&b.name));
        DraftedInventory { clusters, placeholders, unmet: self.unmet, undrafted: self.undrafted }
    }
}

/// A value for a property about which only its presence matters.
fn invented_value(property: &ClusterProperty, used: &BTreeSet<String>) -> String {
    let word = match property {
        ClusterProperty::Label(_) => "group",
        ClusterProperty::Provider => "provider",
        ClusterProperty::Region => "region",
        ClusterProperty::Zone => "zone",
    };
    let number =
        (1..=used.len() + 1).map(|number| format!("{word}-{number}")).find(|value| !used.contains(value));
    number.unwrap_or_else(|| word.to_owned())
}

impl ClusterDraft {
    /// The cluster with these conditions, too; `None` if it cannot meet them.
    fn with_conditions(&self, conditions: &[PropertyCondition]) -> Option<Self> {
        let mut narrowed = self.clone();
        for condition in conditions {
            let range = narrowed.properties.entry(condition.property.clone()).or_default();
            range.add_condition(condition);
            range.choose_value().ok()?;
        }
        Some(narrowed)
    }

    /// The properties that are set.
    fn property_values(&self) -> BTreeMap<&ClusterProperty, String> {
        let values = self.properties.iter();
        values.filter_map(|(property, range)| Some((property, range.choose_value().ok()??))).collect()
    }

    fn to_configured(&self) -> ConfiguredCluster {
        let mut cluster =
            ConfiguredCluster { name: self.name.clone().unwrap_or_default(), ..Default::default() };
        for (property, value) in self.property_values() {
            match property {
                ClusterProperty::Label(key) => drop(cluster.labels.insert(key.clone(), value)),
                ClusterProperty::Provider => cluster.provider = value,
                ClusterProperty::Region => cluster.region = value,
                ClusterProperty::Zone => cluster.zones = vec![value],
            }
        }
        cluster
    }
}

impl PropertyRange {
    fn add_condition(&mut self, condition: &PropertyCondition) {
        let integer = condition.values.first().and_then(|value| value.parse::<i64>().ok());
        match condition.operator {
            ClusterOperator::In => {
                self.must_be_set = true;
                self.allowed = Some(
                    condition
                        .values
                        .iter()
                        .filter(|value| self.allowed.as_ref().is_none_or(|allowed| allowed.contains(*value)))
                        .cloned()
                        .collect(),
                );
            }
            ClusterOperator::NotIn => self.denied.extend(condition.values.iter().cloned()),
            ClusterOperator::Exists => self.must_be_set = true,
            ClusterOperator::DoesNotExist => self.must_not_be_set = true,
            ClusterOperator::Gt => {
                self.must_be_set = true;
                self.above = self.above.max(integer);
            }
            ClusterOperator::Lt => {
                self.must_be_set = true;
                self.below = [self.below, integer].into_iter().flatten().min();
            }
        }
    }

    fn allows_value(&self, value: &String) -> bool {
        let number = value.parse::<i64>().ok();
        let is_above = self.above.is_none_or(|above| number.is_some_and(|number| number > above));
        let is_below = self.below.is_none_or(|below| number.is_some_and(|number| number < below));
        !self.denied.contains(value) && is_above && is_below
    }

    /// The value, if the property is set.
    fn choose_value(&self) -> Result<Option<String>, Contradiction> {
        if self.must_not_be_set {
            return if self.must_be_set { Err(Contradiction) } else { Ok(None) };
        }
        if !self.must_be_set {
            return Ok(None);
        }
        let value = match &self.allowed {
            Some(allowed) => allowed.iter().find(|value| self.allows_value(value)).cloned(),
            None => self.candidate_values().find(|value| self.allows_value(value)),
        };
        value.map(Some).ok_or(Contradiction)
    }

    /// Values to try for a property of which none is named.
    fn candidate_values(&self) -> Box<dyn Iterator<Item = String> + '_> {
        let tries = i64::try_from(self.denied.len()).unwrap_or(i64::MAX - 1) + 1;
        match (self.above, self.below) {
            (None, None) => {
                let numbered = (1..=tries).map(|number| format!("value-{number}"));
                Box::new(std::iter::once("true".to_owned()).chain(numbered))
            }
            (Some(above), _) => {
                Box::new((1..=tries).filter_map(move |step| Some(above.checked_add(step)?.to_string())))
            }
            (None, Some(below)) => {
                Box::new((1..=tries).filter_map(move |step| Some(below.checked_sub(step)?.to_string())))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn label(key: &str) -> ClusterProperty {
        ClusterProperty::Label(key.to_owned())
    }

    fn condition(of: ClusterProperty, operator: ClusterOperator, values: &[&str]) -> PropertyCondition {
        let values = values.iter().map(|value| (*value).to_owned()).collect();
        PropertyCondition { property: of, operator, values }
    }

    fn term(conditions: &[PropertyCondition]) -> ClusterTerm {
        ClusterTerm { conditions: conditions.to_vec(), ..ClusterTerm::default() }
    }

    fn policy() -> ObjectRef {
        let (api_version, kind) = ("policy.karmada.io/v1alpha1".to_owned(), "PropagationPolicy".to_owned());
        ObjectRef { api_version, kind, namespace: None, name: "web".to_owned() }
    }

    /// The clusters for terms, each of an object of its own.
    fn drafted(terms: &[ClusterTerm]) -> Vec<String> {
        let mut draft = InventoryDraft::default();
        for term in terms {
            draft.add_terms(&policy(), std::slice::from_ref(term));
        }
        draft.add_lookalikes(&terms.iter().collect::<Vec<_>>());
        let drafted = draft.finish_draft(&[]);
        let shown = |cluster: &ConfiguredCluster| {
            let labels = cluster.labels.iter().map(|(key, value)| format!("{key}={value}"));
            let others = [&cluster.provider, &cluster.region].into_iter().chain(&cluster.zones);
            let others = others.filter(|text| !text.is_empty()).cloned();
            let words = std::iter::once(cluster.name.clone()).chain(labels).chain(others);
            words.collect::<Vec<_>>().join(" ")
        };
        drafted.clusters.iter().map(shown).collect()
    }

    #[test]
    fn compatible_terms_share_a_cluster() {
        use ClusterOperator::{DoesNotExist, Exists, In, NotIn};
        let prod = term(&[condition(label("env"), In, &["prod"])]);
        let gpu = term(&[condition(label("gpu"), Exists, &[])]);
        let eu = term(&[condition(ClusterProperty::Region, In, &["eu", "asia"])]);
        let not_dev = term(&[condition(label("env"), NotIn, &["dev"])]);
        assert_eq!(drafted(&[prod.clone(), gpu, eu, not_dev]), ["cluster-1 env=prod gpu=true eu"]);
        let dev = term(&[condition(label("env"), In, &["dev"])]);
        assert_eq!(drafted(&[prod.clone(), dev]), ["cluster-1 env=prod", "cluster-2 env=dev"]);
        let none = term(&[condition(label("env"), DoesNotExist, &[]), condition(label("a"), In, &["b"])]);
        assert_eq!(drafted(&[prod, none]), ["cluster-1 env=prod", "cluster-2 a=b"]);
    }

    #[test]
    fn a_later_term_narrows_the_values_of_an_earlier_one() {
        use ClusterOperator::In;
        let both = term(&[condition(label("env"), In, &["dev", "prod"])]);
        let prod = term(&[condition(label("env"), In, &["prod"])]);
        assert_eq!(drafted(&[both, prod]), ["cluster-1 env=prod"]);
    }

    #[test]
    fn numbers_are_compared() {
        use ClusterOperator::{Gt, Lt, NotIn};
        let between = [condition(label("n"), Gt, &["3"]), condition(label("n"), Lt, &["6"])];
        assert_eq!(drafted(&[term(&between)]), ["cluster-1 n=4"]);
        let [above, below] = between;
        let not_four = condition(label("n"), NotIn, &["4"]);
        assert_eq!(drafted(&[term(&[above, below, not_four])]), ["cluster-1 n=5"]);
    }

    #[test]
    fn named_clusters_get_the_properties_and_spread() {
        use ClusterOperator::In;
        let named = ClusterTerm {
            names: vec!["paris".to_owned(), "lyon".to_owned()],
            distinct: vec![(ClusterProperty::Region, 2)],
            ..term(&[condition(label("env"), In, &["prod"])])
        };
        assert_eq!(drafted(&[named]), ["lyon env=prod region-2", "paris env=prod region-1"]);
        let spread = ClusterTerm {
            count: 2,
            distinct: vec![(ClusterProperty::Region, 2)],
            ..term(&[condition(ClusterProperty::Region, In, &["eu", "us", "asia"])])
        };
        assert_eq!(drafted(&[spread]), ["cluster-1 eu", "cluster-2 us"]);
    }

    #[test]
    fn a_fallback_means_other_clusters() {
        use ClusterOperator::In;
        let home = term(&[condition(label("tier"), In, &["gold"])]);
        let away = ClusterTerm { fallback: true, ..term(&[condition(label("spare"), In, &["yes"])]) };
        let mut draft = InventoryDraft::default();
        draft.add_terms(&policy(), &[home, away]);
        assert_eq!(draft.clusters.len(), 2);
    }

    #[test]
    fn values_that_look_alike_all_exist() {
        use ClusterOperator::In;
        let regions = term(&[condition(ClusterProperty::Region, In, &["eu-west-1", "eu-west-2", "mars"])]);
        assert_eq!(drafted(&[regions]), ["cluster-1 eu-west-1", "cluster-2 eu-west-2"]);
    }

    #[test]
    fn nothing_is_invented() {
        assert_eq!(drafted(&[ClusterTerm::default()]), Vec::<String>::new());
        let contradiction = [
            condition(label("a"), ClusterOperator::In, &["b"]),
            condition(label("a"), ClusterOperator::DoesNotExist, &[]),
        ];
        assert_eq!(drafted(&[term(&contradiction)]), Vec::<String>::new());
    }
}
