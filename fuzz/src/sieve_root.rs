//! Roots with a good checksum: refused, or the same once they are written and read again, and answering.

use super::sieve::{Probes, ask, frame};
use parsieve::sieve::{Bytes, Index, root};

/// Reads `data` as the body of a root; its first byte names the width of the keys.
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
    ask(&index);
    let _ = index.load_all(b"no segment");
    ask(&index);
}
