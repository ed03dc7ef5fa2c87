//! Version 2: damaged, missing and swapped parts, compactions that must fail, conversion, and the format page.

use std::collections::BTreeSet;

use crate::int::to_usize;
use crate::sieve::tests::model::Random;
use crate::sieve::tests::units::{SMALL, Slice, World};
use crate::sieve::*;

#[test]
fn keys_that_a_kept_segment_lacks_are_an_error() {
    let random = &mut Random(6);
    let world = World::<u64>::new(SMALL, random, 20);
    let timeline = world.open_all();
    let mut kept = timeline.kept(&[], &[0, 1], &[], &[]).unwrap();
    let units = timeline.all_units().unwrap().layout;
    let mut builder = Builder::new(u32::try_from(units.num_units()).unwrap(), SMALL).unwrap();
    let entry = &timeline.base().unwrap().root().segments[0];
    let unit = (0..).find(|&unit| !timeline_has(&timeline, entry.least, unit)).unwrap();
    let error = kept.push(&mut builder, entry.least, unit, 1).unwrap_err();
    assert!(matches!(error.kind(), crate::error::ErrorKind::SieveKeptKey { .. }));
    assert!(timeline.kept(&[], &[], &[], &[]).is_err(), "files need new numbers");
}

fn timeline_has(timeline: &UnitTimeline<u64>, key: u64, unit: u32) -> bool {
    let mut found = Vec::new();
    timeline.base().unwrap().point(&key, &mut found);
    found.contains(&unit)
}

/// A table whose unit pages are in a separate file.
fn large() -> World<u64> {
    let random = &mut Random(9);
    let mut world = World::<u64>::new(SMALL, random, 1);
    for low in 0..6000 {
        world.add(random, low * 7919 % 1200, 90 + low % 40);
    }
    world.rebuild();
    assert!(world.files[1].len() > 64 * 1024, "{}", world.files[1].len());
    world
}

#[test]
fn large_tables_load_unit_pages_on_demand() {
    let world = large();
    let last = world.next - 1;
    let mut timeline = world.open();
    let pages = |needs: &[UnitNeed]| needs.iter().filter(|need| matches!(need, UnitNeed::Page(..))).count();
    assert_eq!(pages(&timeline.needs(&Query::Point(5))), 0, "points need no unit page");
    assert_eq!(pages(&timeline.needs(&Query::Nan)), 0, "the root knows that there is no NaN");
    let all = timeline.needs_slices(None);
    assert!(all.len() > 1 && timeline.page_extents().len() == all.len());
    assert_eq!(timeline.needs_slices(Some(&[last])), all[all.len() - 1..]);
    assert_eq!(timeline.needs_slices(Some(&[1 << 30])), []);
    assert!(timeline.slice(last).is_none());
    // A page that is not loaded excludes nothing.
    assert!(world.truth(|row| *row == Some(5)).is_subset(&world.answer(&timeline, &Query::AtMost(5))));
    world.load(&mut timeline, all[all.len() - 1..].to_vec());
    let (page, position) = timeline.slice(last).unwrap();
    assert_eq!(page.layout.get(position).unwrap().row_groups, world.slices[&last].row_groups);
    world.check(&mut Random(1), true);
    assert!(timeline.load_page(0, &[]).is_err());
    let null = world.answer(&timeline, &Query::Null);
    assert!(world.truth(Option::is_none).is_subset(&null));
    assert!(timeline.load_page(99, &[]).is_err() && timeline.load_segment(9999, &[]).is_err());
}

#[test]
fn only_the_pages_that_a_query_needs_are_requested() {
    let mut world = large();
    let half = world.next / 2;
    for (_, slice) in world.slices.iter_mut().filter(|(id, _)| **id < half) {
        slice.units.iter_mut().for_each(|rows| rows.retain(Option::is_some));
    }
    world.rebuild();
    let timeline = world.open();
    let all = timeline.needs_slices(None);
    let root = UnitRoot::<u64>::read(&world.root).unwrap().0;
    assert_eq!(root.pages.len(), all.len());
    for (page, need) in root.pages.iter().zip(&all) {
        for position in [page.first_slice, page.first_slice + page.num_slices - 1] {
            let id = root.slices.at(position).unwrap().id;
            assert_eq!(timeline.needs_slices(Some(&[id])), [*need]);
        }
    }
    let with_nulls = timeline.needs(&Query::Null);
    assert!(!with_nulls.is_empty() && all.ends_with(&with_nulls) && !with_nulls.contains(&all[0]));
}

#[test]
fn a_page_may_have_the_greatest_number_of_units() {
    let mut world = World::<u64>::new(SMALL, &mut Random(1), 1);
    world.slices.clear();
    let row_groups = vec![20; 2048];
    for id in 0..2 {
        let units = (0..2048).map(|unit| vec![Some(unit % 3)]).collect();
        world.slices.insert(id, Slice { cut: Cut::RowGroups, row_groups: row_groups.clone(), units });
    }
    world.rebuild();
    let root = UnitRoot::<u64>::read(&world.root).unwrap().0;
    assert_eq!(root.pages.iter().map(|page| (page.num_slices, page.num_units)).collect::<Vec<_>>(), [(2, 4096)]);
    assert_eq!(world.answer(&world.open_all(), &Query::Point(2)), world.truth(|row| *row == Some(2)));
}

#[test]
fn swapped_parts_are_refused() {
    let world = large();
    let mut timeline = world.open();
    let needs = timeline.needs_slices(None);
    let (UnitNeed::Page(_, first), UnitNeed::Page(_, second)) = (needs[0], needs[1]) else { panic!("pages") };
    assert!(timeline.load_page(0, &world.bytes(second)).is_err());
    assert!(timeline.load_page(1, &world.bytes(first)).is_err());
    let segments = timeline.base().unwrap().root().segments.clone();
    assert!(timeline.load_segment(0, &world.bytes(segments[1].lookup)).is_err());
    let all = world.answer(&timeline, &Query::Point(segments[0].least));
    assert!(world.truth(|row| *row == Some(segments[0].least)).is_subset(&all));
}

#[test]
fn damaged_roots_are_refused_or_keep_every_match() {
    let random = &mut Random(11);
    let world = World::<Bytes>::new(SMALL, random, 9);
    let behind = UnitRoot::<Bytes>::read(&world.root).unwrap().1.len();
    let key = world.slices.values().flat_map(|slice| slice.units.iter().flatten().flatten()).next().unwrap().clone();
    for at in 0..world.root.len() {
        let mut damaged = world.clone();
        damaged.root[at] ^= 1 << (at % 8);
        let opened = Index::<Bytes>::open_units(&damaged.root);
        assert_eq!(opened.is_ok(), at >= world.root.len() - behind, "byte {at}");
        if opened.is_ok() {
            let mut timeline = damaged.open();
            for (query, matches) in [
                (Query::Point(key.clone()), damaged.truth(|row| row.as_ref() == Some(&key))),
                (Query::AtLeast(key.clone()), damaged.truth(|row| row.as_ref().is_some_and(|row| *row >= key))),
                (Query::Null, damaged.truth(Option::is_none)),
            ] {
                assert!(matches.is_subset(&damaged.ask(&mut timeline, &query)), "byte {at}");
            }
        }
        damaged.root.truncate(at);
        if let Ok(index) = Index::<Bytes>::open_units(&damaged.root) {
            let timeline = UnitTimeline::new(AxisType::Bytes, Some(index), Vec::new()).unwrap();
            assert!(damaged.truth(Option::is_none).is_subset(&damaged.answer(&timeline, &Query::Null)));
        }
    }
}

#[test]
fn masked_shares_count_rows() {
    let random = &mut Random(3);
    let world = World::<u64>::new(SMALL, random, 10);
    let rows = |slice: &Slice<u64>| slice.units.iter().flatten().flatten().count();
    let (gone, all) = (rows(&world.slices[&4]), world.slices.values().map(rows).sum::<usize>());
    let share = world.open_all().masked_share(&[4]).unwrap();
    assert!((share * f64::from(u32::try_from(all).unwrap()) - f64::from(u32::try_from(gone).unwrap())).abs() < 1e-6);
}

#[test]
fn version_1_converts_to_version_2() {
    use crate::sieve::tests::invariants::{LOCATIONS, SMALL as SMALL_1, build, location, open, sample};
    let pairs = sample(31);
    let (root, file) = build(&pairs, SMALL_1);
    let timeline = Timeline::starting_with(open((root, file.clone())));
    let names: Vec<Location> = (0..LOCATIONS).map(location).collect();
    let read = |extent: SectionRange| {
        let start = to_usize(extent.offset).unwrap();
        Ok(file[start..start + to_usize(extent.len).unwrap()].to_vec())
    };
    let mut lookups = Vec::new();
    let write = |lookup: Vec<u8>, keys: Vec<u8>| {
        assert!(keys.is_empty(), "no keys are kept");
        lookups.extend(lookup);
        Ok(())
    };
    let (root, unmatched) = timeline.latest().unwrap().convert(SMALL, &names, read, write, 1).unwrap();
    assert_eq!((unmatched, root.pages.len()), (0, 0));
    let mut index = Index::<u64>::open_units(&root.root).unwrap();
    index.load_all(&lookups).unwrap();
    let timeline = UnitTimeline::new(index.root().axis, Some(index), Vec::new()).unwrap();
    for (key, _) in &pairs {
        let truth: BTreeSet<u32> = pairs.iter().filter(|pair| pair.0 == *key).map(|pair| pair.1).collect();
        let answer = timeline.answer(&[&Query::Point(*key)]).unwrap();
        assert_eq!(answer, truth.into_iter().map(|id| (id, WHOLE_SLICE)).collect::<Vec<_>>());
    }
}

/// Compares the worked example of the format page byte by byte.
#[test]
fn the_worked_example_on_the_format_page_is_correct() {
    let options = Options { format: Format::V2, ..Options::default() };
    let mut layout = Layout::default();
    layout.add(SliceLayout { id: 0, cut: Cut::RowGroups, row_groups: &[2, 2] }).unwrap();
    layout.add(SliceLayout { id: 1, cut: Cut::Whole, row_groups: &[] }).unwrap();
    let mut builder = Builder::new(3, options).unwrap();
    for (key, unit) in [(10u64, 0), (11, 0), (12, 1), (20, 1), (20, 2)] {
        builder.push(key, unit, 1).unwrap();
    }
    let mut built = builder.finish();
    let mut stream = SegmentStream::new(0);
    stream.put(std::mem::take(&mut built.segments));
    let info = IndexInfo { axis: AxisType::Unsigned, instant: 7, options };
    let stats = vec![Stats::default(), Stats::default(), Stats { nulls: 2, ..Stats::default() }];
    let root = unit_root_over(info, layout, stats, &built.spans, stream.into_entries(), 1).unwrap();
    assert!(root.pages.is_empty());
    let mut layout = Layout::default();
    layout.add(SliceLayout { id: 2, cut: Cut::Whole, row_groups: &[1] }).unwrap();
    let changes = vec![
        Change { key: 300u64, location: 0, plus: 1, minus: 0 },
        Change { key: 12, location: 1, plus: 1, minus: 0 },
    ];
    let changed = vec![ChangedSlice { id: 1, ..ChangedSlice::default() }];
    let delta = UnitDelta::new(8, layout, &[(0, 0, false)], changed, changes).unwrap();
    let page = include_str!("../../../docs/format/sieve-v2.md");
    for (name, bytes) in [("root", root.root), ("delta", delta.write())] {
        let hex: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let start = page.find(&format!("```text {name}\n")).map_or(0, |at| at + 9 + name.len());
        let documented: Vec<&str> = page[start..]
            .lines()
            .take_while(|line| !line.starts_with("```"))
            .flat_map(|line| line.split('|').next().unwrap_or_default().split_whitespace())
            .collect();
        assert_eq!(documented.join(" "), hex.join(" "), "the {name} of the page");
    }
}
