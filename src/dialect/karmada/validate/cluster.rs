//! The rules of `Cluster` beyond its schema.

use std::collections::BTreeSet;

use super::{Refusals, label_key};
use crate::k8s::schema::Cursor;
use crate::k8s::selector::invalid_value;

pub(super) fn rules(refusals: &mut Refusals<'_>, spec: &Cursor<'_>) {
    for field in ["provider", "region", "zone"] {
        label_value(refusals, &spec.field(field));
    }
    for zone in spec.field("zones").items() {
        label_value(refusals, &zone);
    }
    let mut taints = BTreeSet::new();
    for taint in spec.field("taints").items() {
        let (key, effect) = (taint.field("key"), taint.field("effect"));
        label_key(refusals, &key);
        label_value(refusals, &taint.field("value"));
        if !taints.insert((key.text(), effect.text())) {
            let message = format!("there are two taints `{}` with effect `{}`", key.text(), effect.text());
            refusals.add(&taint, message, "remove one of them");
        }
    }
}

fn label_value(refusals: &mut Refusals<'_>, at: &Cursor<'_>) {
    if let Some(why) = invalid_value(at.text()) {
        refusals.add(at, why, "choose a name that can be the value of a label");
    }
}
