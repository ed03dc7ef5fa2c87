//! Tests for the errors in the thesis that would lose rows, one test per error. `model.rs` also triggers H1 to H4 at
//! random.

use crate::error::ErrorKind;
use crate::sieve::tests::invariants::{SMALL, build, compact, location, only, open, sample, truth};
use crate::sieve::*;

/// Returns a timeline with a base and one later commit.
fn after(pairs: &[(u64, u32)], dead: Vec<u32>, changes: Vec<Change<u64>>) -> Timeline<u64> {
    let mut timeline = Timeline::starting_with(open(build(pairs, SMALL)));
    let names = (0..6).map(location).collect();
    assert!(timeline.commit(Delta::new(101, names, dead, vec![], changes).unwrap()).unwrap());
    timeline
}

fn keeps(timeline: &Timeline<u64>, key: u64, at: u32) -> bool {
    timeline.latest().unwrap().answer(&Query::Point(key)).keeps(timeline.number(&location(at)).unwrap())
}

#[test]
fn h1_an_updated_row_is_found_by_its_new_value_even_if_the_old_value_is_unknown() {
    let (plus, minus) =
        (Change { key: 77u64, location: 0, plus: 1, minus: 0 }, Change { key: 10, location: 0, plus: 0, minus: 1 });
    for changes in [vec![plus.clone(), minus], vec![plus]] {
        let timeline = after(&[(10, 0), (11, 0), (90, 1)], vec![], changes);
        assert!(keeps(&timeline, 77, 0) && keeps(&timeline, 11, 0));
    }
}

#[test]
fn h2_rows_of_a_replaced_group_are_found_only_in_the_new_group() {
    let moved = [10, 11].map(|key| Change { key, location: 4, plus: 1, minus: 0 }).to_vec();
    let timeline = after(&[(10, 0), (11, 0), (12, 1)], vec![0], moved);
    for key in [10, 11] {
        assert!(keeps(&timeline, key, 4) && !keeps(&timeline, key, 0));
    }
    assert!(keeps(&timeline, 12, 1));
}

#[test]
fn h3_deleting_one_of_two_rows_with_the_same_key_leaves_the_other() {
    let (root, file) = build(&[(10u64, 0), (10, 0), (11, 1)], SMALL);
    let delta = |minus| {
        let changes = vec![Change { key: 10u64, location: 0, plus: 0, minus }];
        Delta::new(200, vec![location(0)], vec![], vec![], changes).unwrap()
    };
    let one_left = compact(Index::new(root.clone()), &file, delta(1), i64::MAX);
    assert_eq!(only(&open((one_left.root, one_left.file)), Query::Point(10)), [0]);
    let none_left = compact(Index::new(root), &file, delta(2), i64::MAX);
    assert!(only(&open((none_left.root, none_left.file)), Query::Point(10)).is_empty());
}

#[test]
fn h4_a_replayed_commit_counts_once_and_an_aborted_commit_never() {
    let (root, file) = build(&[(10u64, 0), (10, 0)], SMALL);
    let change = Change { key: 10u64, location: 0, plus: 0, minus: 1 };
    let delta = Delta::new(200, vec![location(0)], vec![], vec![], vec![change]).unwrap();
    let mut timeline = Timeline::starting_with(open((root, file.clone())));
    assert!(timeline.commit(delta.clone()).unwrap());
    assert!(!timeline.commit(delta).unwrap());
    let read = |extent: SectionRange| {
        let start = usize::try_from(extent.offset).unwrap();
        Ok(file[start..start + usize::try_from(extent.len).unwrap()].to_vec())
    };
    let view = timeline.latest().unwrap();
    let compacted = view.compact(SMALL, timeline.locations().to_vec(), read, |_| i64::MAX).unwrap();
    assert_eq!((compacted.unmatched, compacted.root.counts().rows), (0, 1));
    // A delta that was built but not committed is in no view.
    let aborted = Change { key: 55u64, location: 0, plus: 1, minus: 0 };
    drop(Delta::new(201, vec![location(0)], vec![], vec![], vec![aborted]).unwrap());
    assert_eq!(timeline.latest().unwrap().instant(), 200);
}

#[test]
fn h5_deleting_a_key_that_was_never_indexed_affects_no_other_key() {
    let (root, file) = build(&[(10u64, 0), (11, 0), (12, 0)], SMALL);
    let changes =
        vec![Change { key: 13u64, location: 0, plus: 0, minus: 3 }, Change { key: 10, location: 1, plus: 0, minus: 1 }];
    let delta = Delta::new(200, vec![location(0), location(1)], vec![], vec![], changes).unwrap();
    let compacted = compact(Index::new(root), &file, delta, i64::MAX);
    assert_eq!((compacted.unmatched, compacted.root.counts().rows), (4, 3));
    let index = open((compacted.root, compacted.file));
    assert!((10..=12).all(|key| only(&index, Query::Point(key)) == [0]));
}

#[test]
fn h6_keys_outside_every_segment_are_never_lost() {
    let (root, file) = build(&[(1000u64, 0), (1001, 1), (9_000_000, 2)], Options { max_records: 2, ..SMALL });
    assert!(root.segments.len() > 1);
    let mut base = Index::new(root);
    base.load_all(&file).unwrap();
    let mut timeline = Timeline::starting_with(base);
    let changes = [0, 999, 1002, 500_000, u64::MAX].map(|key| Change { key, location: 0, plus: 1, minus: 0 }).to_vec();
    timeline.commit(Delta::new(101, vec![location(9)], vec![], vec![], changes).unwrap()).unwrap();
    let number = timeline.number(&location(9)).unwrap();
    let view = timeline.latest().unwrap();
    for key in [0, 999, 1002, 500_000, u64::MAX] {
        assert!(view.answer(&Query::Point(key)).keeps(number));
        assert!(view.answer(&Query::AtLeast(key)).keeps(number));
        assert!(view.answer(&Query::AtMost(key)).keeps(number));
    }
    assert!(!view.answer(&Query::Point(1000)).keeps(number));
}

#[test]
fn h7_deletes_after_the_instant_of_the_base_file_are_carried_over() {
    let (root, file) = build(&[(10u64, 0), (11, 0)], SMALL);
    let delta = |minus| {
        Delta::new(200, vec![location(0)], vec![], vec![], vec![Change { key: 10u64, location: 0, plus: 0, minus }])
            .unwrap()
    };
    let waits = compact(Index::new(root.clone()), &file, delta(1), 199);
    assert_eq!(waits.carried, vec![CarriedDelete { key: 10, location: location(0), rows: 1 }]);
    assert_eq!(only(&open((waits.root, waits.file)), Query::Point(10)), [0]);
    let applied = compact(Index::new(root), &file, delta(1), 200);
    assert!(applied.carried.is_empty());
    assert!(only(&open((applied.root, applied.file)), Query::Point(10)).is_empty());
}

#[test]
fn h8_the_extreme_keys_of_the_axis_can_be_indexed() {
    let pairs = [(0u64, 0), (u64::MAX, 1), (1 << 63, 2)];
    let index = open(build(&pairs, Options::default()));
    assert_eq!(only(&index, Query::Point(u64::MAX)), [1]);
    assert_eq!(only(&index, Query::Between(1, u64::MAX)), [1, 2]);
    let wides = [(0u128, 0), (u128::MAX, 1), (1 << 127, 2)];
    let index = open(build(&wides, Options::default()));
    assert_eq!(only(&index, Query::Point(u128::MAX)), [1]);
    assert_eq!(only(&index, Query::Between(0, u128::MAX)), [0, 1, 2]);
}

#[test]
fn h9_a_missing_or_damaged_segment_keeps_all_locations_within_min_max() {
    let pairs = sample(21);
    let (root, file) = build(&pairs, SMALL);
    let mut index = Index::new(root.clone());
    let unloaded = only(&index, Query::Point(pairs[0].0));
    assert!(unloaded.contains(&pairs[0].1));
    let Lookup::Need(needs) = index.lookup(&Query::Point(pairs[0].0)) else { panic!("nothing is loaded") };
    assert_eq!(needs.len(), 1);
    assert_eq!(
        index.load(needs[0].segment, b"SvL9 from the future").unwrap_err().kind(),
        &ErrorKind::SieveMagic { part: "segment" }
    );
    assert_eq!(index.lookup(&Query::Point(pairs[0].0)), Lookup::Ready(Answer::Only(unloaded)));
    // Loading the intact bytes ends the doubt.
    let extent = needs[0].extent;
    let start = usize::try_from(extent.offset).unwrap();
    index.load(needs[0].segment, &file[start..start + usize::try_from(extent.len).unwrap()]).unwrap();
    assert_eq!(only(&index, Query::Point(pairs[0].0)), truth(&pairs, &pairs[0].0, &pairs[0].0));
}

#[test]
fn h10_locations_that_were_not_read_belong_to_every_answer() {
    let (mut root, file) = build(&[(10u64, 0)], SMALL);
    root.stats[5].unknown = true;
    let index = open((root, file));
    for query in [
        Query::Point(10),
        Query::Point(99),
        Query::In(vec![3]),
        Query::Between(1, 2),
        Query::AtLeast(99),
        Query::Null,
        Query::Nan,
    ] {
        assert!(index.answer(&query).keeps(5), "{query:?}");
    }
}
