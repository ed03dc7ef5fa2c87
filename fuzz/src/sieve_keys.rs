//! Maintenance sections with a good checksum: a compaction refuses them, or makes an index that answers.

use super::sieve::{Probes, SMALL, ask, frame, one_segment};
use parsieve::sieve::{Bytes, Delta, Index, Timeline};

/// Reads `data` as the body of a maintenance section; its first byte names the width of the keys.
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
        ask(&index);
    }
}
