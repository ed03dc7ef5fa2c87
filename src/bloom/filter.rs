//! A Bloom filter with the column type of its values.

use super::batch::{self, AHEAD};
use super::sbbf::Sbbf;
use super::sizing::Sizes;
use super::window::Window;
use crate::arrow::{ColumnType, Leaf, Meaning, PhysicalType};
use crate::error::{Error, ErrorKind, Result};
use crate::hash::column::{BATCH, without_runs};
use crate::hash::{Form, HashedColumn, hash_bytes, hash_u32, hash_u64};
use crate::isa::InstructionSet;
use arrow_array::cast::AsArray;
use arrow_array::types::{ArrowDictionaryKeyType, Float16Type, Float32Type, Float64Type};
use arrow_array::{Array, ArrayRef, BooleanArray, DictionaryArray, PrimitiveArray, downcast_dictionary_array};
use arrow_buffer::{BooleanBuffer, Buffer, NullBuffer};
use arrow_schema::DataType;
use arrow_select::take::{TakeOptions, take};
use std::ops::Range;

/// A Bloom filter that knows its column type. A probe of another type is converted exactly or fails, so it never causes
/// a false "no".
#[derive(Debug)]
pub struct Filter {
    sbbf: Sbbf,
    column: Option<ColumnType>,
    /// True if the filter holds values of undeclared type.
    type_unknown: bool,
}

/// Options for inserting or checking a column.
#[derive(Debug, Clone, Copy)]
pub struct ColumnOptions<'a> {
    /// The path of the leaf within a nested column.
    pub leaf: Option<&'a [String]>,
    /// Maximum number of threads. The result does not depend on it.
    pub threads: usize,
    /// The instruction set for batches.
    pub isa: InstructionSet,
}

impl Default for ColumnOptions<'_> {
    fn default() -> Self {
        Self { leaf: None, threads: 1, isa: InstructionSet::detect() }
    }
}

/// Minimum number of slots per additional thread.
const SLOTS_FOR_A_THREAD: usize = 1 << 17;

impl Filter {
    /// Creates a filter from a bitset. `column` is the type of its values, if known.
    pub fn new(sbbf: Sbbf, column: Option<ColumnType>) -> Self {
        let type_unknown = column.is_none() && !sbbf.is_empty();
        Self { sbbf, column, type_unknown }
    }

    /// Creates an empty filter. Without `column`, the first inserted values determine the type.
    pub fn empty(num_blocks: u64, column: Option<ColumnType>) -> Result<Self> {
        Ok(Self { sbbf: Sbbf::new(num_blocks)?, column, type_unknown: false })
    }

    /// Returns the bitset.
    pub fn sbbf(&self) -> &Sbbf {
        &self.sbbf
    }

    /// Returns the bitset, to insert hashes of values of the filter's type.
    pub(super) fn sbbf_mut(&mut self) -> &mut Sbbf {
        &mut self.sbbf
    }

    /// Declares the type of the values. Fails if the filter holds values of another type.
    pub(super) fn declare(&mut self, column: ColumnType) -> Result<()> {
        match self.column {
            Some(ours) if ours != column => {
                Err(Error::new(ErrorKind::MergeType { ours: ours.to_string(), theirs: column.to_string() }))
            }
            _ => {
                self.column = if self.type_unknown { None } else { Some(column) };
                Ok(())
            }
        }
    }

    /// Returns the type of the values, if known.
    pub fn column(&self) -> Option<ColumnType> {
        self.column
    }

    /// Inserts the values of a column, without nulls. Values inserted before an error remain, which can only cause
    /// false positives.
    pub fn insert(&mut self, array: &ArrayRef, options: ColumnOptions<'_>) -> Result<()> {
        let leaf = Leaf::find(array, options.leaf)?;
        if *leaf.array.data_type() == DataType::Null {
            return Ok(());
        }
        let column = self.type_of(&leaf)?;
        let values = HashedColumn::of_values(&leaf, column, options.isa)?;
        // Only values determine the type, because an empty or all-null column fits any type. If the filter already
        // holds values of an unknown type, the type stays unknown: a probe of the new type would wrongly exclude the
        // old values.
        if self.column.is_none() && !self.type_unknown && values.holds_values() {
            self.column = Some(column);
        }
        // Each additional thread fills its own filter, which must be allocated and merged. This does not pay off for
        // few values.
        let max_threads = values.len() / SLOTS_FOR_A_THREAD.max(2 * self.sbbf.blocks().len());
        let mut parts = parts(values.len(), options.threads.min(max_threads));
        let own_part = parts.next().unwrap_or(0..0);
        let isa = options.isa;
        std::thread::scope(|scope| {
            let others: Vec<_> = parts
                .map(|part| {
                    let num_blocks = self.sbbf.num_blocks();
                    let values = &values;
                    scope.spawn(move || {
                        let mut other = Sbbf::new(num_blocks)?;
                        insert_part(&mut other, values, part, isa)?;
                        Ok(other)
                    })
                })
                .collect();
            let mut result = insert_part(&mut self.sbbf, &values, own_part, isa);
            for other in others {
                let other = other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
                result = result.and(other.and_then(|other| self.sbbf.merge(&other)));
            }
            result
        })
    }

    /// Returns which values may be present. `false` is certain, and nulls stay null. Zero is looked up with both signs,
    /// and NaN is never excluded.
    pub fn check(&self, array: &ArrayRef, options: ColumnOptions<'_>) -> Result<BooleanArray> {
        let leaf = Leaf::find(array, options.leaf)?;
        if *leaf.array.data_type() == DataType::Null {
            return Ok(BooleanArray::new_null(leaf.array.len()));
        }
        let column = self.type_of(&leaf)?;
        let slots = HashedColumn::of_slots(&leaf, column, options.isa)?;
        let mut answers = self.check_slots(&slots, options)?;
        for form in Form::all(column).filter(|form| *form != Form::Usual) {
            let form_answers =
                self.check_slots(&HashedColumn::of_slots_as(&leaf, column, form, options.isa)?, options)?;
            answers.iter_mut().zip(form_answers).for_each(|(word, form_word)| *word |= form_word);
        }
        if column.meaning == Meaning::Real {
            self.admit_zeros_and_nans(&leaf, column.physical, &mut answers)?;
        }
        let answers = BooleanBuffer::new(Buffer::from_vec(answers), 0, slots.len());
        Ok(BooleanArray::new(answers, slots.nulls().cloned()))
    }

    fn check_slots(&self, slots: &HashedColumn, options: ColumnOptions<'_>) -> Result<Vec<u64>> {
        let mut answers = vec![0u64; slots.len().div_ceil(64)];
        let threads = options.threads.min(slots.len() / SLOTS_FOR_A_THREAD);
        let mut rest = answers.as_mut_slice();
        std::thread::scope(|scope| {
            let mut workers = Vec::new();
            let mut parts = parts(slots.len(), threads);
            let own_part = parts.next().unwrap_or(0..0);
            let (own_answers, others) = rest.split_at_mut(own_part.len().div_ceil(64));
            rest = others;
            for part in parts {
                let (answers, others) = rest.split_at_mut(part.len().div_ceil(64));
                rest = others;
                workers.push(scope.spawn(move || check_part(&self.sbbf, slots, part, options.isa, answers)));
            }
            let result = check_part(&self.sbbf, slots, own_part, options.isa, own_answers);
            workers.into_iter().fold(result, |result, worker| {
                result.and(worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            })
        })?;
        Ok(answers)
    }

    /// Adds all values of another filter of the same size and type.
    pub fn merge(&mut self, other: &Self) -> Result<()> {
        if let (Some(ours), Some(theirs)) = (self.column, other.column)
            && ours != theirs
        {
            let (arrow, target) = (theirs.to_string(), ours.to_string());
            return Err(Error::new(ErrorKind::MergeType { ours: target, theirs: arrow }));
        }
        self.sbbf.merge(&other.sbbf)?;
        // If some values have an unknown type, the type of the merged filter is unknown.
        self.type_unknown |= other.type_unknown;
        self.column = if self.type_unknown { None } else { self.column.or(other.column) };
        Ok(())
    }

    /// Returns a smaller filter of the same values.
    pub fn folded(&self, factor: u64) -> Result<Self> {
        Ok(Self { sbbf: self.sbbf.folded(factor)?, column: self.column, type_unknown: self.type_unknown })
    }

    /// Returns the factor to fold by: the given factor, or else the largest that keeps the rate at most `fpp`.
    pub fn fold_factor(&self, factor: Option<u64>, fpp: f64, sizes: Sizes) -> Result<u64> {
        match factor {
            Some(factor) if sizes == Sizes::PowersOfTwo && !factor.is_power_of_two() && factor != 0 => {
                Err(Error::new(ErrorKind::FoldNotPowerOfTwo(factor)))
            }
            Some(factor) => Ok(factor),
            None => self.sbbf.fold_factor(fpp, sizes),
        }
    }

    /// Returns a copy, or an error if there is not enough memory.
    pub fn try_clone(&self) -> Result<Self> {
        Ok(Self { sbbf: self.sbbf.try_clone()?, column: self.column, type_unknown: self.type_unknown })
    }

    fn type_of(&self, leaf: &Leaf) -> Result<ColumnType> {
        // Check the Arrow type even if the column type is known, because BOOLEAN is invalid for every filter.
        let default = ColumnType::of(leaf.array.data_type())?;
        Ok(self.column.unwrap_or(default))
    }

    /// Sets the answers of zeros and NaNs where needed. IEEE 754 has two equal zeros, and readers disagree on the order
    /// of NaNs.
    fn admit_zeros_and_nans(&self, leaf: &Leaf, physical: PhysicalType, answers: &mut [u64]) -> Result<()> {
        let zero = zeros(physical).iter().any(|hash| self.sbbf.may_contain_hash(*hash));
        let array = flat(leaf)?;
        match array.data_type() {
            DataType::Float16 => {
                let values = array.as_primitive::<Float16Type>().values();
                admit(values, |value| value.is_nan() || (zero && value.to_f32() == 0.0), answers);
            }
            DataType::Float32 => {
                let values = array.as_primitive::<Float32Type>().values();
                admit(values, |value| value.is_nan() || (zero && value == 0.0), answers);
            }
            DataType::Float64 => {
                let values = array.as_primitive::<Float64Type>().values();
                admit(values, |value| value.is_nan() || (zero && value == 0.0), answers);
            }
            // Columns of other types only get here if all values are null.
            _ => {}
        }
        Ok(())
    }
}

/// Returns the hashes of both zeros.
pub(super) fn zeros(physical: PhysicalType) -> [u64; 2] {
    match physical {
        PhysicalType::Double => [0, 1 << 63].map(hash_u64),
        PhysicalType::Float => [0, 1 << 31].map(hash_u32),
        _ => [[0, 0], [0, 0x80]].map(|bytes| hash_bytes(&bytes)),
    }
}

fn admit<N: Copy>(values: &[N], admitted: impl Fn(N) -> bool, answers: &mut [u64]) {
    for (word, values) in answers.iter_mut().zip(values.chunks(64)) {
        *word |= values.iter().enumerate().fold(0, |bits, (slot, value)| bits | u64::from(admitted(*value)) << slot);
    }
}

/// Decodes dictionaries and runs.
pub(super) fn flat(leaf: &Leaf) -> Result<ArrayRef> {
    let array = &leaf.array;
    let flat_array = match array.data_type() {
        DataType::Dictionary(_, _) => {
            let array = array.as_ref();
            downcast_dictionary_array!(
                array => {
                    let keys = keys_in_use(array, leaf.nulls.as_ref());
                    take(array.values(), &keys, Some(TakeOptions { check_bounds: true }))
                }
                _ => unreachable!("a dictionary"),
            )
        }
        DataType::RunEndEncoded(_, _) => without_runs(array),
        _ => return Ok(array.clone()),
    };
    let flat_array = flat_array.map_err(|_| {
        let (arrow, reason) = (array.data_type().to_string(), "its values could not be gathered; cast it first");
        Error::new(ErrorKind::ArrowType { arrow, reason })
    })?;
    flat(&Leaf { array: flat_array, nulls: leaf.nulls.clone() })
}

/// Sets the keys below null parents to null, because they may be out of range.
fn keys_in_use<K: ArrowDictionaryKeyType>(array: &DictionaryArray<K>, nulls: Option<&NullBuffer>) -> PrimitiveArray<K> {
    let nulls = NullBuffer::union(nulls, array.keys().nulls());
    PrimitiveArray::new(array.keys().values().clone(), nulls)
}

/// Splits `len` slots into at most `count` parts of similar length, at boundaries of answer words and batches. Returns
/// at least one part if there are slots.
fn parts(len: usize, count: usize) -> impl Iterator<Item = Range<usize>> {
    let each = len.div_ceil(count.max(1)).next_multiple_of(BATCH).max(BATCH);
    (0..len).step_by(each).map(move |start| start..len.min(start + each))
}

fn insert_part(sbbf: &mut Sbbf, values: &HashedColumn, part: Range<usize>, isa: InstructionSet) -> Result<()> {
    let mut window = Window::new(isa);
    values.for_each_batch(isa, part, |hashes| window.insert(sbbf, hashes))?;
    window.finish(sbbf);
    Ok(())
}

fn check_part(
    sbbf: &Sbbf,
    slots: &HashedColumn,
    part: Range<usize>,
    isa: InstructionSet,
    mut answers: &mut [u64],
) -> Result<()> {
    let prefetched = batch::is_prefetched(sbbf.blocks().len());
    let mut window = vec![0; BATCH + AHEAD];
    let mut waiting = 0;
    for start in part.clone().step_by(BATCH) {
        let len = BATCH.min(part.end - start);
        slots.hash_slots(isa, start, &mut window[waiting..waiting + len])?;
        waiting += len;
        // All counts but the last are multiples of 64, as BATCH and AHEAD are, so answers fill whole words.
        let last = start + len == part.end;
        let count = if prefetched && !last { waiting.saturating_sub(AHEAD) } else { waiting };
        let (now, later) = answers.split_at_mut(count.div_ceil(64));
        batch::check(isa, sbbf.blocks(), &window[..waiting], count, now);
        answers = later;
        window.copy_within(count..waiting, 0);
        waiting -= count;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::types::ArrowPrimitiveType;
    use arrow_array::{Int32Array, Int64Array, RunArray, StringArray, UInt64Array};

    use super::*;

    type HalfFloat = <Float16Type as ArrowPrimitiveType>::Native;

    const OPTIONS: ColumnOptions<'_> = ColumnOptions { leaf: None, threads: 1, isa: InstructionSet::PORTABLE };

    fn ints(values: Range<i64>) -> ArrayRef {
        Arc::new(Int64Array::from_iter_values(values))
    }

    fn texts() -> ArrayRef {
        Arc::new(StringArray::from(vec!["a", "b"]))
    }

    fn filter_of(array: &ArrayRef) -> Filter {
        let mut filter = Filter::empty(1 << 10, None).unwrap();
        filter.insert(array, OPTIONS).unwrap();
        filter
    }

    fn reals(bits: u32, values: &[Option<f32>]) -> ArrayRef {
        let values = values.iter().copied();
        match bits {
            16 => Arc::new(values.map(|value| value.map(HalfFloat::from_f32)).collect::<PrimitiveArray<Float16Type>>()),
            32 => Arc::new(values.collect::<PrimitiveArray<Float32Type>>()),
            _ => Arc::new(values.map(|value| value.map(f64::from)).collect::<PrimitiveArray<Float64Type>>()),
        }
    }

    fn check(filter: &Filter, array: &ArrayRef) -> Vec<Option<bool>> {
        filter.check(array, OPTIONS).unwrap().iter().collect()
    }

    #[test]
    fn merged_filters_have_the_values_of_both() {
        let mut merged = filter_of(&ints(0..100));
        merged.merge(&filter_of(&ints(100..200))).unwrap();
        assert_eq!(merged.sbbf().bitset(), filter_of(&ints(0..200)).sbbf().bitset());
        let error = merged.merge(&filter_of(&texts())).unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::MergeType { .. }));
        let mut empty = filter_of(&ints(0..0));
        assert_eq!(empty.column(), None);
        empty.merge(&merged).unwrap();
        assert_eq!(empty.column(), merged.column());
    }

    #[test]
    fn values_of_an_unknown_type_keep_the_type_unknown() {
        let unknown = || Filter::new(filter_of(&texts()).sbbf().try_clone().unwrap(), None);
        let int = ColumnType::of(&DataType::Int64).unwrap();
        let (mut inserted, mut declared, mut merged) = (unknown(), unknown(), filter_of(&ints(0..9)));
        inserted.insert(&ints(0..9), OPTIONS).unwrap();
        declared.declare(int).unwrap();
        merged.merge(&unknown()).unwrap();
        assert_eq!([inserted.column(), declared.column(), merged.column()], [None; 3]);
        let mut empty = Filter::new(Sbbf::new(8).unwrap(), None);
        empty.insert(&ints(0..9), OPTIONS).unwrap();
        assert_eq!(empty.column(), Some(int));
        let folded = merged.folded(2).unwrap();
        assert!(folded.type_unknown && merged.try_clone().unwrap().type_unknown);
    }

    #[test]
    fn a_filter_has_one_declared_type() {
        let mut filter = Filter::empty(1, None).unwrap();
        let int = ColumnType::of(&DataType::Int64).unwrap();
        filter.declare(int).unwrap();
        filter.declare(int).unwrap();
        assert_eq!(filter.column(), Some(int));
        assert!(filter.declare(ColumnType::of(&DataType::Utf8).unwrap()).is_err());
    }

    #[test]
    fn zeros_are_looked_up_with_both_signs_and_nans_are_never_excluded() {
        for bits in [16, 32, 64] {
            let other_value = filter_of(&reals(bits, &[Some(7.5)]));
            let probes = reals(bits, &[Some(f32::NAN), Some(0.0), Some(1.5), None]);
            assert_eq!(check(&other_value, &probes), [Some(true), Some(false), Some(false), None]);
            for (stored, other) in [(0.0, -0.0), (-0.0, 0.0)] {
                let filter = filter_of(&reals(bits, &[Some(stored)]));
                assert_eq!(check(&filter, &reals(bits, &[Some(other), Some(1.5)])), [Some(true), Some(false)]);
            }
        }
        let values = reals(64, &[Some(f32::NAN), Some(1.5)]);
        let runs: ArrayRef = Arc::new(RunArray::try_new(&Int32Array::from(vec![2, 3]), &values).unwrap());
        let keys = Int32Array::from(vec![Some(1), None, Some(0)]);
        let dictionary: ArrayRef = Arc::new(DictionaryArray::try_new(keys, values).unwrap());
        let other_value = filter_of(&reals(64, &[Some(7.5)]));
        assert_eq!(check(&other_value, &runs), [Some(true), Some(true), Some(false)]);
        assert_eq!(check(&other_value, &dictionary), [Some(false), None, Some(true)]);
        let integers: ArrayRef = Arc::new(UInt64Array::from(vec![0, 1]));
        assert_eq!(check(&filter_of(&ints(1..2)), &integers), [Some(false), Some(true)]);
    }

    #[test]
    #[cfg_attr(miri, ignore = "many values")]
    fn threads_do_not_change_the_result() {
        let many = ColumnOptions { threads: 3, ..OPTIONS };
        let values = ints(0..500_000);
        // A filter that is prefetched, and one that is not.
        for num_blocks in [1 << 16, 1 << 14] {
            let mut alone = Filter::empty(num_blocks, None).unwrap();
            let mut together = Filter::empty(num_blocks, None).unwrap();
            alone.insert(&values, OPTIONS).unwrap();
            together.insert(&values, many).unwrap();
            assert_eq!(together.sbbf().bitset(), alone.sbbf().bitset());
            // The last batches contain inserted values, so a missing answer is noticed.
            let probes = -250_000..250_000;
            let answer = |value: i64| alone.sbbf().may_contain_hash(hash_u64(value.cast_unsigned()));
            let expected: Vec<bool> = probes.clone().map(answer).collect();
            assert!(expected[250_000..].iter().all(|answer| *answer) && expected.contains(&false));
            let (expected, probes) = (BooleanArray::from(expected), ints(probes));
            assert_eq!(alone.check(&probes, OPTIONS).unwrap(), expected);
            assert_eq!(alone.check(&probes, many).unwrap(), expected);
        }
    }

    #[test]
    fn sizes_that_are_powers_of_two_fold_only_by_powers_of_two() {
        let filter = filter_of(&ints(0..100));
        let factor = |factor, sizes| filter.fold_factor(factor, 0.01, sizes).map_err(|error| error.kind().clone());
        assert_eq!(factor(Some(3), Sizes::PowersOfTwo), Err(ErrorKind::FoldNotPowerOfTwo(3)));
        assert_eq!(factor(Some(4), Sizes::PowersOfTwo), Ok(4));
        assert_eq!(factor(Some(0), Sizes::PowersOfTwo), Ok(0));
        assert_eq!(factor(Some(3), Sizes::Any), Ok(3));
        assert_eq!(
            factor(None, Sizes::PowersOfTwo),
            filter.sbbf().fold_factor(0.01, Sizes::PowersOfTwo).map_err(|error| error.kind().clone())
        );
        assert!(factor(None, Sizes::PowersOfTwo).unwrap() > 1);
    }
}
