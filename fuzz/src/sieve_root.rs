//! Roots with a valid checksum. Either decoding fails, or the root can be encoded again and queried.

use super::sieve::{Probes, frame, query_everything};
use parsieve::sieve::{Bytes, Index, root};

/// Decodes `data` as the body of a root. Its first byte determines the width of the keys.
pub fn run(data: &[u8]) {
    match data.first() {
        Some(1) => check::<u64>(data),
        Some(2) => check::<u128>(data),
        _ => check::<Bytes>(data),
    }
}

fn check<K: Probes>(body: &[u8]) {
    let Ok(read) = root::read::<K>(&frame(b"SvR1", body)) else { return };
    assert_eq!(root::read::<K>(&root::write(&read)).as_ref(), Ok(&read));
    let mut index = Index::new(read);
    query_everything(&index);
    let _ = index.load_all(b"no segment");
    query_everything(&index);
}
