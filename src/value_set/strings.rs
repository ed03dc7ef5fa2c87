//! Byte strings, and numbers of more than 64 bits: copied one after the other, and found by a hash table.

use super::{Mask, num_slots, unsupported};
use crate::error::Result;
use crate::hash::column::BATCH;
use crate::hash::hash_strings;
use crate::isa::InstructionSet;
use arrow_array::Array;
use arrow_array::cast::AsArray;
use arrow_array::types::{BinaryType, BinaryViewType, LargeBinaryType, LargeUtf8Type, StringViewType, Utf8Type};
use arrow_schema::DataType;

#[derive(Debug)]
pub(super) struct Strings {
    bytes: Vec<u8>,
    /// The end of each string in `bytes`.
    ends: Vec<usize>,
    /// A hash table with linear probing: the upper half of a hash, and the number of a string plus one. Zero marks free
    /// slots.
    slots: Vec<u64>,
}

pub(super) fn are_strings(data_type: &DataType) -> bool {
    use DataType as D;
    matches!(
        data_type,
        D::Utf8 | D::LargeUtf8 | D::Utf8View | D::Binary | D::LargeBinary | D::BinaryView | D::FixedSizeBinary(_)
    ) || matches!(data_type, D::Decimal128(_, _) | D::Decimal256(_, _))
}

impl Strings {
    pub(super) fn of(array: &dyn Array, isa: InstructionSet) -> Result<Self> {
        if u32::try_from(array.len()).is_err() {
            return Err(unsupported(array.data_type(), "a set of values has at most 2^32 strings"));
        }
        let slots = vec![0; num_slots(array.len() - array.null_count())];
        let mut strings = Self { bytes: Vec::new(), ends: Vec::new(), slots };
        let mut hashes = [0; BATCH];
        for_each_batch(array, &mut |start, batch| {
            hash_strings(isa, batch, &mut hashes[..batch.len()]);
            for ((slot, string), hash) in (start..).zip(batch).zip(&hashes) {
                if array.is_valid(slot) {
                    strings.insert(string, *hash);
                }
            }
        });
        Ok(strings)
    }

    fn insert(&mut self, string: &[u8], hash: u64) {
        let at = self.find(string, hash);
        if self.slots[at] == 0 {
            self.bytes.extend_from_slice(string);
            self.ends.push(self.bytes.len());
            self.slots[at] = upper_half(hash) | self.ends.len() as u64;
        }
    }

    pub(super) fn contains(&self, array: &dyn Array, isa: InstructionSet, mask: &mut Mask) {
        let mut hashes = [0; BATCH];
        let mut found = [false; BATCH];
        for_each_batch(array, &mut |_, batch| {
            hash_strings(isa, batch, &mut hashes[..batch.len()]);
            for ((found, string), hash) in found.iter_mut().zip(batch).zip(&hashes) {
                *found = self.slots[self.find(string, *hash)] != 0;
            }
            mask.extend(&found[..batch.len()], |found| *found);
        });
    }

    /// Returns the slot of a string, or the free slot where it belongs.
    fn find(&self, string: &[u8], hash: u64) -> usize {
        let last = self.slots.len() - 1;
        let mut at = hash as usize & last;
        loop {
            let slot = self.slots[at];
            if slot == 0 || (upper_half(slot) == upper_half(hash) && self.string(slot as u32) == string) {
                return at;
            }
            at = (at + 1) & last;
        }
    }

    /// Returns a string by its number plus one.
    fn string(&self, number: u32) -> &[u8] {
        let number = number as usize;
        let start = if number < 2 { 0 } else { self.ends[number - 2] };
        &self.bytes[start..self.ends[number - 1]]
    }
}

fn upper_half(hash: u64) -> u64 {
    hash >> 32 << 32
}

/// Calls `take` with the first slot and the strings of each batch. Null slots have empty strings.
fn for_each_batch(array: &dyn Array, take: &mut dyn FnMut(usize, &[&[u8]])) {
    use DataType as D;
    match array.data_type() {
        D::Utf8 => batches(array, take, |slot| array.as_bytes::<Utf8Type>().value(slot).as_bytes()),
        D::LargeUtf8 => batches(array, take, |slot| array.as_bytes::<LargeUtf8Type>().value(slot).as_bytes()),
        D::Utf8View => batches(array, take, |slot| array.as_byte_view::<StringViewType>().value(slot).as_bytes()),
        D::Binary => batches(array, take, |slot| array.as_bytes::<BinaryType>().value(slot)),
        D::LargeBinary => batches(array, take, |slot| array.as_bytes::<LargeBinaryType>().value(slot)),
        D::BinaryView => batches(array, take, |slot| array.as_byte_view::<BinaryViewType>().value(slot)),
        D::FixedSizeBinary(_) => batches(array, take, |slot| array.as_fixed_size_binary().value(slot)),
        decimal => {
            let (data, width) = (array.to_data(), if matches!(decimal, D::Decimal128(_, _)) { 16 } else { 32 });
            let bytes = &data.buffers()[0].as_slice()[data.offset() * width..];
            batches(array, take, |slot| &bytes[slot * width..][..width]);
        }
    }
}

fn batches<'a>(array: &dyn Array, take: &mut dyn FnMut(usize, &[&[u8]]), string: impl Fn(usize) -> &'a [u8]) {
    let mut strings: [&[u8]; BATCH] = [&[]; BATCH];
    for start in (0..array.len()).step_by(BATCH) {
        let len = BATCH.min(array.len() - start);
        for (slot, out) in (start..).zip(&mut strings[..len]) {
            // Producers may leave arbitrary views and offsets in null slots.
            *out = if array.is_valid(slot) { string(slot) } else { &[] };
        }
        take(start, &strings[..len]);
    }
}
