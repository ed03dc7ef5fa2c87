//! Helpers for the Sieve targets: frames with a valid checksum, and queries on an index that may be damaged.

use parsieve::sieve::{
    Answer, AxisType, Bytes, Coarsen, Counts, Entry, Index, Key, KeySpan, Location, Options, Query, Root, SectionRange,
    Stats,
};

/// Limits that are small enough for a few keys to produce several segments.
pub const SMALL: Options =
    Options { max_records: 40, max_key_bytes: 2000, max_weight: 60, coarsen: Coarsen::Exact, ..Options::DEFAULT };

/// Adds a magic number and a valid checksum to a body, so that its decoder gets to see the body.
pub fn frame(magic: &[u8; 4], body: &[u8]) -> Vec<u8> {
    let mut bytes = [magic, body].concat();
    bytes.extend_from_slice(&crc32c::crc32c(&bytes).to_le_bytes());
    bytes
}

/// Returns the body of a framed section.
pub fn unframe(bytes: &[u8]) -> &[u8] {
    &bytes[4..bytes.len() - 4]
}

/// A key type with some keys to query.
pub trait Probes: Key {
    /// Returns keys in ascending order.
    fn probes() -> Vec<Self>;
    /// The axis of the keys.
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

/// Returns `count` locations.
pub fn locations(count: u32) -> Vec<Location> {
    (0..count).map(|number| Location { partition: "p".into(), group: format!("{number:04}") }).collect()
}

/// Queries points, lists, intervals and half-open ranges. Checks that answers contain only existing locations, in
/// order.
pub fn query_everything<K: Probes>(index: &Index<K>) {
    let probes = K::probes();
    let count = index.root().locations.len();
    let check = |query: Query<K>| match index.answer(&query) {
        Answer::All => (0..).take(count).collect(),
        Answer::Only(locations) => {
            assert!(locations.is_sorted_by(|a, b| a < b), "{query:?}: {locations:?}");
            assert!(locations.last().is_none_or(|&last| (last as usize) < count), "{query:?}: {locations:?}");
            locations
        }
    };
    for low in &probes {
        let point = check(Query::Point(low.clone()));
        let interval = check(Query::Between(low.clone(), low.clone()));
        // A point in a damaged block keeps all locations. An interval over the whole segment does not read the block.
        let is_certain = point.len() < count;
        assert!(
            !is_certain || point.iter().all(|location| interval.contains(location)),
            "a point query differs from an interval"
        );
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

/// Returns a root with one segment that covers the complete axis, in which every location has keys everywhere.
pub fn one_segment<K: Probes>(count: u32) -> Root<K> {
    let probes = K::probes();
    let (least, most) = (probes[0].clone(), probes[probes.len() - 1].clone());
    let span = Some(KeySpan { least: least.clone(), most: most.clone(), rows: 1 });
    let extent = SectionRange { file: 0, offset: 0, len: 0 };
    let entry = Entry {
        least,
        most,
        lookup: extent,
        keys: extent,
        check: None,
        counts: Counts { keys: 9, ..Counts::default() },
    };
    Root {
        axis: K::AXIS,
        instant: 1,
        options: SMALL,
        locations: locations(count),
        stats: vec![Stats { span, ..Stats::default() }; count as usize],
        segments: vec![entry],
    }
}
