//! What the Sieve targets share: frames with a good checksum, and a look at an index that may be damaged.

use parsieve::sieve::{
    Answer, AxisType, Bytes, Coarsen, Counts, Entry, Index, Key, KeySpan, Location, Options, Query, Root, SectionRange,
    Stats,
};

/// Limits so small that a few keys make several segments.
pub const SMALL: Options = Options { max_records: 40, max_key_bytes: 2000, max_weight: 60, coarsen: Coarsen::Exact };

/// A part whose checksum is right, so that its reader has to look at the body.
pub fn frame(magic: &[u8; 4], body: &[u8]) -> Vec<u8> {
    let mut bytes = [magic, body].concat();
    bytes.extend_from_slice(&crc32c::crc32c(&bytes).to_le_bytes());
    bytes
}

/// The body of a part.
pub fn unframe(bytes: &[u8]) -> &[u8] {
    &bytes[4..bytes.len() - 4]
}

/// A key type with some keys to ask for.
pub trait Probes: Key {
    /// In ascending order.
    fn probes() -> Vec<Self>;
    /// Its axis.
    const AXIS: AxisType;
}

impl Probes for u64 {
    const AXIS: AxisType = AxisType::Signed;
    fn probes() -> Vec<Self> {
        vec![0, 1, 40, 333, 1 << 20, 1 << 63, u64::MAX - 1, u64::MAX]
    }
}

impl Probes for u128 {
    const AXIS: AxisType = AxisType::Uuid;
    fn probes() -> Vec<Self> {
        vec![0, 1, 40, 333, 1 << 64, 1 << 127, u128::MAX]
    }
}

impl Probes for Bytes {
    const AXIS: AxisType = AxisType::Bytes;
    fn probes() -> Vec<Self> {
        ["", "\0", "1", "28", "a", "a0", "key-0003", "key-0033", "\u{fff}"]
            .map(|text| Self::new(text.as_bytes()))
            .to_vec()
    }
}

/// Names of so many locations.
pub fn locations(count: u32) -> Vec<Location> {
    (0..count).map(|number| Location { partition: "p".into(), group: format!("{number:04}") }).collect()
}

/// Asks an index for points, lists, intervals and rays: answers name each location once, in order, and no others than it has.
pub fn ask<K: Probes>(index: &Index<K>) {
    let probes = K::probes();
    let count = index.root().locations.len();
    let check = |query: Query<K>| match index.answer(&query) {
        Answer::All => (0..).take(count).collect(),
        Answer::Only(found) => {
            assert!(found.is_sorted_by(|a, b| a < b), "{query:?}: {found:?}");
            assert!(found.last().is_none_or(|&last| (last as usize) < count), "{query:?}: {found:?}");
            found
        }
    };
    for low in &probes {
        let point = check(Query::Point(low.clone()));
        let interval = check(Query::Between(low.clone(), low.clone()));
        assert!(point.iter().all(|location| interval.contains(location)), "a point is an interval");
        check(Query::AtLeast(low.clone()));
        check(Query::AtMost(low.clone()));
        for high in &probes {
            check(Query::Between(low.clone(), high.clone()));
        }
    }
    check(Query::In(probes));
    check(Query::Null);
    check(Query::NotNull);
    assert!(index.report().error() >= 0.0 && index.reads_of_absent_keys() >= 0.0);
}

/// A root with one segment over the whole axis, whose locations have keys everywhere.
pub fn one_segment<K: Probes>(count: u32) -> Root<K> {
    let probes = K::probes();
    let (least, most) = (probes[0].clone(), probes[probes.len() - 1].clone());
    let span = Some(KeySpan { least: least.clone(), most: most.clone(), rows: 1 });
    let extent = SectionRange { file: 0, offset: 0, len: 0 };
    let entry = Entry { least, most, lookup: extent, keys: extent, counts: Counts { keys: 9, ..Counts::default() } };
    Root {
        axis: K::AXIS,
        instant: 1,
        options: SMALL,
        locations: locations(count),
        stats: vec![Stats { span, ..Stats::default() }; count as usize],
        segments: vec![entry],
    }
}
