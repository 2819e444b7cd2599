//! Which object of the old side is which of the new side.

use std::collections::BTreeMap;

use federate_dialect::Plan;
use federate_kubernetes::ObjectRef;

use crate::{MigratedObject, Migration, UnequalRule};

/// The identity of an object in a member, whatever its version.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct MemberKey {
    group: String,
    kind: String,
    namespace: Option<String>,
    name: String,
}

impl MemberKey {
    fn new(object: &ObjectRef) -> Self {
        Self {
            group: object.group().to_owned(),
            kind: object.kind.clone(),
            namespace: object.namespace.clone(),
            name: object.name.clone(),
        }
    }
}

/// An object of both sides, or of one.
#[derive(Clone, Debug)]
pub(crate) struct ObjectPair<'m> {
    /// What the migration says about it.
    pub(crate) migrated: Option<&'m MigratedObject>,
    /// In the plan of the old side, or as the migration names it.
    pub(crate) old: Option<ObjectRef>,
    /// In the plan of the new side, or as the migration names it.
    pub(crate) new: Option<ObjectRef>,
    /// Its old name, or the new one if only the new side has it.
    name: ObjectRef,
    key: MemberKey,
}

impl ObjectPair<'_> {
    /// Its old name, or the new one if only the new side has it.
    pub(crate) fn object(&self) -> &ObjectRef {
        &self.name
    }

    /// The rules about it that the new control plane does not have.
    pub(crate) fn unequal_rules(&self) -> &[UnequalRule] {
        self.migrated.map(|migrated| migrated.unequal.as_slice()).unwrap_or_default()
    }

    /// Its new name, if that is another one.
    pub(crate) fn find_renamed(&self) -> Option<ObjectRef> {
        let new = self.new.clone()?;
        (MemberKey::new(&new) != MemberKey::new(self.object())).then_some(new)
    }
}

/// The objects of a plan by their identity in members.
fn index_objects(plan: &Plan) -> BTreeMap<MemberKey, ObjectRef> {
    plan.placements.iter().map(|row| (MemberKey::new(&row.object), row.object.clone())).collect()
}

/// All objects of both sides.
pub(crate) struct ObjectPairs<'m> {
    /// Sorted by the old name.
    pairs: Vec<ObjectPair<'m>>,
    by_old: BTreeMap<ObjectRef, usize>,
    by_new: BTreeMap<ObjectRef, usize>,
}

impl<'m> ObjectPairs<'m> {
    /// Pairs the objects of the plans of both sides.
    pub(crate) fn new(migration: &'m Migration, [old, new]: [&Plan; 2]) -> Self {
        let (mut of_old, mut of_new) = (index_objects(old), index_objects(new));
        let mut pairs: Vec<ObjectPair<'m>> = Vec::new();
        for migrated in &migration.objects {
            let key = MemberKey::new(&migrated.old);
            let old = of_old.remove(&key);
            let new = migrated.new.as_ref().and_then(|new| of_new.remove(&MemberKey::new(new)));
            let new = new.or_else(|| of_new.remove(&key));
            let name = migrated.old.clone();
            pairs.push(ObjectPair { migrated: Some(migrated), old, new, name, key });
        }
        pairs.extend(of_old.into_iter().map(|(key, object)| {
            let new = of_new.remove(&key);
            ObjectPair { migrated: None, old: Some(object.clone()), new, name: object, key }
        }));
        pairs.extend(of_new.into_iter().map(|(key, object)| ObjectPair {
            migrated: None,
            old: None,
            new: Some(object.clone()),
            name: object,
            key,
        }));
        pairs.sort_by(|a, b| a.key.cmp(&b.key));
        let mut all = Self { pairs, by_old: BTreeMap::new(), by_new: BTreeMap::new() };
        for (at, pair) in all.pairs.iter().enumerate() {
            all.by_old.extend(pair.old.clone().map(|object| (object, at)));
            all.by_new.extend(pair.new.clone().map(|object| (object, at)));
        }
        all
    }

    /// The pairs, sorted by the old name.
    pub(crate) fn all(&self) -> &[ObjectPair<'m>] {
        &self.pairs
    }

    /// The index of the pair of an object of the old side.
    pub(crate) fn find_old(&self, object: &ObjectRef) -> Option<usize> {
        self.by_old.get(object).copied()
    }

    /// The index of the pair of an object of the new side.
    pub(crate) fn find_new(&self, object: &ObjectRef) -> Option<usize> {
        self.by_new.get(object).copied()
    }
}
