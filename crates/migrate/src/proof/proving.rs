//! Proves a migration: compares all objects, explains what differs, and tries the reasons.

use federate_engine::{TooMuchWork, map_charged};

use super::causes::{UnclearObject, narrow_reasons};
use super::comparison::{compare_pair, find_rendered};
use super::content::RenderingIndex;
use super::{
    ComparedState, ObjectDifference, ObjectPair, ObjectPairs, ObjectProof, Proof, ProofSides, Verdict,
};

/// Compares what each cluster receives of each object by the two sides. Sessions that
/// [keep values](federate_session::Session::keep_manifest_values) are compared faster.
///
/// # Errors
///
/// If that takes more work than a part of a run may.
pub fn prove_migration(sides: ProofSides<'_>) -> Result<Proof, TooMuchWork> {
    let renderings = [sides.old.render(), sides.new.render()];
    let limit = sides.old.work_limit();
    let pairs = ObjectPairs::new(sides.migration, renderings.map(|rendering| &rendering.plan));
    let mut proved = limit.run_part("comparing the two sides of the migration", || {
        let indexes = renderings.map(RenderingIndex::new);
        let objects = map_charged(pairs.all(), |pair| {
            // The row of a policy sends nothing itself.
            let is_object = pair.migrated.is_some()
                || find_rendered(pair, &indexes).iter().any(|rendered| !rendered.is_empty());
            is_object.then(|| prove_object(pair, compare_pair(pair, &indexes, sides.rules())))
        });
        pairs.all().iter().zip(objects).filter_map(|(pair, proof)| Some((pair, proof?))).collect::<Vec<_>>()
    })?;
    // Without it, the reasons are less exact.
    let _ = limit.run_part("trying the reasons of differences", || {
        let unclear = proved.iter_mut().filter(|(_, proof)| proof.verdict == Verdict::Different);
        let unclear =
            unclear.map(|(pair, proof)| UnclearObject { pair, differences: &mut proof.differences });
        narrow_reasons(sides, &mut unclear.collect::<Vec<_>>());
    });
    Ok(Proof { objects: proved.into_iter().map(|(_, proof)| proof).collect() })
}

/// The proof about a pair of objects with these differences.
fn prove_object(pair: &ObjectPair<'_>, mut differences: Vec<ObjectDifference>) -> ObjectProof {
    let rules = pair.unequal_rules();
    for difference in &mut differences {
        difference.explain(rules, ComparedState::Current);
    }
    let verdict = if differences.iter().any(|difference| difference.reasons.is_empty()) {
        Verdict::Unexplained
    } else if !differences.is_empty() {
        Verdict::Different
    } else if !rules.is_empty() {
        Verdict::EqualNow
    } else {
        Verdict::Equal
    };
    ObjectProof {
        object: pair.object().clone(),
        renamed: pair.find_renamed(),
        verdict,
        rules: rules.to_vec(),
        differences,
    }
}
