//! Cluster selector terms: which parts they may have, and whether a cluster could ever match.

use std::collections::BTreeMap;

use super::super::version::{Behaviour, Contradictions};
use super::Refusals;
use super::property::{Bounds, invalid_name};
use federate_kubernetes::quantity::Quantity;
use federate_kubernetes::schema::Cursor;

/// What a property can be required to be.
const OPERATORS: [&str; 6] = ["Gt", "Ge", "Lt", "Le", "Eq", "Ne"];

/// Required and preferred affinity.
pub(super) fn affinity(refusals: &mut Refusals<'_>, affinity: &Cursor<'_>, behaviour: &Behaviour) {
    let required = affinity.field("requiredDuringSchedulingIgnoredDuringExecution");
    for term in required.field("clusterSelectorTerms").items() {
        refusals.label_selector(&term.field("labelSelector"));
        let sorter = term.field("propertySorter");
        if sorter.present() {
            let help = "move it into a preferred term";
            refusals.add(&sorter, "a required term has no `propertySorter`", help);
        }
        let list = term.field("propertySelector").field("matchExpressions");
        requirements(refusals, &list, behaviour.contradictions);
    }
    for preferred in affinity.field("preferredDuringSchedulingIgnoredDuringExecution").items() {
        let preference = preferred.field("preference");
        refusals.label_selector(&preference.field("labelSelector"));
        let selector = preference.field("propertySelector");
        if selector.present() {
            let help = "move it into a required term, or use a `propertySorter`";
            refusals.add(&selector, "a preferred term has no `propertySelector`", help);
        }
        let sorter = preference.field("propertySorter");
        if sorter.present() {
            property_name(refusals, &sorter.field("name"));
        }
    }
}

fn property_name(refusals: &mut Refusals<'_>, name: &Cursor<'_>) {
    if let Some(why) = invalid_name(name.text()) {
        let help = "e.g. `kubernetes-fleet.io/node-count` or `resources.kubernetes-fleet.io/total-cpu`";
        refusals.add(name, why, help);
    }
}

/// The requirements of one property selector, which must all hold.
fn requirements(refusals: &mut Refusals<'_>, list: &Cursor<'_>, contradictions: Contradictions) {
    let mut bounds: BTreeMap<&str, Bounds> = BTreeMap::new();
    for requirement in list.items() {
        let [name, operator, values] = ["name", "operator", "values"].map(|key| requirement.field(key));
        property_name(refusals, &name);
        let known = OPERATORS.contains(&operator.text());
        if !known {
            let message = format!("there is no operator `{}` for properties", operator.text());
            refusals.add(&operator, message, "use Gt, Ge, Lt, Le, Eq or Ne");
        }
        let Some(value) = one_quantity(refusals, &values) else { continue };
        if contradictions == Contradictions::Refused
            && known
            && !bounds.entry(name.text()).or_default().narrow(operator.text(), value)
        {
            let message = format!("the requirements on `{}` contradict each other", name.text());
            refusals.add(&requirement, message, "remove one, or make them alternatives: two terms");
        }
    }
}

fn one_quantity(refusals: &mut Refusals<'_>, values: &Cursor<'_>) -> Option<Quantity> {
    let all: Vec<Cursor<'_>> = values.items().collect();
    let [value] = all.as_slice() else {
        let help = "give one value, or write a term for each";
        refusals.add(values, "a property requirement has exactly one value", help);
        return None;
    };
    let quantity = Quantity::parse(value.text());
    if quantity.is_none() {
        let message = format!("`{}` is no quantity", value.text());
        refusals.add(value, message, "write it like `500m`, `2` or `16Gi`");
    }
    quantity
}
