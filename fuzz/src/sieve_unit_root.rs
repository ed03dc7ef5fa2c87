//! Roots of version 2 with a valid checksum, unit pages, and deltas. Either decoding fails, or the part can be encoded
//! again and queried.

use super::sieve::{Probes, frame};
use parsieve::sieve::{Bytes, Index, Query, UnitDelta, UnitNeed, UnitTimeline};

/// Answers name every unit of a page that is not loaded, and only the root says how many these are.
const MOST_UNITS: u32 = 1 << 16;

/// Decodes `data` as the body of a root, after a byte that says how many of its last bytes are behind the root. The next
/// byte determines the width of the keys.
pub fn run(data: &[u8]) {
    let Some((&behind, data)) = data.split_first() else { return };
    let (body, behind) = data.split_at(data.len().saturating_sub(usize::from(behind) * 4));
    match body.first() {
        Some(1) => check::<u64>(body, behind),
        Some(2) => check::<u128>(body, behind),
        _ => check::<Bytes>(body, behind),
    }
}

/// Decodes `data` as the body of a delta.
pub fn run_delta(data: &[u8]) {
    match data.first() {
        Some(1) => check_delta::<u64>(data),
        Some(2) => check_delta::<u128>(data),
        _ => check_delta::<Bytes>(data),
    }
}

fn check<K: Probes>(body: &[u8], behind: &[u8]) {
    let len = u32::try_from(body.len()).unwrap().to_le_bytes();
    let mut root = [b"SvR2", &len[..], body].concat();
    root.extend_from_slice(&crc32c::crc32c(&root).to_le_bytes());
    root.extend_from_slice(behind);
    let Ok(index) = Index::<K>::open_units(&root) else { return };
    if index.num_units() > MOST_UNITS {
        return;
    }
    let axis = index.root().axis;
    let Ok(mut timeline) = UnitTimeline::new(axis, Some(index), Vec::new()) else { return };
    query_everything(&timeline);
    for need in timeline.needs_slices(None).into_iter().take(9) {
        if let UnitNeed::Page(page, _) = need {
            // The pages are not in the input.
            assert!(timeline.load_page(page, behind).is_err() || !behind.is_empty());
        }
    }
    let _ = timeline.load_segment(0, behind);
    query_everything(&timeline);
}

fn check_delta<K: Probes>(body: &[u8]) {
    let Ok(delta) = UnitDelta::<K>::read(&frame(b"SvD2", body)) else { return };
    let written = UnitDelta::<K>::read(&delta.write()).expect("a delta that was written");
    assert_eq!(UnitDelta::read(&written.write()).as_ref(), Ok(&written));
    let Ok(timeline) = UnitTimeline::new(K::AXIS, None, vec![delta]) else { return };
    query_everything(&timeline);
    timeline.delta_keys(&[], &[]);
    let units = timeline.all_units().expect("units without a base");
    assert_eq!(units.stats.len(), units.layout.num_units());
    // A bound that is longer than the format allows is written as a shorter bound, which must not exclude a key.
    let timeline = UnitTimeline::new(K::AXIS, None, vec![written]).expect("a timeline, as before");
    let units_written = timeline.all_units().expect("units without a base");
    assert_eq!(units_written.layout, units.layout);
    for (old, new) in units.stats.iter().zip(&units_written.stats) {
        match (&old.span, &new.span) {
            (Some(old), Some(new)) => assert!(new.least <= old.least && old.most <= new.most),
            (old, new) => assert_eq!(old, new),
        }
    }
}

/// Queries points, lists, intervals and half-open ranges. Checks that answers contain only known slices, in order.
pub fn query_everything<K: Probes>(timeline: &UnitTimeline<K>) {
    let slices = timeline.slices();
    let check = |query: Query<K>| {
        let Some(pairs) = timeline.answer(&[&query]) else { return };
        assert!(pairs.is_sorted_by(|a, b| a < b), "{query:?}");
        let changed = timeline.changed();
        let known = |id: &u32| slices.binary_search(id).is_ok() || changed.binary_search(id).is_ok();
        assert!(pairs.iter().all(|(id, _)| known(id)), "{query:?}");
    };
    for key in K::probes() {
        check(Query::Point(key.clone()));
        check(Query::AtLeast(key.clone()));
        check(Query::AtMost(key.clone()));
        check(Query::Between(K::probes()[0].clone(), key));
    }
    check(Query::In(K::probes()));
    check(Query::Null);
    check(Query::NotNull);
    check(Query::Nan);
    timeline.touched(&slices, &[]);
}
