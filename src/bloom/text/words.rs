//! The words of texts, for the index of words. The filter contains the hash of each word of each text.
//!
//! ```text
//! "GET /caña?id=0a9f-3c"   →   "GET" "caña" "id" "0a9f" "3c"
//! ```
//!
//! A word is an unbroken run of ASCII letters, ASCII digits and bytes above 127, as in ClickHouse's `splitByNonAlpha`
//! and `hasToken`. Bytes are compared as stored, so upper and lower case are different.

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

impl Filter {
    /// Inserts the words of all texts of a column.
    pub fn insert_words(&mut self, array: &ArrayRef, isa: InstructionSet) -> Result<()> {
        self.declare(ColumnType::of(&DataType::Utf8)?)?;
        let sbbf = self.sbbf_mut();
        for_each_word_batch(array, |hashes| sbbf.insert_hashes(isa, hashes))
    }

    /// Returns true if the filter contains the words of all texts of a column.
    pub fn contains_words(&self, array: &ArrayRef) -> Result<bool> {
        let mut contains = true;
        for_each_word_batch(array, |hashes| {
            contains = contains && hashes.iter().all(|hash| Sbbf::may_contain_hash(self.sbbf(), *hash));
        })?;
        Ok(contains)
    }
}

/// Calls `take` with the hashes of the words of all texts of a column, batch by batch. A hash may occur repeatedly.
pub fn for_each_word_batch(array: &ArrayRef, mut take: impl FnMut(&[u64])) -> Result<()> {
    let mut hashes = Vec::with_capacity(BATCH);
    for_each_text(array, |text| {
        for word in words(text) {
            hashes.push(hash_bytes(word));
            if hashes.len() == BATCH {
                take(&hashes);
                hashes.clear();
            }
        }
    })?;
    if !hashes.is_empty() {
        take(&hashes);
    }
    Ok(())
}

fn words(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(|byte| byte.is_ascii() && !byte.is_ascii_alphanumeric()).filter(|word| !word.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::{Int32Array, LargeStringArray, StringArray, StringViewArray};
    use proptest::prelude::*;
    use std::collections::BTreeSet;
    use std::sync::Arc;

    fn hashes(array: &ArrayRef) -> BTreeSet<u64> {
        let mut all = BTreeSet::new();
        for_each_word_batch(array, |hashes| {
            assert!(!hashes.is_empty() && hashes.len() <= BATCH);
            all.extend(hashes);
        })
        .unwrap();
        all
    }

    /// The definition, character by character.
    fn expected(texts: &[Option<String>]) -> BTreeSet<u64> {
        let mut all = BTreeSet::new();
        for text in texts.iter().flatten() {
            let mut word = String::new();
            for character in text.chars().chain(['\0']) {
                if character.is_ascii_alphanumeric() || !character.is_ascii() {
                    word.push(character);
                } else if !word.is_empty() {
                    all.insert(hash_bytes(word.as_bytes()));
                    word.clear();
                }
            }
        }
        all
    }

    proptest! {
        #[test]
        fn every_layout_has_the_words_of_its_texts(
            texts in prop::collection::vec(prop::option::of("([aZ0é😀_ /.\0-]{0,12}|\\PC{0,9})"), 0..60),
        ) {
            let layouts: [ArrayRef; 3] = [
                Arc::new(StringArray::from(texts.clone())),
                Arc::new(LargeStringArray::from(texts.clone())),
                Arc::new(StringViewArray::from_iter(texts.clone())),
            ];
            for array in layouts {
                prop_assert_eq!(&hashes(&array), &expected(&texts), "{}", array.data_type());
                let mut filter = Filter::empty(64, None).unwrap();
                filter.insert_words(&array, InstructionSet::detect()).unwrap();
                prop_assert!(filter.contains_words(&array).unwrap());
            }
        }
    }

    #[test]
    fn other_types_are_refused() {
        let numbers: ArrayRef = Arc::new(Int32Array::from(vec![1]));
        assert!(for_each_word_batch(&numbers, |_| ()).is_err());
    }
}
