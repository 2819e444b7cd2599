//! The division of replicas over clusters by weights, minimums and maximums, shared by
//! `ReplicaSchedulingPreference` and Federation v1.
//!
//! Facts: clusters are sorted by weight, the greatest first, then by the FNV-1 hash of their name followed by
//! the object's key. First each cluster gets its minimum. Then, unless the division rebalances, running
//! replicas are kept as far as there are replicas left. Then rounds divide the rest by weight, each share
//! rounded up. Replicas above a cluster's capacity go to others. The cluster gets them as well, up to the
//! number left in the end, or in full if the division rebalances. Integers have 64 bits and wrap.

use std::collections::BTreeMap;

use super::api::ClusterPreference;
use federate_dialect::compute_fnv1;
use federate_kubernetes::finding::count_replicas;

/// The most rounds.
const MAX_ROUNDS: usize = 10_000;

/// The most rounds in a trace.
const MAX_TRACED_ROUNDS: usize = 20;

/// The input of a division.
pub(super) struct DivisionInput<'d> {
    /// The replicas to divide.
    pub total: i64,
    /// Whether running replicas do not count.
    pub rebalance: bool,
    /// `namespace/name` of the object, for the order of clusters of one weight.
    pub key: &'d str,
}

/// A cluster of a division.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct DivisionParticipant<'d> {
    pub cluster: &'d str,
    /// Its preference; a cluster without a preference gets nothing.
    pub preference: Option<ClusterPreference>,
    /// The replicas that run there.
    pub current: Option<i64>,
    /// The replicas that can run there, where that is limited.
    pub capacity: Option<i64>,
}

/// The steps of the computation, one line each, if they are recorded.
#[derive(Debug, Default)]
pub(super) struct DivisionTrace(Option<Vec<String>>);

impl DivisionTrace {
    /// Returns a trace that records.
    pub(super) fn recording() -> Self {
        Self(Some(Vec::new()))
    }

    /// Records a step.
    pub(super) fn record_step(&mut self, words: impl FnOnce() -> String) {
        if let Some(steps) = &mut self.0 {
            steps.push(words());
        }
    }

    /// Returns the recorded steps.
    pub(super) fn into_steps(self) -> Vec<String> {
        self.0.unwrap_or_default()
    }
}

/// A participant with its replicas so far.
struct Share<'d> {
    cluster: &'d str,
    preference: ClusterPreference,
    current: Option<i64>,
    capacity: Option<i64>,
    hash: u32,
    plan: i64,
    kept: i64,
    overflow: i64,
}

/// Divides replicas. Every participant is in the result.
pub(super) fn divide_by_weight<'d>(
    division: &DivisionInput<'_>,
    parties: &[DivisionParticipant<'d>],
    trace: &mut DivisionTrace,
) -> BTreeMap<&'d str, i64> {
    let mut result: BTreeMap<&str, i64> = parties.iter().map(|p| (p.cluster, 0)).collect();
    let mut shares = order_shares(parties, division.key);
    trace.record_step(|| format!("{} for {}", count_replicas(division.total), describe_order(&shares)));
    let mut left = division.total;
    give_minimums(&mut shares, &mut left, trace);
    if !division.rebalance {
        keep_running(&mut shares, &mut left, trace);
    }
    run_rounds(&mut shares, &mut left, trace);
    for share in &mut shares {
        if !division.rebalance {
            share.overflow = share.overflow.min(left).max(0);
        }
        if share.overflow != 0 {
            let (cluster, overflow) = (share.cluster, share.overflow);
            trace.record_step(|| format!("beyond capacity: {cluster} still gets {overflow} more"));
        }
        result.insert(share.cluster, share.plan.wrapping_add(share.overflow));
    }
    if left > 0 {
        trace.record_step(|| {
            let fit = if left == 1 { "replica fits" } else { "replicas fit" };
            format!("{left} {fit} nowhere within minimums, maximums and capacity")
        });
    }
    result
}

/// The participants with a preference, in the order of the division.
fn order_shares<'d>(parties: &[DivisionParticipant<'d>], key: &str) -> Vec<Share<'d>> {
    let shares = parties.iter().filter_map(|party| {
        Some(Share {
            cluster: party.cluster,
            preference: party.preference?,
            current: party.current,
            capacity: party.capacity,
            hash: compute_fnv1(party.cluster.bytes().chain(key.bytes())),
            plan: 0,
            kept: 0,
            overflow: 0,
        })
    });
    let mut shares: Vec<Share<'_>> = shares.collect();
    shares.sort_by_key(|s| (std::cmp::Reverse(s.preference.weight), s.hash, s.cluster));
    shares
}

fn describe_order(shares: &[Share<'_>]) -> String {
    if shares.is_empty() {
        return "no cluster".to_owned();
    }
    let words = shares.iter().map(|s| {
        let p = s.preference;
        let most = p.max_replicas.map(|m| format!(", at most {m}")).unwrap_or_default();
        format!("{} (weight {}, at least {}{most})", s.cluster, p.weight, p.min_replicas)
    });
    words.collect::<Vec<_>>().join(", ")
}

/// Formats `cluster number` for every share for which `number` returns one.
fn list_numbers(shares: &[Share<'_>], number: impl Fn(&Share<'_>) -> Option<i64>) -> String {
    let words = shares.iter().filter_map(|s| Some(format!("{} {}", s.cluster, number(s)?)));
    words.collect::<Vec<_>>().join(", ")
}

fn give_minimums(shares: &mut [Share<'_>], left: &mut i64, trace: &mut DivisionTrace) {
    for share in &mut *shares {
        let mut least = share.preference.min_replicas.min(*left);
        if let Some(capacity) = share.capacity {
            least = least.min(capacity);
        }
        share.plan = least;
        *left = left.wrapping_sub(least);
    }
    if shares.iter().any(|s| s.plan != 0) {
        trace.record_step(|| format!("minimums: {}; {left} left", list_numbers(shares, |s| Some(s.plan))));
    }
}

/// Keeps running replicas above the minimum, as far as replicas are left. They count against the cluster's
/// share later.
fn keep_running(shares: &mut [Share<'_>], left: &mut i64, trace: &mut DivisionTrace) {
    for share in &mut *shares {
        let Some(current) = share.current.filter(|current| *current > share.plan) else { continue };
        let bounds = [share.preference.max_replicas, share.capacity];
        let target = bounds.into_iter().flatten().fold(current, i64::min);
        share.kept = target.wrapping_sub(share.plan).min(*left).max(0);
        share.plan = share.plan.wrapping_add(share.kept);
        *left = left.wrapping_sub(share.kept);
    }
    if shares.iter().any(|s| s.kept != 0) {
        trace.record_step(|| {
            let kept = list_numbers(shares, |s| Some(s.kept).filter(|kept| *kept != 0));
            format!("kept of running replicas: {kept}; {left} left")
        });
    }
}

/// Divides the rest, round by round, until a round changes nothing. The number of rounds is limited because
/// hostile input could make it infinite.
fn run_rounds(shares: &mut [Share<'_>], left: &mut i64, trace: &mut DivisionTrace) {
    let mut active: Vec<usize> = (0..shares.len()).collect();
    for round in 1..=MAX_ROUNDS {
        let divided = *left;
        let weights = active.iter().fold(0_i64, |sum, at| sum.wrapping_add(shares[*at].preference.weight));
        if divided <= 0 || weights <= 0 {
            return;
        }
        let mut modified = false;
        let before: Vec<(usize, i64, i64)> =
            active.iter().map(|at| (*at, shares[*at].plan, shares[*at].kept)).collect();
        active.retain(|at| {
            let (changed, full) = serve_share(&mut shares[*at], divided, weights, left);
            modified |= changed;
            !full
        });
        if round <= MAX_TRACED_ROUNDS {
            trace.record_step(|| describe_round(round, divided, weights, shares, &before, *left));
        }
        if !modified {
            return;
        }
        if *left == divided && active.len() == before.len() {
            skip_equal_rounds(shares, &before);
        }
    }
}

/// A round that only counts shares against kept replicas is followed by equal rounds while enough are kept.
/// They are computed at once.
fn skip_equal_rounds(shares: &mut [Share<'_>], before: &[(usize, i64, i64)]) {
    let charged: Vec<(usize, i64)> =
        before.iter().map(|(at, _, kept)| (*at, kept.wrapping_sub(shares[*at].kept))).collect();
    let unchanged = before.iter().all(|(at, plan, _)| shares[*at].plan == *plan);
    if !unchanged || charged.iter().any(|(_, charge)| *charge < 0) {
        return;
    }
    let charged: Vec<(usize, i64)> = charged.into_iter().filter(|(_, charge)| *charge > 0).collect();
    let times = charged.iter().map(|(at, charge)| shares[*at].kept / charge).min().unwrap_or(0);
    for (at, charge) in charged {
        shares[at].kept -= times * charge;
    }
}

fn describe_round(
    round: usize,
    divided: i64,
    weights: i64,
    shares: &[Share<'_>],
    before: &[(usize, i64, i64)],
    left: i64,
) -> String {
    let gained = before.iter().map(|(at, plan, kept)| {
        let share = &shares[*at];
        let charged = kept.wrapping_sub(share.kept);
        let kept = if charged == 0 { String::new() } else { format!(" ({charged} of what it keeps)") };
        format!("{} {plan} → {}{kept}", share.cluster, share.plan)
    });
    let gained: Vec<String> = gained.collect();
    format!("round {round}, {divided} by weight over {weights}: {}; {left} left", gained.join(", "))
}

/// Gives one cluster its share of a round. Returns whether that changed anything, and whether the cluster is
/// full.
fn serve_share(share: &mut Share<'_>, divided: i64, weights: i64, left: &mut i64) -> (bool, bool) {
    let start = share.plan;
    let rounded_up = divided.wrapping_mul(share.preference.weight).wrapping_add(weights - 1) / weights;
    let mut extra = rounded_up.min(*left);
    let charged = extra.min(share.kept);
    share.kept = share.kept.wrapping_sub(charged);
    extra = extra.wrapping_sub(charged);
    let mut total = start.wrapping_add(extra);
    let mut full = false;
    if let Some(most) = share.preference.max_replicas.filter(|most| total > *most) {
        total = most;
        full = true;
    }
    if let Some(capacity) = share.capacity.filter(|capacity| total > *capacity) {
        share.overflow = total.wrapping_sub(capacity);
        total = capacity;
        full = true;
    }
    *left = left.wrapping_sub(total.wrapping_sub(start));
    share.plan = total;
    (charged > 0 || total > start, full)
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "test-ns/test-deployment";

    fn preference(min: i64, max: Option<i64>, weight: i64) -> ClusterPreference {
        ClusterPreference { weight, min_replicas: min, max_replicas: max }
    }

    fn party(cluster: &str, preference: ClusterPreference, current: Option<i64>) -> DivisionParticipant<'_> {
        DivisionParticipant { cluster, preference: Some(preference), current, capacity: None }
    }

    fn divided(total: i64, rebalance: bool, parties: &[DivisionParticipant<'_>]) -> Vec<i64> {
        divide_by_weight(
            &DivisionInput { total, rebalance, key: KEY },
            parties,
            &mut DivisionTrace::default(),
        )
        .into_values()
        .collect()
    }

    #[test]
    fn the_hash_is_fnv_1() {
        let of = |name: &str| compute_fnv1(name.bytes().chain(KEY.bytes()));
        assert_eq!([of("B"), of("A"), of("C")], [1_063_602_982, 1_330_018_495, 4_038_548_405]);
    }

    #[test]
    fn minimums_then_weights() {
        let of = |a, b, rebalance| {
            let parties =
                [party("A", preference(4, Some(6), 1), a), party("B", preference(4, Some(8), 2), b)];
            divided(9, rebalance, &parties)
        };
        assert_eq!(of(None, None, false), [4, 5]);
        assert_eq!(of(None, None, true), [4, 5]);
        assert_eq!(of(Some(6), Some(3), false), [5, 4]);
        assert_eq!(of(Some(6), Some(3), true), [4, 5]);
    }

    #[test]
    fn equal_and_unequal_weights() {
        let even = |name| party(name, preference(0, None, 1), None);
        assert_eq!(divided(9, false, &[even("A"), even("B")]), [4, 5]);
        assert_eq!(divided(9, false, &[even("A"), even("B"), even("C")]), [3, 3, 3]);
        let uneven = [
            even("A"),
            party("B", preference(0, None, 2), None),
            DivisionParticipant { cluster: "C", ..DivisionParticipant::default() },
        ];
        assert_eq!(divided(9, false, &uneven), [3, 6, 0]);
    }

    #[test]
    fn bounds_of_all_clusters() {
        let bounded = |name| party(name, preference(2, Some(20), 1), None);
        assert_eq!(divided(50, false, &[bounded("A"), bounded("B"), bounded("C")]), [17, 17, 16]);
        assert_eq!(divided(50, false, &[bounded("A"), bounded("B")]), [20, 20]);
    }

    #[test]
    fn what_runs_is_kept_in_order_and_charged() {
        let parties =
            [party("A", preference(0, None, 1), Some(10)), party("B", preference(0, None, 1), Some(70))];
        assert_eq!(divided(50, false, &parties), [0, 50]);
    }

    #[test]
    fn overflow_comes_on_top_of_what_is_kept() {
        let parties = [DivisionParticipant {
            cluster: "A",
            preference: Some(preference(0, None, 1)),
            current: Some(1),
            capacity: Some(1),
        }];
        assert_eq!(divided(9, false, &parties), [8]);
    }

    #[test]
    fn charging_what_is_kept_takes_no_time() {
        let most = i64::from(i32::MAX);
        let parties = [party("A", preference(0, None, 1), Some(most - 1))];
        assert_eq!(divided(most, false, &parties), [most]);
    }

    #[test]
    fn steps_tell_the_arithmetic() {
        let parties =
            [party("A", preference(4, Some(6), 1), Some(6)), party("B", preference(4, Some(8), 2), Some(3))];
        let mut trace = DivisionTrace::recording();
        divide_by_weight(&DivisionInput { total: 9, rebalance: false, key: KEY }, &parties, &mut trace);
        assert_eq!(
            trace.into_steps(),
            [
                "9 replicas for B (weight 2, at least 4, at most 8), A (weight 1, at least 4, at most 6)",
                "minimums: B 4, A 4; 1 left",
                "kept of running replicas: A 1; 0 left",
            ]
        );
    }

    proptest::proptest! {
        #[test]
        fn without_bounds_everything_is_given_away(
            weights in proptest::collection::vec(1_i64..9, 1..8),
            current in proptest::collection::vec(proptest::option::of(0_i64..20), 8),
            total in 0_i64..200,
            rebalance: bool,
        ) {
            let names: Vec<String> = (0..weights.len()).map(|at| format!("c{at}")).collect();
            let rows = names.iter().zip(&weights).zip(&current);
            let parties: Vec<DivisionParticipant<'_>> =
                rows.map(|((name, weight), current)| party(name, preference(0, None, *weight), *current)).collect();
            let result = divided(total, rebalance, &parties);
            proptest::prop_assert_eq!(result.iter().sum::<i64>(), total);
            proptest::prop_assert!(result.iter().all(|replicas| *replicas >= 0));
        }

        #[test]
        fn nothing_a_repo_can_say_overflows(numbers in proptest::collection::vec(proptest::num::i64::ANY, 12), rebalance: bool) {
            let [a, b, c, d, e, f, g, h, i, j, total, _] = numbers[..] else { return Ok(()) };
            let parties = [
                DivisionParticipant { cluster: "A", preference: Some(preference(a, Some(b), c)), current: Some(d), capacity: Some(e) },
                DivisionParticipant { cluster: "B", preference: Some(preference(f, Some(g), h)), current: Some(i), capacity: Some(j) },
            ];
            proptest::prop_assert_eq!(divided(total, rebalance, &parties).len(), 2);
        }
    }
}
