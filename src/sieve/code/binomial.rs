//! The binomial code: given that `count` items lie in a cell, encodes how many of them lie in the left half.
//!
//! Scattered items fall into either half with equal probability, so the code is a Huffman code for the binomial
//! distribution. If a half is too small to hold every item, only the possible counts get a code, and a full cell takes
//! no bits. Location sets and separators both use this code.

use crate::int::{index, low_u32};
use crate::sieve::code::bits::{BackReader, BitReader, Sink, Source};

/// Larger counts are rare and use phase-in codes.
const MAX_TABLE: usize = 16;

/// The longest code. The limit keeps the decoding table small.
const MAX_BITS: u32 = 7;

/// The code lengths by `count` (row) and by the number of items in the left half (column). They come from Huffman's
/// algorithm on the binomial coefficients, limited to seven bits by package-merge. They are part of the format:
/// `docs/format/sieve-v1.md` lists the same table.
const LENGTHS: [&[u8]; MAX_TABLE + 1] = [
    &[0],
    &[1, 1],
    &[2, 1, 2],
    &[3, 2, 1, 3],
    &[3, 2, 2, 2, 3],
    &[4, 3, 2, 2, 2, 4],
    &[5, 4, 2, 2, 2, 3, 5],
    &[6, 5, 3, 2, 2, 2, 4, 6],
    &[7, 6, 4, 2, 2, 2, 3, 5, 7],
    &[7, 6, 4, 3, 2, 2, 3, 3, 5, 7],
    &[7, 7, 5, 3, 3, 2, 2, 3, 4, 7, 7],
    &[7, 7, 5, 4, 3, 2, 2, 3, 4, 4, 7, 7],
    &[7, 7, 6, 5, 3, 3, 2, 2, 3, 5, 6, 7, 7],
    &[7, 7, 6, 5, 4, 3, 2, 2, 3, 4, 5, 6, 7, 7],
    &[7, 7, 6, 5, 4, 3, 3, 2, 3, 3, 4, 5, 6, 7, 7],
    &[7, 7, 7, 7, 5, 4, 3, 2, 2, 3, 4, 5, 7, 7, 7, 7],
    &[7, 7, 7, 7, 5, 4, 3, 3, 2, 3, 3, 4, 5, 7, 7, 7, 7],
];

/// For encoding, each value's code and length. For decoding, the value that any seven bits start with, and its length.
struct Tables {
    codes: [[(u8, u8); MAX_TABLE + 1]; MAX_TABLE + 1],
    values: [[(u8, u8); 1 << MAX_BITS]; MAX_TABLE + 1],
}

static TABLES: Tables = tables();

/// Builds canonical codes, ordered by length and then by value. The first bit of a code is written first, so the codes
/// are stored reversed.
const fn tables() -> Tables {
    let mut tables =
        Tables { codes: [[(0, 0); MAX_TABLE + 1]; MAX_TABLE + 1], values: [[(0, 0); 1 << MAX_BITS]; MAX_TABLE + 1] };
    let mut count = 1;
    while count <= MAX_TABLE {
        let mut code = 0u8;
        let mut length = 1u8;
        while length as u32 <= MAX_BITS {
            let mut value = 0;
            while value <= count {
                if LENGTHS[count][value] == length {
                    let reversed = code.reverse_bits() >> (8 - length);
                    tables.codes[count][value] = (reversed, length);
                    let mut rest = 0usize;
                    while rest < 1 << (MAX_BITS - length as u32) {
                        tables.values[count][rest << length | reversed as usize] = (value as u8, length);
                        rest += 1;
                    }
                    code += 1;
                }
                value += 1;
            }
            code <<= 1;
            length += 1;
        }
        count += 1;
    }
    tables
}

/// Returns the smallest and the largest number of items that the left half can hold. A capacity larger than `count` is
/// no limit.
#[inline]
fn possible(count: u32, left: u32, right: u32) -> (u32, u32) {
    (count.saturating_sub(right), count.min(left))
}

/// Writes that `value` of `count` items lie in the left half. `left` and `right` are the capacities of the halves.
#[inline]
pub(in crate::sieve) fn put_binomial(out: &mut impl Sink, value: u32, count: u32, left: u32, right: u32) {
    let (least, most) = possible(count, left, right);
    debug_assert!((least..=most).contains(&value));
    if least == most {
        return;
    }
    if most - least == count && index(count) <= MAX_TABLE {
        let (code, bits) = TABLES.codes[index(count)][index(value)];
        out.put_code(code, u32::from(bits));
    } else {
        out.put_below(value - least, most - least + 1);
    }
}

/// Reads a value written by [`put_binomial`]. The result is a possible count even if the bits are corrupt.
#[inline]
pub(in crate::sieve) fn take_binomial(source: &mut impl BinomialSource, count: u32, left: u32, right: u32) -> u32 {
    let (least, most) = possible(count, left, right);
    // A corrupt count can exceed the capacity of the cell, and only then is `least > most`.
    if least >= most {
        return most.min(least);
    }
    if most - least == count && index(count) <= MAX_TABLE {
        source.take_table(&TABLES.values[index(count)])
    } else {
        least + source.take_below(most - least + 1)
    }
}

/// A faster [`take_binomial`] for halves that are both known to be large enough for every item.
#[inline]
pub(in crate::sieve) fn take_binomial_unbounded(source: &mut BitReader<'_>, count: u32) -> u32 {
    match TABLES.values.get(index(count)) {
        Some(table) if count > 0 => source.take_table(table),
        _ => source.take_below(count + 1),
    }
}

/// A source that can decode through a table.
pub(in crate::sieve) trait BinomialSource: Source {
    fn take_table(&mut self, table: &[(u8, u8); 1 << MAX_BITS]) -> u32;
}

impl BinomialSource for BitReader<'_> {
    #[inline]
    fn take_table(&mut self, table: &[(u8, u8); 1 << MAX_BITS]) -> u32 {
        let (value, bits) = table[index(low_u32(self.peek()) & ((1 << MAX_BITS) - 1))];
        self.skip(u32::from(bits));
        u32::from(value)
    }
}

impl BinomialSource for BackReader<'_> {
    #[inline]
    fn take_table(&mut self, table: &[(u8, u8); 1 << MAX_BITS]) -> u32 {
        let (value, bits) = table[index(low_u32(self.peek_reversed(MAX_BITS)))];
        self.take(u32::from(bits));
        u32::from(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sieve::code::bits::{BackWriter, BitWriter};

    #[test]
    fn every_count_reads_back_in_both_directions() {
        let mut cases = Vec::new();
        for count in 0..=40u32 {
            for (left, right) in [(64, 64), (20, 20), (21, 20), (u32::MAX, 1 << 20), (1, 40), (40, 0)] {
                let (least, most) = possible(count, left, right);
                cases.extend((least..=most).map(|value| (value, count, left, right)));
            }
        }
        let (mut forward, mut back) = (BitWriter::default(), BackWriter::default());
        for &(value, count, left, right) in &cases {
            put_binomial(&mut forward, value, count, left, right);
            put_binomial(&mut back, value, count, left, right);
        }
        let end = usize::try_from(forward.len()).unwrap();
        back.drain_into(&mut forward);
        let total = usize::try_from(forward.len()).unwrap();
        let bytes = forward.finish();
        let (mut forward, mut back) = (BitReader::new(&bytes, 0, end), BackReader::new(&bytes, end, total));
        for &(value, count, left, right) in &cases {
            assert_eq!(take_binomial(&mut forward, count, left, right), value, "{count} in {left} and {right}");
            assert_eq!(take_binomial(&mut back, count, left, right), value, "{count} in {left} and {right}, backwards");
        }
        assert!(!forward.exhausted() && !back.exhausted());
    }

    #[test]
    fn the_prefix_codes_are_complete() {
        for lengths in &LENGTHS[1..] {
            assert_eq!(lengths.iter().map(|&bits| 1u32 << (7 - bits)).sum::<u32>(), 128);
        }
    }
}
