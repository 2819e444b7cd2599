//! Cluster selector terms: which parts they may have, and whether a cluster could ever match.

use std::collections::BTreeMap;

use super::super::version::{Contradictions, KubeFleetBehaviour, UnknownOperators};
use super::Refusals;
use super::property::{Bounds, invalid_name};
use crate::capacity::NODE_COUNT;
use federate_kubernetes::Finding;
use federate_kubernetes::quantity::Quantity;
use federate_kubernetes::schema::{Cursor, find_nearest};

/// The operators of property requirements.
const OPERATORS: [&str; 6] = ["Gt", "Ge", "Lt", "Le", "Eq", "Ne"];

/// Required and preferred affinity.
pub(super) fn check_affinity(
    refusals: &mut Refusals<'_>,
    affinity: &Cursor<'_>,
    behaviour: &KubeFleetBehaviour,
) {
    let required = affinity.field("requiredDuringSchedulingIgnoredDuringExecution");
    for term in required.field("clusterSelectorTerms").items() {
        refusals.label_selector(&term.field("labelSelector"));
        let sorter = term.field("propertySorter");
        if sorter.is_present() {
            let help = "move it into a preferred term";
            refusals.add_error(&sorter, "a required term must not have a `propertySorter`", help);
        }
        let list = term.field("propertySelector").field("matchExpressions");
        check_requirements(refusals, &list, behaviour);
    }
    for preferred in affinity.field("preferredDuringSchedulingIgnoredDuringExecution").items() {
        let preference = preferred.field("preference");
        refusals.label_selector(&preference.field("labelSelector"));
        let selector = preference.field("propertySelector");
        if selector.is_present() {
            let help = "move it into a required term, or use a `propertySorter`";
            refusals.add_error(&selector, "a preferred term must not have a `propertySelector`", help);
        }
        let sorter = preference.field("propertySorter");
        if sorter.is_present() {
            check_property_name(refusals, &sorter.field("name"));
        }
    }
}

fn check_property_name(refusals: &mut Refusals<'_>, name: &Cursor<'_>) {
    if let Some(why) = invalid_name(name.as_text()) {
        let help = "e.g. `kubernetes-fleet.io/node-count` or `resources.kubernetes-fleet.io/total-cpu`";
        refusals.add_error(name, why, help);
    } else if let Some(near) =
        find_nearest(name.as_text(), &PROPERTIES).filter(|near| *near != name.as_text())
    {
        let message = format!("no property provider reports `{}`", name.as_text());
        let finding = Finding::warning("no-effect", refusals.object, message).with_pointer(name.pointer());
        refusals.findings.push(finding.with_help(format!("did you mean `{near}`?")));
    }
}

/// The properties that the providers of KubeFleet and of Azure report, other than resources.
const PROPERTIES: [&str; 3] =
    [NODE_COUNT, "kubernetes.azure.com/per-cpu-core-cost", "kubernetes.azure.com/per-gb-memory-cost"];

/// The requirements of one property selector, all of which must hold.
fn check_requirements(refusals: &mut Refusals<'_>, list: &Cursor<'_>, behaviour: &KubeFleetBehaviour) {
    let mut bounds: BTreeMap<&str, Bounds> = BTreeMap::new();
    for requirement in list.items() {
        let [name, operator, values] = ["name", "operator", "values"].map(|key| requirement.field(key));
        check_property_name(refusals, &name);
        let known = OPERATORS.contains(&operator.as_text());
        if !known {
            let message = format!("`{}` is not an operator for properties", operator.as_text());
            let help = "use Gt, Ge, Lt, Le, Eq or Ne";
            match behaviour.unknown_operators {
                UnknownOperators::Refused => refusals.add_error(&operator, message, help),
                UnknownOperators::Admitted => {
                    let message =
                        format!("{message}: scheduling fails at the first cluster with these labels");
                    let finding = Finding::warning("no-effect", refusals.object, message);
                    refusals.findings.push(finding.with_pointer(operator.pointer()).with_help(help));
                    continue;
                }
            }
        }
        let Some(value) = read_quantity(refusals, &values) else { continue };
        if behaviour.contradictions == Contradictions::Refused
            && known
            && !bounds.entry(name.as_text()).or_default().add_requirement(operator.as_text(), value)
        {
            let message = format!("the requirements on `{}` contradict each other", name.as_text());
            refusals.add_error(
                &requirement,
                message,
                "remove one, or write two terms, which are alternatives",
            );
        }
    }
}

fn read_quantity(refusals: &mut Refusals<'_>, values: &Cursor<'_>) -> Option<Quantity> {
    let all: Vec<Cursor<'_>> = values.items().collect();
    let [value] = all.as_slice() else {
        let help = "use one value, or write one term per value";
        refusals.add_error(values, "a property requirement must have exactly one value", help);
        return None;
    };
    let quantity = Quantity::parse(value.as_text());
    if quantity.is_none() {
        let message = format!("`{}` is not a quantity", value.as_text());
        refusals.add_error(value, message, "write it like `500m`, `2` or `16Gi`");
    }
    quantity
}
