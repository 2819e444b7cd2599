//! The worked examples: downscaling, and spreading over two regions.

use super::*;

fn row(topology: i64, affinity: i64, state: State) -> Option<Row> {
    Some(Row { state, scores: Some(Scores { topology, affinity }) })
}

fn left(rows: &[Option<Row>]) -> Vec<usize> {
    rows.iter().enumerate().filter(|(_, r)| r.is_some()).map(|(i, _)| i).collect()
}

#[test]
fn what_is_not_released_is_cut_first_then_the_worst() {
    let (bound, scheduled) = (State::Bound, State::Scheduled);
    let rows = [row(0, 10, bound), row(0, 10, bound), row(0, 90, scheduled)];
    for (surplus, want) in [(1, vec![0, 1]), (2, vec![1]), (0, vec![0, 1, 2])] {
        let mut rows = rows;
        cut(&mut rows, surplus);
        assert_eq!(left(&rows), want);
    }
    let mut unscored = [row(-1000, 0, bound), Some(Row { state: bound, scores: None })];
    cut(&mut unscored, 1);
    assert_eq!(left(&unscored), [0]);
}
