//! Keys, indexes and layouts from which several targets make their inputs.

use parsieve::sieve::{AxisType, Builder, Bytes, Cut, IndexInfo, Key, Layout, Options, Root, SliceLayout, Stats};

use super::sieve::{SMALL, locations};

/// Returns keys in nine locations, some of them close together, far apart, or repeated.
pub fn words(count: u64) -> Vec<(u64, u32)> {
    (0..count)
        .map(|i| (if i % 3 == 0 { i * 4 } else { i.wrapping_mul(0x9e37_79b9) >> (i % 20) }, (i * i % 9) as u32))
        .collect()
}

/// Returns texts in nine locations, some of them repeated.
pub fn texts(count: u64) -> Vec<(Bytes, u32)> {
    (0..count).map(|i| (Bytes::new(format!("key-{:04}", i * i % 97).as_bytes()), (i % 9) as u32)).collect()
}

/// Builds an index of pairs in nine locations, including locations with nulls.
pub fn index<K: Key>(pairs: &[(K, u32)]) -> (Root<K>, Vec<u8>) {
    index_with(pairs, SMALL)
}

/// Builds such an index with other options.
pub fn index_with<K: Key>(pairs: &[(K, u32)], options: Options) -> (Root<K>, Vec<u8>) {
    let mut sorted = pairs.to_vec();
    sorted.sort();
    let mut builder = Builder::new(9, options).unwrap();
    sorted.into_iter().for_each(|(key, location)| builder.push(key, location, 1).unwrap());
    let axis = [AxisType::Signed, AxisType::Uuid, AxisType::Bytes][usize::from(K::CODE) - 1];
    let stats = (0..9).map(|i| Stats { nulls: i % 3, nans: i % 2, unknown: i == 8, ..Stats::default() }).collect();
    Root::new(IndexInfo { axis, instant: 7, options }, locations(9), stats, &builder.finish()).unwrap()
}

/// Returns nine units of four slices.
pub fn layout() -> Layout {
    let mut layout = Layout::default();
    let slices: [(u32, Cut, &[u64]); 4] = [
        (0, Cut::RowGroups, &[9, 9]),
        (1, Cut::RowGroups, &[9, 9]),
        (5, Cut::Rows(20_000), &[70_000]),
        (6, Cut::Whole, &[]),
    ];
    slices.iter().for_each(|&(id, cut, row_groups)| layout.add(SliceLayout { id, cut, row_groups }).unwrap());
    layout
}
