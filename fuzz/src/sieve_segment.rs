//! Lookup sections with a good checksum: refused, or answered without a panic and within the index's locations.

use super::sieve::{Probes, ask, frame, one_segment};
use parsieve::sieve::{Bytes, Index};

/// Reads `data` as the body of a lookup section; its first byte names the width of the keys.
pub fn run(data: &[u8]) {
    match data.first() {
        Some(1) => check::<u64>(data),
        Some(2) => check::<u128>(data),
        _ => check::<Bytes>(data),
    }
}

fn check<K: Probes>(body: &[u8]) {
    let count = if body.len().is_multiple_of(2) { 9 } else { 300 };
    let mut index = Index::<K>::new(one_segment(count));
    let loaded = index.load(0, &frame(b"SvL1", body));
    ask(&index);
    if loaded.is_err() {
        let mut all = Vec::new();
        index.point(&K::probes()[1], &mut all);
        assert_eq!(all.len(), count as usize, "a damaged segment stands for every location");
    }
}
