//! An exact set of the values of Arrow arrays, for long lists of values.
//!
//! Two values are equal if SQL's `=` is true for them, so both zeros are equal. NaN equals NaN.

mod strings;
mod words;

use crate::error::{Error, ErrorKind, Result};
use crate::isa::InstructionSet;
use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, BooleanArray, downcast_dictionary_array};
use arrow_buffer::{BooleanBuffer, Buffer};
use arrow_schema::DataType;
use arrow_select::take::take;
use strings::Strings;
use words::Words;

/// A set of values of one type.
#[derive(Debug)]
pub struct ValueSet {
    data_type: DataType,
    members: Members,
    isa: InstructionSet,
}

#[derive(Debug)]
enum Members {
    /// Values of up to 64 bits.
    Words(Words),
    /// All other values, as byte strings.
    Strings(Strings),
}

impl ValueSet {
    /// Returns the set of the values of an array, without its nulls.
    pub fn of(array: &ArrayRef, isa: InstructionSet) -> Result<Self> {
        let members = if words::are_words(array.data_type()) {
            Members::Words(Words::of(array.as_ref(), isa))
        } else if strings::are_strings(array.data_type()) {
            Members::Strings(Strings::of(array.as_ref(), isa)?)
        } else {
            return Err(unsupported(array.data_type(), "a set of values does not support this type"));
        };
        Ok(Self { data_type: array.data_type().clone(), members, isa })
    }

    /// Returns which values of an array are in the set. Nulls are not. The array has the type of the set, or is a
    /// dictionary of values of this type.
    pub fn contains(&self, array: &ArrayRef) -> Result<BooleanArray> {
        if let DataType::Dictionary(_, values) = array.data_type()
            && **values == self.data_type
        {
            return downcast_dictionary_array!(
                array => {
                    let entries = self.contains(array.values())?;
                    let slots = take(&entries, array.keys(), None);
                    let slots = slots.map_err(|_| unsupported(array.data_type(), "a key names no entry of its dictionary"))?;
                    Ok(without_nulls(slots.as_boolean()))
                }
                _ => unreachable!("a dictionary"),
            );
        }
        if *array.data_type() != self.data_type {
            return Err(unsupported(array.data_type(), "the set has values of another type"));
        }
        let mut mask = Mask::with_capacity(array.len());
        match &self.members {
            Members::Words(words) => words.contains(array.as_ref(), self.isa, &mut mask),
            Members::Strings(strings) => strings.contains(array.as_ref(), self.isa, &mut mask),
        }
        Ok(without_nulls(&BooleanArray::new(mask.finish(), array.nulls().cloned())))
    }
}

/// Replaces nulls by false.
fn without_nulls(mask: &BooleanArray) -> BooleanArray {
    match mask.nulls() {
        None => mask.clone(),
        Some(nulls) => BooleanArray::new(mask.values() & nulls.inner(), None),
    }
}

fn unsupported(data_type: &DataType, reason: &'static str) -> Error {
    Error::new(ErrorKind::ArrowType { arrow: data_type.to_string(), reason })
}

/// A mask that grows by batches of whole 64-bit words, except for the last one.
struct Mask {
    packed: Vec<u64>,
    len: usize,
}

impl Mask {
    fn with_capacity(len: usize) -> Self {
        Self { packed: Vec::with_capacity(len.div_ceil(64)), len: 0 }
    }

    /// Appends `test` of each value.
    fn extend<T>(&mut self, values: &[T], test: impl Fn(&T) -> bool) {
        debug_assert!(self.len.is_multiple_of(64), "an earlier batch ended inside a word");
        for values in values.chunks(64) {
            let bits = values.iter().enumerate().map(|(bit, value)| u64::from(test(value)) << bit);
            self.packed.push(bits.fold(0, |all, bit| all | bit).to_le());
        }
        self.len += values.len();
    }

    fn finish(self) -> BooleanBuffer {
        BooleanBuffer::new(Buffer::from_vec(self.packed), 0, self.len)
    }
}

/// Returns the number of slots of a hash table for some values: a power of two, so that at most half are in use.
fn num_slots(values: usize) -> usize {
    (2 * values).next_power_of_two().max(16)
}

#[cfg(test)]
mod tests;
