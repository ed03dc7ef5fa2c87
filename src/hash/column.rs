//! Hashes a leaf in batches. Skips null slots, and hashes each dictionary entry and each run only once.

use super::form::Form;
use super::plain;
use super::slots::{Entries, Slots};
use crate::arrow::{ColumnType, Leaf};
use crate::error::{Error, ErrorKind, Result};
use crate::isa::InstructionSet;
use arrow_array::cast::AsArray;
use arrow_array::types::{Int16Type, Int32Type, Int64Type, RunEndIndexType};
use arrow_array::{Array, ArrayRef, RunArray, UInt64Array, downcast_dictionary_array};
use arrow_buffer::{ArrowNativeType, BooleanBufferBuilder, NullBuffer};
use arrow_schema::{ArrowError, DataType};
use std::ops::Range;

/// Number of hashes in a batch: 8 KiB, which stay in the L1 cache until they reach the filter.
pub const BATCH: usize = 1024;

/// A leaf that is ready to be hashed as a column of a given type.
pub struct HashedColumn {
    slots: Box<dyn Slots>,
    nulls: Option<NullBuffer>,
    len: usize,
}

impl HashedColumn {
    /// Prepares one hash per slot.
    pub fn of_slots(leaf: &Leaf, to: ColumnType, isa: InstructionSet) -> Result<Self> {
        Self::of_slots_as(leaf, to, Form::Usual, isa)
    }

    /// Prepares one hash per slot, for one byte form of its value.
    pub fn of_slots_as(leaf: &Leaf, to: ColumnType, form: Form, isa: InstructionSet) -> Result<Self> {
        // A slot is also null if its dictionary entry or run is null.
        let nulls = NullBuffer::union(leaf.nulls.as_ref(), leaf.array.logical_nulls().as_ref());
        let len = leaf.array.len();
        let slots = if nulls.as_ref().is_some_and(|nulls| nulls.null_count() == len) {
            // There is nothing to hash. The type may not even be hashable: a column of the null type, for example.
            Box::new(Entries { hashes: vec![], entry: |_: usize, _: &mut dyn FnMut(usize) -> bool| {} })
        } else {
            slots(leaf, nulls.as_ref(), to, form, isa)?
        };
        Ok(Self { slots, nulls, len })
    }

    /// Prepares one hash per physical value: dictionary entries in use and runs are hashed once.
    pub fn of_values(leaf: &Leaf, to: ColumnType, isa: InstructionSet) -> Result<Self> {
        Self::of_values_as(leaf, to, Form::Usual, isa)
    }

    /// Prepares one hash per physical value, for one byte form of each value.
    pub fn of_values_as(leaf: &Leaf, to: ColumnType, form: Form, isa: InstructionSet) -> Result<Self> {
        match values_in_use(leaf)? {
            Some(values) => Self::of_values_as(&values, to, form, isa),
            None => Self::of_slots_as(leaf, to, form, isa),
        }
    }

    /// Returns the number of slots, including null slots.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns true if there are no slots.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns true if any slot is not null.
    pub fn holds_values(&self) -> bool {
        self.nulls.as_ref().map_or(0, NullBuffer::null_count) < self.len
    }

    /// Returns the null slots.
    pub fn nulls(&self) -> Option<&NullBuffer> {
        self.nulls.as_ref()
    }

    /// Hashes `hashes.len()` slots from `start` on. Null slots get an arbitrary hash.
    pub fn hash_slots(&self, isa: InstructionSet, start: usize, hashes: &mut [u64]) -> Result<()> {
        self.slots.hash(isa, start, hashes)
    }

    /// Calls `take` with the hashes of the non-null slots in `range`, batch by batch.
    pub fn for_each_batch(&self, isa: InstructionSet, range: Range<usize>, mut take: impl FnMut(&[u64])) -> Result<()> {
        let mut hashes = [0; BATCH];
        for start in range.clone().step_by(BATCH) {
            let len = BATCH.min(range.end - start);
            match &self.nulls {
                None => {
                    self.slots.hash(isa, start, &mut hashes[..len])?;
                    take(&hashes[..len]);
                }
                Some(nulls) => {
                    let valid = nulls.inner().slice(start, len);
                    let num_valid = valid.count_set_bits();
                    if num_valid == 0 {
                        continue;
                    }
                    self.slots.hash(isa, start, &mut hashes[..len])?;
                    if num_valid < len {
                        keep_valid(&mut hashes[..len], valid.iter());
                    }
                    take(&hashes[..num_valid]);
                }
            }
        }
        Ok(())
    }
}

/// Moves the hashes of valid slots to the front. Writes every hash and advances only after valid ones, which avoids a
/// mispredicted branch.
fn keep_valid(hashes: &mut [u64], valid: impl Iterator<Item = bool>) {
    let mut num_valid = 0;
    for (slot, valid) in valid.enumerate() {
        hashes[num_valid] = hashes[slot];
        num_valid += usize::from(valid);
    }
}

fn slots(
    leaf: &Leaf,
    nulls: Option<&NullBuffer>,
    to: ColumnType,
    form: Form,
    isa: InstructionSet,
) -> Result<Box<dyn Slots>> {
    let array = leaf.array.as_ref();
    match array.data_type() {
        DataType::Dictionary(_, _) => downcast_dictionary_array!(
            array => {
                let hashes = entry_hashes(leaf, to, form, isa)?;
                let keys = array.keys().values().clone();
                let entry = move |start: usize, take: &mut dyn FnMut(usize) -> bool| {
                    let _ = keys[start..].iter().all(|key| take(key.as_usize()));
                };
                Ok(Box::new(Entries { hashes, entry }))
            }
            _ => unreachable!("a dictionary"),
        ),
        DataType::RunEndEncoded(ends, _) => match ends.data_type() {
            DataType::Int16 => runs::<Int16Type>(leaf, to, form, isa),
            DataType::Int32 => runs::<Int32Type>(leaf, to, form, isa),
            _ => runs::<Int64Type>(leaf, to, form, isa),
        },
        _ => plain::slots(array, nulls, to, form),
    }
}

fn runs<R: RunEndIndexType>(leaf: &Leaf, to: ColumnType, form: Form, isa: InstructionSet) -> Result<Box<dyn Slots>> {
    let array = run_array::<R>(leaf);
    let hashes = entry_hashes(leaf, to, form, isa)?;
    let (first, ends) = (array.get_start_physical_index(), array.run_ends().clone());
    let entry = move |start: usize, take: &mut dyn FnMut(usize) -> bool| {
        if start >= ends.len() {
            return;
        }
        let (mut run, end_of) = (ends.get_physical_index(start), ends.values());
        for slot in start + ends.offset().. {
            while run < end_of.len() && end_of[run].as_usize() <= slot {
                run += 1;
            }
            if !take(run - first) {
                return;
            }
        }
    };
    Ok(Box::new(Entries { hashes, entry }))
}

/// Returns one hash per dictionary entry or per run. Unused entries are not hashed.
fn entry_hashes(leaf: &Leaf, to: ColumnType, form: Form, isa: InstructionSet) -> Result<Vec<u64>> {
    let Some(values) = values_in_use(leaf)? else { return Ok(vec![]) };
    let values = HashedColumn::of_slots_as(&values, to, form, isa)?;
    let mut hashes = vec![0; values.len()];
    for (start, hashes) in (0..).step_by(BATCH).zip(hashes.chunks_mut(BATCH)) {
        let in_use = values.nulls().is_none_or(|nulls| nulls.inner().slice(start, hashes.len()).count_set_bits() > 0);
        if in_use {
            values.hash_slots(isa, start, hashes)?;
        }
    }
    Ok(hashes)
}

/// Returns the entries of a dictionary or the values of runs, where entries without a valid slot are null. Returns
/// `None` for other arrays.
pub(crate) fn values_in_use(leaf: &Leaf) -> Result<Option<Leaf>> {
    let array = leaf.array.as_ref();
    match array.data_type() {
        DataType::Dictionary(_, _) => downcast_dictionary_array!(
            array => {
                let entries = array.values();
                let nulls = NullBuffer::union(leaf.nulls.as_ref(), array.nulls());
                let keys = array.keys().values().iter().map(|key| key.as_usize());
                let used = used_entries(keys, nulls.as_ref(), entries.len()).ok_or_else(|| {
                    let (arrow, reason) = (array.data_type().to_string(), "a key names no entry of its dictionary");
                    Error::new(ErrorKind::ArrowType { arrow, reason })
                })?;
                Ok(Some(Leaf { array: entries.clone(), nulls: NullBuffer::union(Some(&used), entries.nulls()) }))
            }
            _ => unreachable!("a dictionary"),
        ),
        DataType::RunEndEncoded(ends, _) => Ok(Some(match ends.data_type() {
            DataType::Int16 => run_values::<Int16Type>(leaf),
            DataType::Int32 => run_values::<Int32Type>(leaf),
            _ => run_values::<Int64Type>(leaf),
        })),
        _ => Ok(None),
    }
}

fn run_values<R: RunEndIndexType>(leaf: &Leaf) -> Leaf {
    let array = run_array::<R>(leaf);
    let values = array.values_slice();
    // A run of this slice can only be unused if a parent is null.
    let used = leaf.nulls.as_ref().and_then(|nulls| {
        let (first, ends) = (array.get_start_physical_index(), array.run_ends());
        let runs = (0..array.len()).map(|slot| ends.get_physical_index(slot) - first);
        used_entries(runs, Some(nulls), values.len())
    });
    Leaf { nulls: NullBuffer::union(used.as_ref(), values.nulls()), array: values }
}

/// Decodes a run-end-encoded array. Returns other arrays unchanged.
pub fn without_runs(array: &ArrayRef) -> std::result::Result<ArrayRef, ArrowError> {
    fn decoded<R: RunEndIndexType>(array: &RunArray<R>) -> std::result::Result<ArrayRef, ArrowError> {
        let runs = (0..array.len()).map(|slot| array.get_physical_index(slot) as u64);
        arrow_select::take::take(array.values(), &UInt64Array::from_iter_values(runs), None)
    }
    match array.data_type() {
        DataType::RunEndEncoded(ends, _) => match ends.data_type() {
            DataType::Int16 => decoded(array.as_run::<Int16Type>()),
            DataType::Int32 => decoded(array.as_run::<Int32Type>()),
            _ => decoded(array.as_run::<Int64Type>()),
        },
        _ => Ok(array.clone()),
    }
}

fn run_array<R: RunEndIndexType>(leaf: &Leaf) -> &RunArray<R> {
    leaf.array.as_run::<R>()
}

/// Marks the entries that valid slots refer to. Returns `None` if a slot refers to a nonexistent entry.
fn used_entries(
    entries: impl Iterator<Item = usize>,
    nulls: Option<&NullBuffer>,
    num_entries: usize,
) -> Option<NullBuffer> {
    let mut used = BooleanBufferBuilder::new(num_entries);
    used.append_n(num_entries, false);
    for (slot, entry) in entries.enumerate() {
        if nulls.is_none_or(|nulls| nulls.is_valid(slot)) {
            if entry >= num_entries {
                return None;
            }
            used.set_bit(entry, true);
        }
    }
    Some(NullBuffer::new(used.finish()))
}

#[cfg(test)]
#[path = "column_tests.rs"]
mod tests;
