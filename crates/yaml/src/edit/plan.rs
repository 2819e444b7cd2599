//! The edits of one document, arranged as a tree: which values are removed or set, and the resulting
//! document.

use super::error::Error;
use serde_json::{Map, Value};

/// The edits of a value.
#[derive(Clone, Debug)]
pub(super) enum EditPlan {
    /// The value is removed.
    Remove,
    /// The value is set, whether it existed or not.
    Set(Value),
    /// Values inside it are edited, by key or index, in the order of the edits.
    Within(Vec<(String, EditPlan)>),
}

impl EditPlan {
    /// No edit.
    pub(super) fn no_change() -> Self {
        Self::Within(Vec::new())
    }

    /// Adds an edit at a pointer (`None` removes); the last edit of a value takes effect.
    pub(super) fn add_edit(&mut self, steps: &[String], value: Option<&Value>) {
        let Some((step, rest)) = steps.split_first() else {
            *self = value.map_or(Self::Remove, |value| Self::Set(value.clone()));
            return;
        };
        match self {
            Self::Within(changes) => {
                if let Some((_, plan)) = changes.iter_mut().rev().find(|(key, _)| key == step) {
                    return plan.add_edit(rest, value);
                }
                let mut plan = Self::no_change();
                plan.add_edit(rest, value);
                changes.push((step.clone(), plan));
            }
            Self::Remove if value.is_none() => {}
            Self::Remove | Self::Set(_) => {
                let mut within = Self::no_change();
                within.add_edit(steps, value);
                let before = if let Self::Set(value) = self { value.clone() } else { Value::Null };
                if let Ok(Some(after)) = within.apply_to(Some(&before), "") {
                    *self = Self::Set(after);
                }
            }
        }
    }

    /// The resulting value; `None` if there is none.
    pub(super) fn apply_to(&self, before: Option<&Value>, pointer: &str) -> Result<Option<Value>, Error> {
        let changes = match self {
            Self::Remove => return Ok(None),
            Self::Set(value) => return Ok(Some(value.clone())),
            Self::Within(changes) => changes,
        };
        match before {
            Some(Value::Array(items)) => apply_to_list(items, changes, pointer).map(Some),
            Some(Value::Object(map)) => apply_to_mapping(map.clone(), changes, pointer).map(Some),
            None | Some(Value::Null) => {
                let map = apply_to_mapping(Map::new(), changes, pointer)?;
                let empty = map.as_object().is_some_and(Map::is_empty);
                Ok(if empty { before.cloned() } else { Some(map) })
            }
            // A scalar has no children, so there is nothing to remove and nothing can be set.
            Some(scalar) if changes.iter().all(|(_, plan)| !plan.sets_value()) => Ok(Some(scalar.clone())),
            Some(_) => Err(Error::NoRoom(pointer.to_owned())),
        }
    }

    fn sets_value(&self) -> bool {
        match self {
            Self::Remove => false,
            Self::Set(_) => true,
            Self::Within(changes) => changes.iter().any(|(_, plan)| plan.sets_value()),
        }
    }
}

fn apply_to_mapping(
    mut map: Map<String, Value>,
    changes: &[(String, EditPlan)],
    pointer: &str,
) -> Result<Value, Error> {
    for (key, plan) in changes {
        let pointer = format!("{pointer}/{}", crate::pointer::escape(key));
        match plan.apply_to(map.get(key), &pointer)? {
            Some(value) => {
                map.insert(key.clone(), value);
            }
            None => {
                map.shift_remove(key);
            }
        }
    }
    Ok(Value::Object(map))
}

fn apply_to_list(items: &[Value], changes: &[(String, EditPlan)], pointer: &str) -> Result<Value, Error> {
    let mut after: Vec<Option<Value>> = items.iter().cloned().map(Some).collect();
    for (step, plan) in changes {
        let pointer = format!("{pointer}/{step}");
        let item = step.parse::<usize>().ok().and_then(|index| after.get_mut(index));
        match item {
            Some(item) => *item = plan.apply_to(item.as_ref(), &pointer)?,
            None if plan.sets_value() => return Err(Error::NoRoom(pointer)),
            None => {}
        }
    }
    Ok(Value::Array(after.into_iter().flatten().collect()))
}
