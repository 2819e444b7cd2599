//! The rules of `Cluster` beyond its schema.

use std::collections::BTreeSet;

use super::Refusals;
use federate_kubernetes::schema::Cursor;

pub(super) fn check_cluster(refusals: &mut Refusals<'_>, spec: &Cursor<'_>) {
    for field in ["provider", "region", "zone"] {
        refusals.label_value(&spec.field(field));
    }
    for zone in spec.field("zones").items() {
        refusals.label_value(&zone);
    }
    let mut taints = BTreeSet::new();
    for taint in spec.field("taints").items() {
        let (key, effect) = (taint.field("key"), taint.field("effect"));
        refusals.label_key(&key);
        refusals.label_value(&taint.field("value"));
        if !taints.insert((key.as_text(), effect.as_text())) {
            let message =
                format!("there are two taints `{}` with effect `{}`", key.as_text(), effect.as_text());
            refusals.add_error(&taint, message, "remove one of them");
        }
    }
}
