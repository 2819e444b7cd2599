//! Objects that several documents define.

use rayon::prelude::*;

use federate_kubernetes::{Finding, Object, ObjectRef, Origin};

/// An object that several documents define. The first one, in the order of files, stands for it.
#[derive(Clone, Debug)]
pub struct Duplicate {
    /// The identity of the first definition.
    pub id: ObjectRef,
    /// The place of the first definition.
    pub origin: Origin,
    /// The places of the others.
    pub others: Vec<Origin>,
    /// The definitions that differ from the first one; empty if all are equal.
    pub different: Vec<Object>,
    /// Whether a definition looks like a patch of another one.
    pub is_patch: bool,
}

impl Duplicate {
    /// The error about definitions of which only one can be meant.
    pub fn to_finding(&self) -> Finding {
        let mut places: Vec<&Origin> = vec![&self.origin];
        places.extend(&self.others);
        let second = self.different.first().map_or_else(|| self.others.first(), |one| Some(&one.origin));
        let message = match (places.as_slice(), second) {
            ([first, _], Some(second)) => format!("{} is defined twice: in {first} and in {second}", self.id),
            (_, Some(second)) => format!(
                "{} is defined {} times, differently: in {} and in {second}, among others",
                self.id,
                places.len(),
                self.origin
            ),
            _ => format!("{} is defined twice: in {}", self.id, self.origin),
        };
        let mut object =
            Object::with_identity(self.id.clone(), serde_json::Value::Null, self.origin.file.clone());
        object.origin = second.unwrap_or(&self.origin).clone();
        Finding::error("duplicate-object", &object, message).with_help(self.suggest_remedy())
    }

    /// What to do about definitions of which only one can be meant.
    fn suggest_remedy(&self) -> String {
        if self.is_patch {
            return "one of the two looks like a patch: list it in the kustomization that it is for, or in \
                    .federateignore"
                .to_owned();
        }
        let other = self.different.first().map(|one| &one.origin).or_else(|| self.others.first());
        let folders = other.and_then(|other| differing_folders(&self.origin.file, &other.file));
        match folders {
            Some((first, second)) => format!(
                "remove one of the two; if {first} and {second} are environments, name one of them (`--path {first}`), \
                 or list the others in .federateignore"
            ),
            None => "remove one of the two".to_owned(),
        }
    }
}

/// The folders in which two files differ: their paths up to the first part that is not the same. `None` for files of one
/// folder.
pub fn differing_folders<'p>(first: &'p str, second: &'p str) -> Option<(&'p str, &'p str)> {
    let same = first.split('/').zip(second.split('/')).take_while(|(a, b)| a == b);
    let start: usize = same.map(|(part, _)| part.len() + 1).sum();
    let [first, second] = [first, second].map(|path| path.get(..start + path.get(start..)?.find('/')?));
    first.zip(second)
}

/// Keeps the first of several definitions of an object, and returns the duplicates. `differ` compares two definitions.
pub(crate) fn separate_duplicates<T: Send>(
    mut items: Vec<T>,
    object: impl Fn(&T) -> &Object + Sync,
    differ: impl Fn(&T, &T) -> bool,
) -> (Vec<T>, Vec<Duplicate>) {
    items.par_sort_unstable_by(|a, b| {
        let (a, b) = (object(a), object(b));
        a.id.unversioned().cmp(&b.id.unversioned()).then_with(|| a.origin.cmp(&b.origin))
    });
    let mut duplicates: Vec<Duplicate> = Vec::new();
    items.dedup_by(|item, first| {
        let (other, kept) = (object(item), object(first));
        if other.id.unversioned() != kept.id.unversioned() {
            return false;
        }
        if duplicates.last().is_none_or(|last| last.id != kept.id) {
            duplicates.push(Duplicate {
                id: kept.id.clone(),
                origin: kept.origin.clone(),
                others: Vec::new(),
                different: Vec::new(),
                is_patch: false,
            });
        }
        if let Some(duplicate) = duplicates.last_mut() {
            duplicate.others.push(other.origin.clone());
            if differ(item, first) {
                duplicate.is_patch |= is_partial(other) != is_partial(kept);
                duplicate.different.push(other.clone());
            }
        }
        true
    });
    (items, duplicates)
}

/// Whether two definitions of an object differ.
pub(crate) fn objects_differ(a: &Object, b: &Object) -> bool {
    a.id != b.id || a.body != b.body
}

/// Whether an object lacks what an API server requires of its kind, as a patch does.
fn is_partial(object: &Object) -> bool {
    let required: &[&str] = match (object.id.group(), object.id.kind.as_str()) {
        ("apps", "Deployment" | "StatefulSet" | "DaemonSet" | "ReplicaSet") => &["selector", "template"],
        ("batch", "Job") => &["template"],
        ("batch", "CronJob") => &["jobTemplate", "schedule"],
        ("", "Service") => &["ports"],
        _ => &[],
    };
    required.iter().any(|field| object.value_at(&["spec", *field]).is_none())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn map(file: &str, value: &str) -> Object {
        Object::from_manifest(
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "b"}, "data": {"k": value}}),
            file,
        )
    }

    #[test]
    fn equal_definitions_are_told_apart_from_different_ones() {
        let objects = vec![map("c.yaml", "1"), map("b.yaml", "2"), map("a.yaml", "1")];
        let (kept, duplicates) = separate_duplicates(objects, |o| o, objects_differ);
        assert_eq!(kept.iter().map(|o| &*o.origin.file).collect::<Vec<_>>(), ["a.yaml"]);
        let [duplicate] = duplicates.as_slice() else { panic!("{duplicates:?}") };
        let files: Vec<&str> = duplicate.others.iter().map(|origin| &*origin.file).collect();
        assert_eq!(files, ["b.yaml", "c.yaml"]);
        assert_eq!(duplicate.different.len(), 1);
        let error = duplicate.to_finding();
        assert_eq!(
            error.message,
            "ConfigMap b/a is defined 3 times, differently: in a.yaml and in b.yaml, among others"
        );
    }

    #[test]
    fn folders_are_those_in_which_paths_differ() {
        for (first, second, expected) in [
            ("envs/dev/app/a.yaml", "envs/prod/app/a.yaml", Some(("envs/dev", "envs/prod"))),
            ("a.yaml", "b.yaml", None),
            ("x/a.yaml", "x/b.yaml", None),
            ("x/a.yaml", "out.yaml", None),
            ("x/a.yaml", "y/a.yaml", Some(("x", "y"))),
            ("x/a.yaml", "x/a.yaml", None),
        ] {
            assert_eq!(differing_folders(first, second), expected, "{first} {second}");
        }
    }
}
