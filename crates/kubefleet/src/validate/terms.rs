//! Cluster selector terms: which parts they may have, and whether a cluster could ever match.

use std::collections::BTreeMap;

use super::super::version::{Behaviour, Contradictions, UnknownOperators};
use super::Refusals;
use super::property::{Bounds, invalid_name};
use crate::capacity::NODE_COUNT;
use federate_kubernetes::Finding;
use federate_kubernetes::quantity::Quantity;
use federate_kubernetes::schema::{Cursor, nearest};

/// The operators of property requirements.
const OPERATORS: [&str; 6] = ["Gt", "Ge", "Lt", "Le", "Eq", "Ne"];

/// Required and preferred affinity.
pub(super) fn affinity(refusals: &mut Refusals<'_>, affinity: &Cursor<'_>, behaviour: &Behaviour) {
    let required = affinity.field("requiredDuringSchedulingIgnoredDuringExecution");
    for term in required.field("clusterSelectorTerms").items() {
        refusals.label_selector(&term.field("labelSelector"));
        let sorter = term.field("propertySorter");
        if sorter.present() {
            let help = "move it into a preferred term";
            refusals.add(&sorter, "a required term must not have a `propertySorter`", help);
        }
        let list = term.field("propertySelector").field("matchExpressions");
        requirements(refusals, &list, behaviour);
    }
    for preferred in affinity.field("preferredDuringSchedulingIgnoredDuringExecution").items() {
        let preference = preferred.field("preference");
        refusals.label_selector(&preference.field("labelSelector"));
        let selector = preference.field("propertySelector");
        if selector.present() {
            let help = "move it into a required term, or use a `propertySorter`";
            refusals.add(&selector, "a preferred term must not have a `propertySelector`", help);
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
    } else if let Some(near) = nearest(name.text(), &PROPERTIES).filter(|near| *near != name.text()) {
        let message = format!("no property provider reports `{}`", name.text());
        let finding = Finding::warning("no-effect", refusals.object, message).at(name.pointer());
        refusals.findings.push(finding.help(format!("did you mean `{near}`?")));
    }
}

/// The properties that the providers of KubeFleet and of Azure report, other than resources.
const PROPERTIES: [&str; 3] =
    [NODE_COUNT, "kubernetes.azure.com/per-cpu-core-cost", "kubernetes.azure.com/per-gb-memory-cost"];

/// The requirements of one property selector, all of which must hold.
fn requirements(refusals: &mut Refusals<'_>, list: &Cursor<'_>, behaviour: &Behaviour) {
    let mut bounds: BTreeMap<&str, Bounds> = BTreeMap::new();
    for requirement in list.items() {
        let [name, operator, values] = ["name", "operator", "values"].map(|key| requirement.field(key));
        property_name(refusals, &name);
        let known = OPERATORS.contains(&operator.text());
        if !known {
            let message = format!("`{}` is not an operator for properties", operator.text());
            let help = "use Gt, Ge, Lt, Le, Eq or Ne";
            match behaviour.unknown_operators {
                UnknownOperators::Refused => refusals.add(&operator, message, help),
                UnknownOperators::Admitted => {
                    let message =
                        format!("{message}: scheduling fails at the first cluster with these labels");
                    let finding = Finding::warning("no-effect", refusals.object, message);
                    refusals.findings.push(finding.at(operator.pointer()).help(help));
                    continue;
                }
            }
        }
        let Some(value) = one_quantity(refusals, &values) else { continue };
        if behaviour.contradictions == Contradictions::Refused
            && known
            && !bounds.entry(name.text()).or_default().narrow(operator.text(), value)
        {
            let message = format!("the requirements on `{}` contradict each other", name.text());
            refusals.add(&requirement, message, "remove one, or write two terms, which are alternatives");
        }
    }
}

fn one_quantity(refusals: &mut Refusals<'_>, values: &Cursor<'_>) -> Option<Quantity> {
    let all: Vec<Cursor<'_>> = values.items().collect();
    let [value] = all.as_slice() else {
        let help = "use one value, or write one term per value";
        refusals.add(values, "a property requirement must have exactly one value", help);
        return None;
    };
    let quantity = Quantity::parse(value.text());
    if quantity.is_none() {
        let message = format!("`{}` is not a quantity", value.text());
        refusals.add(value, message, "write it like `500m`, `2` or `16Gi`");
    }
    quantity
}
