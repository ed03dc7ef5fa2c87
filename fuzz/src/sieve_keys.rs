//! Keys sections with a valid checksum. Either compaction fails, or the compacted index can be queried.

use super::sieve::{Probes, SMALL, frame, one_segment, query_everything};
use parsieve::sieve::{Bytes, Delta, Index, Timeline};

/// Decodes `data` as the body of a keys section. Its first byte determines the width of the keys.
pub fn run(data: &[u8]) {
    match data.first() {
        Some(1) => check::<u64>(data),
        Some(2) => check::<u128>(data),
        _ => check::<Bytes>(data),
    }
}

fn check<K: Probes>(body: &[u8]) {
    let mut timeline = Timeline::starting_with(Index::<K>::new(one_segment(9)));
    let delta = Delta::new(2, Vec::new(), Vec::new(), Vec::new(), Vec::new()).unwrap();
    assert!(timeline.commit(delta).unwrap());
    let locations = timeline.locations().to_vec();
    let view = timeline.latest().unwrap();
    let section = frame(b"SvK1", body);
    if let Ok(compacted) = view.compact(SMALL, locations, |_| Ok(section.clone()), |_| i64::MAX) {
        let mut index = Index::new(compacted.root);
        index.load_all(&compacted.file).unwrap();
        query_everything(&index);
    }
}
