//! Lookup sections of both versions with a valid checksum. Either loading fails, or queries return existing locations without a panic.

use super::sieve::{Probes, frame, one_segment, query_everything};
use parsieve::sieve::{Bytes, Index, Query};

/// Decodes `data` as the body of a lookup section. Its first byte determines the width of the keys.
pub fn run(data: &[u8]) {
    match data.first() {
        Some(1) => check::<u64>(data),
        Some(2) => check::<u128>(data),
        _ => check::<Bytes>(data),
    }
}

fn check<K: Probes>(body: &[u8]) {
    let count = if body.len().is_multiple_of(2) { 9 } else { 300 };
    for magic in [b"SvL1", b"SvL2"] {
        let mut index = Index::<K>::new(one_segment(count));
        let loaded = index.load(0, &frame(magic, body));
        query_everything(&index);
        if loaded.is_err() {
            let mut all = Vec::new();
            index.point(&K::probes()[1], &mut all);
            assert_eq!(all.len(), count as usize, "a damaged segment matches every location");
        } else {
            index.decode_all();
            for key in K::probes() {
                let answer = index.answer(&Query::Point(key));
                assert!((count..count + 9).all(|location| !answer.keeps(location)), "an unknown location");
            }
        }
    }
}
