//! The dictionary of a column chunk, and which of its entries the data pages use.
//!
//! A dictionary may have entries that no row of the chunk has: pyarrow stores all categories of a table in every row
//! group. A filter with all of them would exclude next to nothing.

use crate::cursor::Cursor;
use crate::error::Result;
use crate::int::{to_u64, to_usize};
use crate::parquet::pages::values::TakeHashes;

/// Number of hashes in one batch.
const BATCH: usize = 1024;
/// Numbers are packed in groups of eight.
const GROUP: usize = 8;
/// The most bits of an index.
const MAX_WIDTH: u8 = 32;

/// The entries of a dictionary.
#[derive(Debug)]
pub(in crate::parquet) struct Dictionary {
    hashes: Vec<u64>,
    /// One bit for each entry: whether a data page uses it.
    used: Vec<u64>,
    num_used: usize,
    /// True if some entries count as used although perhaps no row has them.
    has_guesses: bool,
}

/// How many values a data page has.
#[derive(Debug, Clone, Copy)]
pub(in crate::parquet) struct PageValues {
    /// Number of values, including nulls.
    pub(in crate::parquet) all: u64,
    /// Number of values that are not null, if the page tells.
    pub(in crate::parquet) present: Option<u64>,
}

impl Dictionary {
    /// Creates a dictionary whose entries have these hashes.
    pub(in crate::parquet) fn new(hashes: Vec<u64>) -> Self {
        let used = vec![0; hashes.len().div_ceil(64)];
        Self { hashes, used, num_used: 0, has_guesses: false }
    }

    /// Returns true if some entries count as used although perhaps no row has them.
    pub(in crate::parquet) fn has_guesses(&self) -> bool {
        self.has_guesses
    }

    /// Calls `take` with the hashes of the entries that no page before has used. `bytes` are the bit width and the indexes
    /// of the page's values.
    ///
    /// If there is any doubt about the indexes, all entries count as used: a filter without the value of a row would
    /// cause a false "no".
    pub(in crate::parquet) fn take_used(
        &mut self,
        bytes: &[u8],
        values: PageValues,
        take: &mut TakeHashes<'_>,
    ) -> Result<()> {
        if self.num_used == self.hashes.len() {
            return Ok(());
        }
        let mut new = Vec::new();
        let is_certain = self.read(bytes, values, &mut new);
        if !is_certain {
            self.has_guesses = true;
            (0..self.hashes.len()).for_each(|entry| self.use_entry(entry, &mut new));
        }
        new.chunks(BATCH).try_for_each(take)
    }

    /// Collects the hashes of the entries that become used. Returns false if some indexes may be missing.
    fn read(&mut self, bytes: &[u8], values: PageValues, new: &mut Vec<u64>) -> bool {
        // Readers take as many indexes as there are values, so indexes after them are padding.
        let (min, max) = (values.present.unwrap_or(0), values.present.unwrap_or(values.all));
        let Some((&width, indexes)) = bytes.split_first() else { return min == 0 };
        if width > MAX_WIDTH {
            return false;
        }
        if width == 0 && min > 0 {
            // Some readers need no indexes then.
            self.use_entry(0, new);
        }
        let mut cursor = Cursor::new(indexes, 0);
        let mut found = 0u64;
        while found < max && cursor.remaining() > 0 {
            let Ok(header) = cursor.varint() else { return false };
            let (left, run) = (max - found, header >> 1);
            if header & 1 == 0 {
                let Ok(value) = cursor.take(usize::from(width.div_ceil(8))) else { return false };
                let mut index = [0; 4];
                index[..value.len()].copy_from_slice(value);
                if run > 0 && !self.use_index(u32::from_le_bytes(index), true, new) {
                    return false;
                }
                found += run.min(left);
                continue;
            }
            // Some writers leave out the bytes of the padding.
            let len = to_usize(run.saturating_mul(width.into())).unwrap_or(usize::MAX).min(cursor.remaining());
            let Ok(packed) = cursor.take(len) else { return false };
            let stored = (to_u64(len) * 8).checked_div(width.into()).unwrap_or(u64::MAX);
            let end = found + run.saturating_mul(to_u64(GROUP)).min(stored).min(left);
            // Without a number of values, up to seven numbers at the end may be padding.
            let may_be_padded = values.present.is_none() && (cursor.remaining() == 0 || end == max);
            let first_guess = if may_be_padded { end.saturating_sub(to_u64(GROUP) - 1) } else { end };
            for group in unpack(packed, width) {
                for index in group.into_iter().take(to_usize(end - found).unwrap_or(GROUP)) {
                    if !self.use_index(index, found < first_guess, new) {
                        return false;
                    }
                    found += 1;
                }
            }
            // A width of zero needs no bytes: all indexes are zero.
            if found < end && !self.use_index(0, found < first_guess, new) {
                return false;
            }
            found = end;
        }
        found >= min
    }

    /// Notes that a page has an index. Returns false if there is no such entry although the page certainly has the index.
    fn use_index(&mut self, index: u32, is_certain: bool, new: &mut Vec<u64>) -> bool {
        let Some(entry) = to_usize(index.into()).filter(|entry| *entry < self.hashes.len()) else { return !is_certain };
        let num_used = self.num_used;
        self.use_entry(entry, new);
        self.has_guesses |= !is_certain && self.num_used > num_used;
        true
    }

    fn use_entry(&mut self, entry: usize, new: &mut Vec<u64>) {
        let (Some(bits), Some(hash)) = (self.used.get_mut(entry / 64), self.hashes.get(entry)) else { return };
        let bit = 1 << (entry % 64);
        if *bits & bit == 0 {
            *bits |= bit;
            self.num_used += 1;
            new.push(*hash);
        }
    }
}

/// Returns the numbers of packed bits, in groups. Numbers for which there are no bytes are zero.
fn unpack(packed: &[u8], width: u8) -> impl Iterator<Item = [u32; GROUP]> {
    let bits = usize::from(width);
    packed.chunks(bits.max(1)).map(move |bytes| {
        // Each number begins in the window of a group, and is read as a part of eight bytes.
        let mut window = [0; MAX_WIDTH as usize + 8];
        window[..bytes.len()].copy_from_slice(bytes);
        std::array::from_fn(|number| {
            let (first, shift) = (number * bits / 8, number * bits % 8);
            let mut word = [0; 8];
            word.copy_from_slice(&window[first..first + 8]);
            (u64::from_le_bytes(word) >> shift & ((1 << bits) - 1)) as u32
        })
    })
}

/// Counts how often a hybrid of runs and packed bits has its greatest possible number, `max`, among its first `count`
/// numbers. Returns `None` if numbers are missing.
pub(in crate::parquet) fn count_of_max(bytes: &[u8], max: u16, count: u64) -> Option<u64> {
    let width = (u16::BITS - max.leading_zeros()) as u8;
    let mut cursor = Cursor::new(bytes, 0);
    let (mut found, mut equal) = (0u64, 0u64);
    while found < count {
        let header = cursor.varint().ok()?;
        let (left, run) = (count - found, header >> 1);
        if header & 1 == 0 {
            let value = cursor.take(usize::from(width.div_ceil(8))).ok()?;
            let mut number = [0; 2];
            number[..value.len()].copy_from_slice(value);
            let run = run.min(left);
            equal += if u16::from_le_bytes(number) == max { run } else { 0 };
            found += run;
            continue;
        }
        let len = to_usize(run.saturating_mul(width.into())).unwrap_or(usize::MAX).min(cursor.remaining());
        let stored = (to_u64(len) * 8).checked_div(width.into())?;
        let end = found + run.saturating_mul(to_u64(GROUP)).min(stored).min(left);
        for group in unpack(cursor.take(len).ok()?, width) {
            let numbers = group.into_iter().take(to_usize(end - found).unwrap_or(GROUP));
            let mut num_numbers = 0;
            for number in numbers {
                equal += u64::from(number == u32::from(max));
                num_numbers += 1;
            }
            found += num_numbers;
        }
        if run == 0 || found < end {
            return None;
        }
    }
    Some(equal)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The used entries of a dictionary whose entries have their number as hash, and whether some are guesses.
    fn used(entries: u64, bytes: &[u8], all: u64, present: Option<u64>) -> (Vec<u64>, bool) {
        let mut dictionary = Dictionary::new((0..entries).collect());
        let mut used = Vec::new();
        let mut take = |hashes: &[u64]| {
            used.extend_from_slice(hashes);
            Ok(())
        };
        dictionary.take_used(bytes, PageValues { all, present }, &mut take).unwrap();
        dictionary.take_used(bytes, PageValues { all, present }, &mut take).unwrap();
        used.sort_unstable();
        (used, dictionary.has_guesses())
    }

    /// Packs numbers into groups of eight.
    fn pack(numbers: &[u32], width: u8, padding: u32) -> Vec<u8> {
        let len = numbers.len().next_multiple_of(8);
        let mut bits = Vec::new();
        for number in numbers.iter().chain(std::iter::repeat(&padding)).take(len) {
            bits.extend((0..width).map(|bit| number >> bit & 1 == 1));
        }
        let mut bytes = vec![((len / 8) << 1 | 1) as u8];
        bytes.extend(
            bits.chunks(8).map(|byte| byte.iter().enumerate().map(|(at, bit)| u8::from(*bit) << at).sum::<u8>()),
        );
        bytes
    }

    #[test]
    fn only_entries_of_runs_and_packed_bits_are_used() {
        // Width 4: five times entry 9, then entries 1, 2 and 3 and five numbers of padding.
        let page = [&[4, 10, 9][..], &pack(&[1, 2, 3], 4, 7)].concat();
        assert_eq!(used(16, &page, 8, Some(8)), (vec![1, 2, 3, 9], false));
        assert_eq!(used(16, &page, 13, Some(8)), (vec![1, 2, 3, 9], false));
        assert_eq!(used(16, &page, 13, None), (vec![1, 2, 3, 7, 9], true), "padding counts as used");
        assert_eq!(used(5, &page, 13, Some(8)), ((0..5).collect(), true), "there is no entry 9");
        assert_eq!(used(16, &page, 9, None), (vec![1, 2, 3, 7, 9], true));
        assert_eq!(used(16, &page, 8, None), (vec![1, 2, 3, 9], true));
        assert_eq!(used(16, &page, 3, Some(3)), (vec![9], false));
        assert_eq!(used(16, &page, 14, Some(14)), ((0..16).collect(), true), "a number is missing");
        for cut in 1..page.len() {
            let (entries, has_guesses) = used(16, &page[..cut], 8, Some(8));
            // The padding may be missing.
            let is_complete = cut >= page.len() - 2;
            assert_eq!((entries.len() < 16, has_guesses), (is_complete, !is_complete), "cut at {cut}");
        }
    }

    #[test]
    fn guesses_are_entries_that_only_padding_uses() {
        let page = |numbers: &[u32], padding| [&[4, 10, 9][..], &pack(numbers, 4, padding)].concat();
        // Without a number of values, seven of eight packed numbers may be padding.
        assert_eq!(used(16, &page(&[1, 9, 9], 9), 13, None), (vec![1, 9], false));
        assert_eq!(used(16, &page(&[1], 9), 13, None), (vec![1, 9], false));
        assert_eq!(used(16, &page(&[1, 2], 9), 13, None), (vec![1, 2, 9], true));
        // An empty run of entry 9, and five times entry 2.
        assert_eq!(used(16, &[4, 0, 9, 10, 2], 5, None), (vec![2], false));
        // Packed numbers without bits.
        assert_eq!(used(2, &[0, 3], 5, None), (vec![0], true));
    }

    #[test]
    fn a_page_of_nulls_uses_nothing_and_a_single_entry_needs_no_bits() {
        assert_eq!(used(3, &[], 5, Some(0)), (vec![], false));
        assert_eq!(used(3, &[], 5, None), (vec![], false));
        assert_eq!(used(3, &[], 5, Some(1)), (vec![0, 1, 2], true));
        assert_eq!(used(3, &[2], 5, Some(0)), (vec![], false));
        assert_eq!(used(1, &[0], 5, Some(5)), (vec![0], true), "indexes are missing");
        assert_eq!(used(1, &[0, 10], 5, Some(5)), (vec![0], false));
        assert_eq!(used(2, &[0, 3], 5, Some(5)), (vec![0], false));
        assert_eq!(used(2, &[33, 10, 0, 0, 0, 0], 5, Some(5)), (vec![0, 1], true), "indexes have at most 32 bits");
        assert_eq!(used(0, &[1, 10, 0], 5, Some(5)), (vec![], false));
    }

    #[test]
    fn present_values_are_counted_by_levels() {
        assert_eq!(count_of_max(&[10, 1], 1, 5), Some(5));
        assert_eq!(count_of_max(&[10, 0], 1, 5), Some(0));
        assert_eq!(count_of_max(&[3, 0b1010_1101], 1, 7), Some(4));
        assert_eq!(count_of_max(&[3, 0b1010_1101, 4, 1], 1, 10), Some(7));
        assert_eq!(count_of_max(&pack(&[3, 1, 3, 0], 2, 3), 3, 4), Some(2));
        assert_eq!(count_of_max(&[4, 1, 20, 1], 1, 5), Some(5), "the last run is longer");
        for damaged in [&[][..], &[10], &[3], &[1], &[0, 0], &[8, 1], &[1, 10, 1]] {
            assert_eq!(count_of_max(damaged, 1, 5), None, "{damaged:?}");
        }
    }

    proptest! {
        #[test]
        fn packed_numbers_are_unpacked(width in 0u8..=32, seed in prop::collection::vec(any::<u32>(), 0..70)) {
            let numbers: Vec<u32> = seed.iter().map(|number| (u64::from(*number) & ((1 << width) - 1)) as u32).collect();
            let page = pack(&numbers, width, 0);
            let unpacked: Vec<u32> = unpack(&page[1..], width).flatten().take(numbers.len()).collect();
            if width > 0 {
                prop_assert_eq!(unpacked, numbers);
            }
        }

        #[test]
        fn any_bytes_use_only_entries(
            bytes in prop::collection::vec(any::<u8>(), 0..60),
            entries in 0u64..50,
            all in 0u64..1 << 32,
            present in prop::option::of(0u64..99),
        ) {
            let (entries_used, _) = used(entries, &bytes, all, present);
            prop_assert!(entries_used.iter().all(|entry| *entry < entries));
            prop_assert!(entries_used.windows(2).all(|pair| pair[0] < pair[1]));
            let _ = count_of_max(&bytes, 3, all);
        }
    }
}
