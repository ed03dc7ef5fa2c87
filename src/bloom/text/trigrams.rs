//! The trigrams of texts, for the text index: a text that contains a needle contains all trigrams of the needle.
//!
//! ```text
//! "caña"   →   "cañ" "aña"      three neighboring code points as stored, hashed like a value of a string column
//! ```
//!
//! Bytes that are not UTF-8 belong to no trigram, and no trigram crosses them. Readers that compare bytes find a valid
//! needle only where its characters follow each other, so its trigrams are found there too.

use super::for_each_text;
use crate::arrow::ColumnType;
use crate::bloom::filter::Filter;
use crate::bloom::sbbf::Sbbf;
use crate::error::Result;
use crate::hash::column::BATCH;
use crate::hash::hash_bytes;
use crate::isa::InstructionSet;
use arrow_array::ArrayRef;
use arrow_schema::DataType;

/// The entries of the cache that avoids hashing a trigram again: 128 KiB, which stay in the L2 cache.
const CACHE_BITS: u32 = 14;
/// A cache entry without a trigram. Packed trigrams have 63 bits.
const NO_TRIGRAM: u64 = u64::MAX;

impl Filter {
    /// Inserts the trigrams of all texts of a column. Nulls and texts of fewer than three characters have none.
    pub fn insert_trigrams(&mut self, array: &ArrayRef, isa: InstructionSet) -> Result<()> {
        self.declare(text_type()?)?;
        let sbbf = self.sbbf_mut();
        for_each_trigram_batch(array, |hashes| sbbf.insert_hashes(isa, hashes))
    }

    /// Returns true if the filter contains the trigrams of all texts of a column.
    pub fn contains_trigrams(&self, array: &ArrayRef) -> Result<bool> {
        let mut contains = true;
        for_each_trigram_batch(array, |hashes| {
            contains = contains && hashes.iter().all(|hash| Sbbf::may_contain_hash(self.sbbf(), *hash));
        })?;
        Ok(contains)
    }
}

fn text_type() -> Result<ColumnType> {
    ColumnType::of(&DataType::Utf8)
}

/// Calls `take` with the hashes of the trigrams of all texts of a column, batch by batch. A hash may occur repeatedly.
///
/// The memory is bounded for any column. Panics for no content of the texts.
pub fn for_each_trigram_batch(array: &ArrayRef, mut take: impl FnMut(&[u64])) -> Result<()> {
    let mut trigrams = Trigrams::new(&mut take);
    for_each_text(array, |text| trigrams.add_text(text))?;
    trigrams.flush();
    Ok(())
}

struct Trigrams<'a> {
    /// The last trigram with each index, so that frequent trigrams are hashed once.
    cache: Vec<u64>,
    hashes: Vec<u64>,
    take: &'a mut dyn FnMut(&[u64]),
}

impl<'a> Trigrams<'a> {
    fn new(take: &'a mut dyn FnMut(&[u64])) -> Self {
        Self { cache: vec![NO_TRIGRAM; 1 << CACHE_BITS], hashes: Vec::with_capacity(BATCH), take }
    }

    fn add_text(&mut self, text: &[u8]) {
        for chunk in text.utf8_chunks() {
            // The last two code points before the current one, packed with 21 bits each.
            let mut before = 0;
            for (number, character) in chunk.valid().chars().enumerate() {
                let trigram = before << 21 | u64::from(u32::from(character));
                if number >= 2 {
                    self.add(trigram);
                }
                before = trigram & ((1 << 42) - 1);
            }
        }
    }

    #[inline(always)]
    fn add(&mut self, trigram: u64) {
        let entry = &mut self.cache[(trigram.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - CACHE_BITS)) as usize];
        if *entry == trigram {
            return;
        }
        *entry = trigram;
        self.hashes.push(hash_of(trigram));
        if self.hashes.len() == BATCH {
            self.flush();
        }
    }

    fn flush(&mut self) {
        if !self.hashes.is_empty() {
            (self.take)(&self.hashes);
            self.hashes.clear();
        }
    }
}

/// Returns the hash of a packed trigram, which is the hash of its UTF-8 bytes.
fn hash_of(trigram: u64) -> u64 {
    let (mut bytes, mut len) = ([0; 12], 0);
    for shift in [42, 21, 0] {
        let code_point = (trigram >> shift & ((1 << 21) - 1)) as u32;
        let character = char::from_u32(code_point).unwrap_or(char::REPLACEMENT_CHARACTER);
        len += character.encode_utf8(&mut bytes[len..]).len();
    }
    hash_bytes(&bytes[..len])
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::types::Int32Type;
    use arrow_array::{
        Array, BinaryArray, DictionaryArray, Int32Array, LargeStringArray, RunArray, StringArray, StringViewArray,
        StructArray,
    };
    use arrow_buffer::Buffer;
    use arrow_data::ArrayData;
    use arrow_schema::Field;
    use proptest::prelude::*;
    use std::collections::BTreeSet;
    use std::sync::Arc;

    fn hashes(array: &ArrayRef) -> BTreeSet<u64> {
        let mut all = BTreeSet::new();
        for_each_trigram_batch(array, |hashes| {
            assert!(!hashes.is_empty() && hashes.len() <= BATCH);
            all.extend(hashes);
        })
        .unwrap();
        all
    }

    /// The definition: three neighboring code points, as a separate string.
    fn expected<T: AsRef<str>>(texts: impl IntoIterator<Item = T>) -> BTreeSet<u64> {
        let of_text = |text: T| {
            let characters: Vec<char> = text.as_ref().chars().collect();
            let trigrams = characters.windows(3).map(|window| window.iter().collect::<String>());
            trigrams.map(|trigram| hash_bytes(trigram.as_bytes())).collect::<Vec<_>>()
        };
        texts.into_iter().flat_map(of_text).collect()
    }

    /// Text that shares trigrams, with characters of one to four bytes.
    fn texts() -> impl Strategy<Value = Vec<Option<String>>> {
        let short = prop::collection::vec(prop::sample::select("aäßİK\u{301}😀\0%".chars().collect::<Vec<_>>()), 0..12);
        let text = prop_oneof![short.prop_map(|text| text.into_iter().collect()), any::<String>()];
        prop::collection::vec(prop::option::of(text), 0..if cfg!(miri) { 4 } else { 60 })
    }

    proptest! {
        #[test]
        fn every_layout_has_the_trigrams_of_its_texts(texts in texts(), cut in any::<prop::sample::Index>()) {
            let cut = cut.index(texts.len() + 1);
            let expected = expected(texts[cut..].iter().flatten());
            let layouts: [ArrayRef; 5] = [
                Arc::new(StringArray::from(texts.clone())),
                Arc::new(LargeStringArray::from(texts.clone())),
                Arc::new(StringViewArray::from_iter(texts.clone())),
                Arc::new(texts.iter().map(Option::as_deref).collect::<DictionaryArray<Int32Type>>()),
                Arc::new(texts.iter().map(Option::as_deref).collect::<RunArray<Int32Type>>()),
            ];
            for layout in layouts {
                let array = layout.slice(cut, layout.len() - cut);
                prop_assert_eq!(&hashes(&array), &expected, "{}", array.data_type());
                let mut filter = Filter::empty(64, None).unwrap();
                filter.insert_trigrams(&array, InstructionSet::detect()).unwrap();
                prop_assert!(filter.contains_trigrams(&array).unwrap());
                let mut by_hash = Sbbf::new(64).unwrap();
                expected.iter().for_each(|hash| by_hash.insert_hash(*hash));
                prop_assert!(*filter.sbbf() == by_hash);
            }
        }

        #[test]
        fn a_needle_is_found_in_bytes_that_are_not_text(
            before in prop::collection::vec(any::<u8>(), 0..9), needle in "\\PC{3,6}",
            after in prop::collection::vec(any::<u8>(), 0..9),
        ) {
            let bytes = [before.as_slice(), needle.as_bytes(), after.as_slice()].concat();
            let array = invalid(&bytes);
            prop_assert!(hashes(&array).is_superset(&expected([needle.as_str()])));
        }
    }

    /// An array that claims to be UTF-8.
    fn invalid(bytes: &[u8]) -> ArrayRef {
        let offsets = Buffer::from_slice_ref([0, i32::try_from(bytes.len()).unwrap()]);
        let data = ArrayData::builder(DataType::Utf8).len(1).add_buffer(offsets).add_buffer(Buffer::from(bytes));
        // SAFETY: the bytes may not be UTF-8, and only functions that read them as bytes get the array.
        Arc::new(StringArray::from(unsafe { data.build_unchecked() }))
    }

    #[test]
    fn null_parents_and_unused_entries_have_no_trigrams() {
        let texts: ArrayRef = Arc::new(StringArray::from(vec!["seen", "hidden"]));
        let field = Arc::new(Field::new("text", DataType::Utf8, true));
        let parent = StructArray::new(vec![field].into(), vec![texts.clone()], Some(vec![true, false].into()));
        assert_eq!(hashes(&(Arc::new(parent) as ArrayRef)), expected(["seen"]));
        let dictionary = DictionaryArray::new(Int32Array::from(vec![Some(0), None, Some(0)]), texts);
        assert_eq!(hashes(&(Arc::new(dictionary) as ArrayRef)), expected(["seen"]));
    }

    #[test]
    fn a_filter_lacks_the_trigrams_of_other_texts() {
        let column = |texts: Vec<&str>| Arc::new(StringArray::from(texts)) as ArrayRef;
        let mut filter = Filter::empty(64, None).unwrap();
        filter.insert_trigrams(&column(vec!["abcd"]), InstructionSet::detect()).unwrap();
        assert!(filter.contains_trigrams(&column(vec!["bcd", "abc"])).unwrap());
        assert!(!filter.contains_trigrams(&column(vec!["abcd", "xyz"])).unwrap());
    }

    #[test]
    fn other_types_and_filters_of_other_types_are_refused() {
        let binary: ArrayRef = Arc::new(BinaryArray::from(vec![b"abc".as_slice()]));
        assert!(for_each_trigram_batch(&binary, |_| ()).is_err());
        let numbers: ArrayRef = Arc::new(Int32Array::from(vec![1]));
        let mut filter = Filter::empty(1, None).unwrap();
        filter.insert(&numbers, crate::bloom::ColumnOptions::default()).unwrap();
        let texts: ArrayRef = Arc::new(StringArray::from(vec!["abc"]));
        assert!(filter.insert_trigrams(&texts, InstructionSet::detect()).is_err());
    }
}
