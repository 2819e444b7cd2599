//! Parses events in the notation of the command line.

use super::{ClusterMatcher, NewCapacity, ReplicaChange, ScenarioEvent, WorkloadRef};
use federate_dialect::Dialects;
use federate_kubernetes::Taint;
use federate_kubernetes::quantity::Quantity;
use federate_kubernetes::selector::{self, LabelSelector};

impl ClusterMatcher {
    /// Parses a cluster name, or a selector in the notation of `kubectl -l`.
    ///
    /// # Errors
    ///
    /// The reason why the selector is invalid.
    pub fn parse(text: &str) -> Result<Self, String> {
        if !text.contains(['=', '!', ' ', ',']) {
            return Ok(Self::Named(text.to_owned()));
        }
        Ok(Self::Matching(LabelSelector::parse(text)?, text.to_owned()))
    }
}

impl ScenarioEvent {
    /// Parses `CLUSTER=KEY[=VALUE]:EFFECT` with an effect of one of the dialects.
    ///
    /// # Errors
    ///
    /// The reason why the text is invalid.
    pub fn parse_taint(text: &str, dialects: Dialects) -> Result<Self, String> {
        let (selection, taint) = split_target(text, "KEY[=VALUE]:EFFECT")?;
        let effects = dialects.taint_effects();
        match parse_taint(taint, &effects).filter(|taint| !taint.effect.is_empty()) {
            Some(taint) => Ok(Self::Taint(selection, taint)),
            None => {
                Err(format!("`{text}` is not CLUSTER=KEY[=VALUE]:EFFECT with one of {}", effects.join(", ")))
            }
        }
    }

    /// Parses `CLUSTER=KEY[:EFFECT]` with an effect of one of the dialects.
    ///
    /// # Errors
    ///
    /// The reason why the text is invalid.
    pub fn parse_untaint(text: &str, dialects: Dialects) -> Result<Self, String> {
        let (selection, taint) = split_target(text, "KEY[:EFFECT]")?;
        let taint = parse_taint(taint, &dialects.taint_effects());
        let taint = taint.ok_or_else(|| format!("`{text}` is not CLUSTER=KEY[:EFFECT]"))?;
        Ok(Self::Untaint(selection, taint))
    }

    /// Parses `CLUSTER=KEY=VALUE`.
    ///
    /// # Errors
    ///
    /// The reason why the text is invalid.
    pub fn parse_label(text: &str) -> Result<Self, String> {
        let (selection, label) = split_target(text, "KEY=VALUE")?;
        let (key, value) =
            label.split_once('=').ok_or_else(|| format!("`{text}` is not CLUSTER=KEY=VALUE"))?;
        match selector::invalid_key(key).or_else(|| selector::invalid_value(value)) {
            Some(why) => Err(why),
            None => Ok(Self::Label(selection, key.to_owned(), value.to_owned())),
        }
    }

    /// Parses `CLUSTER=50%` or `CLUSTER=cpu=64,memory=256Gi`.
    ///
    /// # Errors
    ///
    /// The reason why the text is invalid.
    pub fn parse_capacity(text: &str) -> Result<Self, String> {
        let (selection, size) = split_target(text, "50%")?;
        if let Some(percent) = size.strip_suffix('%').and_then(|n| n.parse().ok()).filter(|n: &i64| *n >= 0) {
            return Ok(Self::Capacity(selection, NewCapacity::Percent(percent)));
        }
        let resources: Option<_> = size
            .split(',')
            .map(|part| {
                let (name, amount) = part.split_once('=')?;
                Some((name.trim().to_owned(), Quantity::parse(amount.trim())?))
            })
            .collect();
        match resources {
            Some(resources) => Ok(Self::Capacity(selection, NewCapacity::Resources(resources))),
            None => Err(format!("`{text}` is neither CLUSTER=50% nor CLUSTER=cpu=64,memory=256Gi")),
        }
    }

    /// Parses `KIND/NAMESPACE/NAME=N`, `…=+N`, `…=-N`, `…=+50%` or `…=-50%`.
    ///
    /// # Errors
    ///
    /// The reason why the text is invalid.
    pub fn parse_scale(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` is not KIND/NAMESPACE/NAME=N, such as deployment/shop/web=+50%");
        let (object, amount) = text.split_once('=').ok_or_else(wrong)?;
        let parts: Vec<&str> = object.split('/').collect();
        let (kind, namespace, name) = match *parts.as_slice() {
            [kind, namespace, name] => (kind, Some(namespace.to_owned()), name),
            [kind, name] => (kind, None, name),
            _ => return Err(wrong()),
        };
        let workload = WorkloadRef { kind: kind.to_owned(), namespace, name: name.to_owned() };
        Ok(Self::Scale(workload, parse_amount(amount).ok_or_else(wrong)?))
    }
}

/// Splits a cluster's name, or a selector in parentheses, from the value after its `=`. `value` is the notation of
/// the value, for errors.
fn split_target<'t>(text: &'t str, value: &str) -> Result<(ClusterMatcher, &'t str), String> {
    let wrong = || format!("`{text}` is not CLUSTER={value}, or (SELECTOR)={value}");
    if let Some(rest) = text.strip_prefix('(') {
        let (selector, rest) = rest.split_once(")=").ok_or_else(wrong)?;
        return Ok((ClusterMatcher::Matching(LabelSelector::parse(selector)?, selector.to_owned()), rest));
    }
    let (name, rest) = text.split_once('=').ok_or_else(wrong)?;
    Ok((ClusterMatcher::Named(name.to_owned()), rest))
}

/// Parses `KEY[=VALUE][:EFFECT]`. `None` if the key or the effect is invalid.
fn parse_taint(text: &str, effects: &[&str]) -> Option<Taint> {
    let (taint, effect) = text.rsplit_once(':').unwrap_or((text, ""));
    let (key, value) = taint.split_once('=').unwrap_or((taint, ""));
    let valid = selector::invalid_key(key).is_none() && (effect.is_empty() || effects.contains(&effect));
    valid.then(|| Taint { key: key.to_owned(), value: value.to_owned(), effect: effect.to_owned() })
}

fn parse_amount(text: &str) -> Option<ReplicaChange> {
    let signed = text.starts_with(['+', '-']);
    match text.strip_suffix('%') {
        Some(percent) if signed => percent.parse().ok().map(ReplicaChange::Percent),
        Some(_) => None,
        None if signed => text.parse().ok().map(ReplicaChange::More),
        None => text.parse().ok().filter(|n| *n >= 0).map(ReplicaChange::Exactly),
    }
}
