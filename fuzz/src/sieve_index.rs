//! A small index whose stored bytes are changed, including checksums. Either loading fails, or answers are supersets.

use std::sync::OnceLock;

use parsieve::sieve::{Answer, Index, Query, Root, root};

use super::samples;

struct SmallIndex {
    pairs: Vec<(u64, u32)>,
    root: Vec<u8>,
    file: Vec<u8>,
}

static SMALL: OnceLock<SmallIndex> = OnceLock::new();

/// Applies `data` as changes of three bytes each: a position and a mask that is XORed with the byte there.
pub fn run(data: &[u8]) {
    let small = SMALL.get_or_init(|| {
        let pairs = samples::words(120);
        let (root, file) = samples::index(&pairs);
        SmallIndex { pairs, root: root::write(&root), file }
    });
    let (mut root, mut file) = (small.root.clone(), small.file.clone());
    for change in data.chunks_exact(3) {
        let position = usize::from(u16::from_le_bytes([change[0], change[1]])) % (root.len() + file.len());
        let byte = if position < root.len() { &mut root[position] } else { &mut file[position - small.root.len()] };
        *byte ^= change[2];
    }
    let Ok(root): Result<Root<u64>, _> = root::read(&root) else { return };
    let mut index = Index::new(root);
    let _ = index.load_all(&file);
    for &(key, location) in &small.pairs {
        for query in [
            Query::Point(key),
            Query::Between(key, key + 3),
            Query::Between(key.saturating_sub(50), key + 200),
            Query::AtLeast(key),
            Query::AtMost(key),
        ] {
            let answer = index.answer(&query);
            assert!(answer == Answer::All || answer.keeps(location), "{query:?} lost location {location}");
        }
    }
}
