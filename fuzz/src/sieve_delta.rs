//! Deltas with a valid checksum. Either decoding fails, or the delta can be encoded again, and answers contain all its
//! rows.

use super::sieve::{Probes, frame};
use parsieve::sieve::{Bytes, Delta, Query, Timeline};

/// Decodes `data` as the body of a delta. Its first byte determines the width of the keys.
pub fn run(data: &[u8]) {
    match data.first() {
        Some(1) => check::<u64>(data),
        Some(2) => check::<u128>(data),
        _ => check::<Bytes>(data),
    }
}

fn check<K: Probes>(body: &[u8]) {
    let Ok(delta) = Delta::<K>::read(&frame(b"SvD1", body)) else { return };
    assert_eq!(Delta::read(&delta.write()).as_ref(), Ok(&delta));
    let mut timeline = Timeline::new(K::AXIS);
    if !timeline.commit(delta).is_ok_and(|fresh| fresh) {
        return;
    }
    let view = timeline.latest().unwrap();
    let all: Vec<_> = K::probes();
    for key in &all {
        view.answer(&Query::Point(key.clone()));
        view.answer(&Query::AtLeast(key.clone()));
    }
    let not_null = view.answer(&Query::NotNull);
    let locations = timeline.locations().to_vec();
    let compacted = view.compact(super::sieve::SMALL, locations, |_| unreachable!("no base"), |_| i64::MAX);
    if let Ok(compacted) = compacted {
        let has_rows = |stats: &&parsieve::sieve::Stats<K>| stats.span.is_some();
        for (number, _) in (0..).zip(&compacted.root.stats).filter(|(_, stats)| has_rows(stats)) {
            assert!(not_null.keeps(number), "the compacted index has rows that the view does not have");
        }
    }
}
