use super::*;
use arrow_array::types::Int32Type;
use arrow_array::*;
use proptest::prelude::*;
use std::sync::Arc;

fn contains(members: ArrayRef, probed: ArrayRef) -> Vec<bool> {
    for isa in InstructionSet::all() {
        let set = ValueSet::of(&members, isa).unwrap();
        let mask = set.contains(&probed).unwrap();
        assert_eq!(mask.null_count(), 0);
        if isa == InstructionSet::detect() {
            return mask.values().iter().collect();
        }
    }
    unreachable!("the detected instruction set is one of all")
}

#[test]
fn a_range_of_numbers_is_stored_as_bits() {
    let members: ArrayRef = Arc::new(Int64Array::from(vec![-3, 5, 60]));
    let set = ValueSet::of(&members, InstructionSet::detect()).unwrap();
    assert!(matches!(set.members, Members::Words(Words::Bits { .. })));
    let probed: ArrayRef = Arc::new(Int64Array::from(vec![-4, -3, 5, 6, 60, 61, 124, i64::MIN, i64::MAX]));
    let found: Vec<bool> = set.contains(&probed).unwrap().values().iter().collect();
    assert_eq!(found, [false, true, true, false, true, false, false, false, false]);
}

#[test]
fn the_extreme_numbers_of_each_type_are_found() {
    let members: ArrayRef = Arc::new(Int64Array::from(vec![i64::MIN, i64::MAX, 0]));
    let set = ValueSet::of(&members, InstructionSet::detect()).unwrap();
    assert!(matches!(set.members, Members::Words(Words::Table { has_zero: true, .. })));
    assert_eq!(
        contains(members, Arc::new(Int64Array::from(vec![i64::MIN, -1, 0, i64::MAX]))),
        [true, false, true, true]
    );
    let members: ArrayRef = Arc::new(UInt64Array::from(vec![u64::MAX]));
    assert_eq!(contains(members, Arc::new(UInt64Array::from(vec![0, u64::MAX]))), [false, true]);
    let members: ArrayRef = Arc::new(Int8Array::from(vec![-128, 127]));
    assert_eq!(contains(members, Arc::new(Int8Array::from(vec![-128, 0, 127]))), [true, false, true]);
    let members: ArrayRef = Arc::new(UInt64Array::from(Vec::<u64>::new()));
    assert_eq!(contains(members, Arc::new(UInt64Array::from(vec![0, u64::MAX]))), [false, false]);
}

#[test]
fn zeros_are_equal_and_so_are_nans() {
    let nan = f64::from_bits(f64::NAN.to_bits() | 1);
    let members: ArrayRef = Arc::new(Float64Array::from(vec![-0.0, nan, 1.5]));
    let probed = Arc::new(Float64Array::from(vec![0.0, -0.0, f64::NAN, -nan, 1.5, f64::INFINITY, 5e-324]));
    assert_eq!(contains(members, probed), [true, true, true, true, true, false, false]);
    let members: ArrayRef = Arc::new(Float32Array::from(vec![0.0, 1.5]));
    assert_eq!(contains(members, Arc::new(Float32Array::from(vec![-0.0, f32::NAN, 1.5]))), [true, false, true]);
}

#[test]
fn nulls_are_not_in_a_set() {
    let members: ArrayRef = Arc::new(Int32Array::from(vec![Some(1), None]));
    assert_eq!(contains(members, Arc::new(Int32Array::from(vec![None, Some(0), Some(1)]))), [false, false, true]);
    let members: ArrayRef = Arc::new(StringArray::from(vec![Some("a"), None]));
    assert_eq!(contains(members, Arc::new(StringArray::from(vec![None, Some(""), Some("a")]))), [false, false, true]);
}

#[test]
fn dictionaries_are_looked_up_by_their_entries() {
    let members: ArrayRef = Arc::new(StringArray::from(vec!["a", "b"]));
    let probed: DictionaryArray<Int32Type> = vec![Some("a"), Some("x"), None, Some("b")].into_iter().collect();
    assert_eq!(contains(members, Arc::new(probed)), [true, false, false, true]);
}

#[test]
fn other_types_are_refused() {
    let numbers: ArrayRef = Arc::new(Int32Array::from(vec![1]));
    let flags: ArrayRef = Arc::new(BooleanArray::from(vec![true]));
    assert!(ValueSet::of(&flags, InstructionSet::detect()).is_err());
    let set = ValueSet::of(&numbers, InstructionSet::detect()).unwrap();
    let wider: ArrayRef = Arc::new(Int64Array::from(vec![1]));
    assert!(set.contains(&wider).is_err());
}

proptest! {
    #[test]
    fn sets_contain_exactly_their_numbers(
        members in prop::collection::vec(any::<i16>(), 0..3000), shift in 0..48_u32, probed in any::<i16>(), offset in 0..70_usize,
    ) {
        // Shifted numbers are too far apart for bits.
        let wide = |number: i16| i64::from(number) << shift;
        let array: ArrayRef = Arc::new(Int64Array::from_iter_values(members.iter().copied().map(wide)));
        let values: Vec<i16> = (0..3000).map(|step: i16| probed.wrapping_add(step)).collect();
        let probes: ArrayRef = Arc::new(Int64Array::from_iter_values(values.iter().copied().map(wide)));
        let expected: Vec<bool> = values[offset..].iter().map(|value| members.contains(value)).collect();
        prop_assert_eq!(contains(array, probes.slice(offset, values.len() - offset)), expected);
    }

    #[test]
    fn sets_contain_exactly_their_strings(
        members in prop::collection::vec("[ab]{0,3}|[a-d]{30,40}", 0..200), others in prop::collection::vec("[ab]{0,3}", 0..2000),
    ) {
        let probed: Vec<&String> = others.iter().chain(&members).collect();
        let expected: Vec<bool> = probed.iter().map(|text| members.contains(text)).collect();
        let plain = |texts: &[&String]| StringArray::from_iter_values(texts);
        let whole: Vec<&String> = members.iter().collect();
        prop_assert_eq!(&contains(Arc::new(plain(&whole)), Arc::new(plain(&probed))), &expected);
        let views = |texts: &[&String]| StringViewArray::from_iter_values(texts);
        prop_assert_eq!(&contains(Arc::new(views(&whole)), Arc::new(views(&probed))), &expected);
    }

    #[test]
    fn sets_contain_exactly_their_decimals(members in prop::collection::vec(any::<i8>(), 0..200)) {
        let values = || (-128..128_i128).map(|value| value << 90);
        let decimals = |values: Vec<i128>| Decimal128Array::from(values);
        let array = decimals(members.iter().map(|value| i128::from(*value) << 90).collect());
        let expected: Vec<bool> = (i8::MIN..=i8::MAX).map(|value| members.contains(&value)).collect();
        prop_assert_eq!(contains(Arc::new(array), Arc::new(decimals(values().collect()))), expected);
    }
}
