//! Properties of filters of any column: inserted values are found, and all code paths give identical bits.

use arrow_array::types::Int32Type;
use arrow_array::*;
use parsieve::bloom::{ColumnOptions, Filter, Sbbf};
use parsieve::isa::InstructionSet;
use proptest::prelude::*;
use std::sync::Arc;

fn filled(num_blocks: u64, array: &ArrayRef, options: ColumnOptions<'_>) -> Filter {
    let mut filter = Filter::new(Sbbf::new(num_blocks).unwrap(), None);
    filter.insert(array, options).unwrap();
    filter
}

/// Generates a column in one of many layouts.
fn columns() -> impl Strategy<Value = ArrayRef> {
    let numbers = prop::collection::vec(any::<Option<i64>>(), 0..3000);
    let texts = prop::collection::vec(any::<Option<String>>(), 0..300);
    let reals = prop::collection::vec(any::<Option<f64>>(), 0..300);
    let words = prop::collection::vec(prop::option::of(0..20u8), 0..300);
    prop_oneof![
        numbers.clone().prop_map(|values| Arc::new(Int64Array::from(values)) as ArrayRef),
        numbers.prop_map(|values| {
            let small = values.into_iter().map(|value| value.map(|value| value as i16));
            Arc::new(Int16Array::from_iter(small)) as ArrayRef
        }),
        texts.clone().prop_map(|values| Arc::new(StringArray::from(values)) as ArrayRef),
        texts.prop_map(|values| Arc::new(StringViewArray::from_iter(values)) as ArrayRef),
        reals.prop_map(|values| Arc::new(Float64Array::from(values)) as ArrayRef),
        words.prop_map(|values| {
            let words = values.into_iter().map(|value| value.map(|value| format!("word {value}")));
            Arc::new(words.collect::<Vec<_>>().iter().map(Option::as_deref).collect::<DictionaryArray<Int32Type>>())
                as ArrayRef
        }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn inserted_values_are_found(array in columns(), num_blocks in 1u64..100, cut in any::<prop::sample::Index>()) {
        let array = array.slice(cut.index(array.len() + 1), array.len() - cut.index(array.len() + 1));
        let filter = filled(num_blocks, &array, ColumnOptions::default());
        let answers = filter.check(&array, ColumnOptions::default()).unwrap();
        prop_assert_eq!(answers.len(), array.len());
        prop_assert_eq!(answers.null_count(), array.logical_null_count());
        prop_assert_eq!(answers.true_count(), array.len() - array.logical_null_count());

        let decoded = Sbbf::from_bytes(&filter.sbbf().to_bytes().unwrap(), 0).unwrap();
        prop_assert!(decoded == *filter.sbbf());
    }

    #[test]
    fn all_instruction_sets_give_the_same_bits(array in columns(), num_blocks in 1u64..100) {
        let filter_and_answers = |isa| {
            let options = ColumnOptions { isa, ..ColumnOptions::default() };
            let filter = filled(num_blocks, &array, options);
            let answers = filter.check(&array, options).unwrap();
            (filter.sbbf().bitset().to_vec(), answers)
        };
        let portable = filter_and_answers(InstructionSet::PORTABLE);
        for isa in InstructionSet::all() {
            prop_assert!(filter_and_answers(isa) == portable, "{}", isa.name());
        }
    }

    #[test]
    fn merging_parts_gives_the_filter_of_all_values(array in columns(), num_blocks in 1u64..100, cut in any::<prop::sample::Index>()) {
        let middle = cut.index(array.len() + 1);
        let mut first = filled(num_blocks, &array.slice(0, middle), ColumnOptions::default());
        first.merge(&filled(num_blocks, &array.slice(middle, array.len() - middle), ColumnOptions::default())).unwrap();
        prop_assert!(first.sbbf() == filled(num_blocks, &array, ColumnOptions::default()).sbbf());
    }
}

#[test]
fn large_filters_and_threads_give_the_same_bits_and_answers() {
    // Large enough for prefetching and for several threads.
    let num_blocks = (4 << 20) / 32;
    let values: ArrayRef = Arc::new(Int64Array::from_iter((0..1_000_000i64).map(|n| (n % 11 != 5).then(|| n * n))));
    let mut one_by_one = Sbbf::new(num_blocks).unwrap();
    for n in (0..1_000_000u64).filter(|n| n % 11 != 5) {
        one_by_one.insert_hash(twox_hash::XxHash64::oneshot(0, &(n * n).to_le_bytes()));
    }
    let probes: ArrayRef = Arc::new(Int64Array::from_iter_values((0..700_001).map(|n| n * 3)));
    let expected: Vec<bool> = (0..700_001u64)
        .map(|n| one_by_one.may_contain_hash(twox_hash::XxHash64::oneshot(0, &(n * 3).to_le_bytes())))
        .collect();
    for isa in InstructionSet::all() {
        for threads in [1, 2, 3, 7] {
            let options = ColumnOptions { threads, isa, ..ColumnOptions::default() };
            let filter = filled(num_blocks, &values, options);
            assert!(*filter.sbbf() == one_by_one, "{threads} threads on {}", isa.name());
            let answers = filter.check(&probes, options).unwrap();
            assert!(answers.values().iter().eq(expected.iter().copied()), "{threads} threads on {}", isa.name());
        }
    }
}

/// With 1024 blocks, the measured rates match the exact model, but not the simple formula.
#[test]
fn measured_rates_match_the_exact_model() {
    let mut state = 0x1234_5678_9abc_def0u64;
    let mut random = move || {
        // SplitMix64.
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    };
    let isa = InstructionSet::detect();
    for (ndv, rate, tolerance) in [(26_214, 0.0126, 0.0003), (52_428, 0.179, 0.002), (13_107, 0.00042, 0.00005)] {
        let mut filter = Sbbf::new(1024).unwrap();
        let values: Vec<u64> = (0..ndv).map(|_| random()).collect();
        filter.insert_hashes(isa, &values);
        let (mut hits, mut answers) = (0u64, [0; 16]);
        let probes = 10_000_000 / 1024;
        for _ in 0..probes {
            let hashes: [u64; 1024] = std::array::from_fn(|_| random());
            filter.check_hashes(isa, &hashes, &mut answers);
            hits += answers.iter().map(|word| u64::from(word.count_ones())).sum::<u64>();
        }
        let measured = hits as f64 / (probes * 1024) as f64;
        assert!((measured - rate).abs() < tolerance, "{ndv} values: {measured}");
        assert!((filter.estimated_fpp() / measured - 1.0).abs() < 0.1, "the estimate follows the measurement");
    }
}
