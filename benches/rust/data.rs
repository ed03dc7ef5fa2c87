//! Columns of pseudorandom values, which are the same in every run.

use arrow_array::{ArrayRef, Int64Array, StringArray};
use std::sync::Arc;

/// The kind of values in a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Int64,
    Text16,
    Text8To24,
    Text64,
}

impl Kind {
    pub(crate) const ALL: [Self; 4] = [Self::Int64, Self::Text16, Self::Text8To24, Self::Text64];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Int64 => "int64",
            Self::Text16 => "16-byte strings",
            Self::Text8To24 => "8-24-byte strings",
            Self::Text64 => "64-byte strings",
        }
    }
}

/// A column as an Arrow array, for parsieve, and as a typed array, for loops over the peers.
pub(crate) struct Column {
    pub(crate) array: ArrayRef,
    pub(crate) values: Values,
}

/// A typed array.
pub(crate) enum Values {
    Int64(Int64Array),
    Text(StringArray),
}

impl Column {
    /// Creates a column with one value per number. Different numbers give different values.
    pub(crate) fn new(kind: Kind, numbers: impl Iterator<Item = u64>) -> Self {
        let values = match kind {
            Kind::Int64 => Values::Int64(numbers.map(|number| scramble(number).cast_signed()).collect()),
            _ => Values::Text(StringArray::from_iter_values(numbers.map(|number| text(kind, number)))),
        };
        let array: ArrayRef = match &values {
            Values::Int64(array) => Arc::new(array.clone()),
            Values::Text(array) => Arc::new(array.clone()),
        };
        Self { array, values }
    }
}

/// Evaluates an expression for each value of a column. Values are `&i64` or `&str`, which the peers accept through a
/// trait.
macro_rules! each {
    ($column:expr, |$value:ident| $body:expr) => {
        match &$column.values {
            $crate::rust::data::Values::Int64(array) => {
                for $value in array.values() {
                    $body;
                }
            }
            $crate::rust::data::Values::Text(array) => {
                for slot in 0..array.len() {
                    let $value = array.value(slot);
                    $body;
                }
            }
        }
    };
}
pub(crate) use each;

fn text(kind: Kind, number: u64) -> String {
    let word = |i: u64| format!("{:016x}", scramble(number ^ (i << 60)));
    match kind {
        Kind::Text64 => (0..4).map(word).collect(),
        Kind::Text8To24 => {
            let mut text = word(0) + &word(1);
            text.truncate(8 + (scramble(!number) % 17) as usize);
            text
        }
        Kind::Int64 | Kind::Text16 => word(0),
    }
}

/// Maps each number to a different random-looking word, by the finaliser of SplitMix64.
pub(crate) fn scramble(number: u64) -> u64 {
    let mut word = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}
