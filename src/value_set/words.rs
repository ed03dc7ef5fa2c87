//! Values of up to 64 bits: as one bit for each number of a range, or in a hash table.

use super::{Mask, num_slots};
use crate::hash::column::BATCH;
use crate::hash::hash_u64s;
use crate::isa::InstructionSet;
use arrow_array::Array;
use arrow_buffer::{ArrowNativeType, ScalarBuffer};
use arrow_schema::DataType;

/// A range of numbers is stored as bits if it has at most this many numbers for each value. This takes less memory than
/// a hash table.
const MOST_BITS: u64 = 64;
/// The sign bit. Signed integers with an inverted sign bit have the order of unsigned integers.
const SIGN: u64 = 1 << 63;

#[derive(Debug)]
pub(super) enum Words {
    /// One bit for each number from `first` on.
    Bits { first: u64, bits: Vec<u64> },
    /// A hash table with linear probing. Zero marks free slots.
    Table { slots: Vec<u64>, has_zero: bool },
}

pub(super) fn are_words(data_type: &DataType) -> bool {
    data_type.primitive_width().is_some_and(|width| width <= 8) && !matches!(data_type, DataType::Interval(_))
}

impl Words {
    pub(super) fn of(array: &dyn Array, isa: InstructionSet) -> Self {
        let mut members = Vec::with_capacity(array.len() - array.null_count());
        for_each_batch(array, &mut |start, words| match array.nulls() {
            None => members.extend_from_slice(words),
            Some(nulls) => {
                members.extend((start..).zip(words).filter(|(slot, _)| nulls.is_valid(*slot)).map(|(_, word)| *word));
            }
        });
        let (first, last) =
            members.iter().fold((u64::MAX, 0), |(first, last), word| (first.min(*word), last.max(*word)));
        if !members.is_empty() && (last - first) / MOST_BITS < members.len() as u64 {
            return Self::bits(&members, first, last - first);
        }
        Self::table(&members, isa)
    }

    fn bits(members: &[u64], first: u64, span: u64) -> Self {
        let mut bits = vec![0; span as usize / 64 + 1];
        for word in members {
            let at = word - first;
            bits[at as usize / 64] |= 1 << (at % 64);
        }
        Self::Bits { first, bits }
    }

    fn table(members: &[u64], isa: InstructionSet) -> Self {
        let mut slots = vec![0; num_slots(members.len())];
        let last = slots.len() - 1;
        let (mut has_zero, mut hashes) = (false, [0; BATCH]);
        for words in members.chunks(BATCH) {
            hash_u64s(isa, words, &mut hashes[..words.len()]);
            for (word, hash) in words.iter().zip(&hashes) {
                let mut at = *hash as usize & last;
                while slots[at] != 0 && slots[at] != *word {
                    at = (at + 1) & last;
                }
                slots[at] = *word;
                has_zero |= *word == 0;
            }
        }
        Self::Table { slots, has_zero }
    }

    pub(super) fn contains(&self, array: &dyn Array, isa: InstructionSet, mask: &mut Mask) {
        match self {
            Self::Bits { first, bits } => for_each_batch(array, &mut |_, words| {
                mask.extend(words, |word| {
                    let at = word.wrapping_sub(*first);
                    bits.get((at / 64) as usize).is_some_and(|bits| bits >> (at % 64) & 1 == 1)
                });
            }),
            Self::Table { slots, has_zero } => {
                let last = slots.len() - 1;
                let mut pairs = [(0, 0); BATCH];
                let mut hashes = [0; BATCH];
                for_each_batch(array, &mut |_, words| {
                    hash_u64s(isa, words, &mut hashes[..words.len()]);
                    for ((pair, word), hash) in pairs.iter_mut().zip(words).zip(&hashes) {
                        *pair = (*word, *hash);
                    }
                    mask.extend(&pairs[..words.len()], |(word, hash)| {
                        if *word == 0 {
                            return *has_zero;
                        }
                        let mut at = *hash as usize & last;
                        while slots[at] != 0 && slots[at] != *word {
                            at = (at + 1) & last;
                        }
                        slots[at] == *word
                    });
                });
            }
        }
    }
}

/// Calls `take` with the first slot and the words of each batch. Null slots have arbitrary words.
fn for_each_batch(array: &dyn Array, take: &mut dyn FnMut(usize, &[u64])) {
    use DataType as D;
    match array.data_type() {
        D::Int8 => convert(array, take, |value: i8| i64::from(value).cast_unsigned() ^ SIGN),
        D::Int16 => convert(array, take, |value: i16| i64::from(value).cast_unsigned() ^ SIGN),
        D::Int32 | D::Date32 | D::Time32(_) | D::Decimal32(_, _) => {
            convert(array, take, |value: i32| i64::from(value).cast_unsigned() ^ SIGN);
        }
        D::UInt8 => convert(array, take, |value: u8| u64::from(value)),
        D::UInt16 => convert(array, take, |value: u16| u64::from(value)),
        D::UInt32 => convert(array, take, |value: u32| u64::from(value)),
        D::UInt64 => convert(array, take, |value: u64| value),
        // Half floats have the bits of both zeros, and of many NaNs.
        D::Float16 => convert(array, take, |bits: u16| match bits & 0x7fff {
            0 => 0,
            nan if nan > 0x7c00 => 0x7e00,
            _ => u64::from(bits),
        }),
        D::Float32 => convert(array, take, |value: f32| of_float(f64::from(value))),
        D::Float64 => convert(array, take, of_float),
        _ => convert(array, take, |value: i64| value.cast_unsigned() ^ SIGN),
    }
}

/// Returns the bits of a number. Both zeros have the same bits, and so have all NaNs.
fn of_float(value: f64) -> u64 {
    if value.is_nan() { f64::NAN.to_bits() } else { (value + 0.0).to_bits() }
}

fn convert<N: ArrowNativeType>(array: &dyn Array, take: &mut dyn FnMut(usize, &[u64]), word: impl Fn(N) -> u64) {
    let data = array.to_data();
    let values = ScalarBuffer::<N>::new(data.buffers()[0].clone(), data.offset(), data.len());
    let mut words = [0; BATCH];
    for (start, values) in (0..).step_by(BATCH).zip(values.chunks(BATCH)) {
        for (out, value) in words.iter_mut().zip(values) {
            *out = word(*value);
        }
        take(start, &words[..values.len()]);
    }
}
