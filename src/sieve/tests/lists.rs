//! Lists of keys: the same locations as their keys one by one, in little memory.

use std::collections::BTreeSet;

use crate::sieve::tests::model::Random;
use crate::sieve::*;

const LOCATIONS: u32 = 200;
/// The most locations that an answer may have room for.
const ROOM: usize = 4096;

/// Builds an index with all segments loaded. The rows of `unread` locations are not known.
fn build(mut pairs: Vec<(u64, u32)>, unread: &[u32], options: Options) -> Index<u64> {
    pairs.sort_unstable();
    let mut builder = Builder::new(LOCATIONS, options).unwrap();
    pairs.into_iter().for_each(|(key, location)| builder.push(key, location, 1).unwrap());
    let names = (0..LOCATIONS).map(|at| Location { partition: String::new(), group: format!("{at:06}") });
    let stats = (0..LOCATIONS).map(|at| Stats { unknown: unread.contains(&at), ..Stats::default() });
    let info = IndexInfo { axis: AxisType::Unsigned, instant: 1, options };
    let (root, file) = Root::new(info, names.collect(), stats.collect(), &builder.finish()).unwrap();
    let mut index = Index::new(root);
    index.load_all(&file).unwrap();
    index
}

fn answer(index: &Index<u64>, keys: &[u64]) -> Vec<u32> {
    let Answer::Only(locations) = index.answer(&Query::In(keys.to_vec())) else { panic!("keys have an order") };
    assert!(locations.capacity() <= ROOM, "{} keys took room for {} locations", keys.len(), locations.capacity());
    locations
}

#[test]
fn many_keys_in_the_same_locations_take_little_memory() {
    let keys: Vec<u64> = (0..2000).collect();
    let everywhere = keys.iter().flat_map(|&key| (0..LOCATIONS).map(move |location| (key, location)));
    let all: Vec<u32> = (0..LOCATIONS).collect();
    assert_eq!(answer(&build(everywhere.collect(), &[], Options::default()), &keys), all);

    // The last key is in another location than the many before it.
    let pairs = (0..1999).map(|key| (key, 5)).chain([(1999, 7)]);
    assert_eq!(answer(&build(pairs.collect(), &[], Options::default()), &keys), [5, 7]);

    // Each key in one location, but all locations reach over all keys.
    let spread = (0..LOCATIONS).flat_map(|location| [(0, location), (5000, location)]);
    let scattered: Vec<(u64, u32)> = (1..2000).zip((0..LOCATIONS).cycle()).chain(spread).collect();
    let mut index = build(scattered.clone(), &all, Options::default());
    assert_eq!(answer(&index, &keys), all, "rows that were not read may match");
    for segment in 0..index.root().segments.len() {
        index.load(segment, &[]).unwrap_err();
    }
    assert_eq!(answer(&index, &keys), all, "a damaged segment");
    let mut index = build(scattered, &[], Options::default());
    for segment in 0..index.root().segments.len() {
        index.load(segment, &[]).unwrap_err();
    }
    assert_eq!(answer(&index, &keys), all, "a damaged segment");
}

#[test]
fn a_list_has_the_locations_of_its_keys() {
    let random = &mut Random(3);
    for seed in 0..40 {
        let mut below = |limit: u64| random.below(limit);
        let pair = |key: u64, other: u64| (key, u32::try_from(key / 9 + other).unwrap());
        let pairs = (0..3000).map(|_| pair(below(900), below(60))).collect();
        let options = Options { max_records: 90, max_weight: 60, ..Options::default() };
        let mut index = build(pairs, if seed % 3 == 0 { &[7, 150] } else { &[] }, options);
        let num_segments = index.root().segments.len();
        assert!(num_segments > 5);
        let damaged = seed % 2 == 1;
        if damaged {
            (0..num_segments).step_by(3).for_each(|segment| drop(index.load(segment, &[]).unwrap_err()));
        }
        let keys: Vec<u64> = (0..1 + below(300)).map(|_| below(1000)).collect();
        let mut expected = BTreeSet::new();
        for key in &keys {
            let mut locations = Vec::new();
            index.point(key, &mut locations);
            expected.extend(locations);
        }
        let found: BTreeSet<u32> = answer(&index, &keys).into_iter().collect();
        assert!(found.is_superset(&expected));
        assert!(damaged || found == expected);
        let one = answer(&index, &keys[..1]);
        let mut alone = Vec::new();
        index.point(&keys[0], &mut alone);
        assert_eq!(one, alone, "a list of one key, damaged or not");
    }
}
