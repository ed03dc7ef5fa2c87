//! Equal values that files store as different bytes, so that a probe must look for each.

use super::slots::ShortBytes;
use crate::arrow::{ColumnType, Meaning, PhysicalType};

/// Which of the byte forms of a value is meant. Zeros of two signs and NaNs are no matter of forms: see `bloom::Filter`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// The one that the format asks for; the only one that is ever inserted.
    Usual,
    /// A decimal of a BYTE_ARRAY in at least so many bytes: the format only says that writers *should* use the fewest.
    Padded(usize),
    /// An INT96 of before 1970 as days rounded towards zero and nanoseconds below zero: older Arrow C++ wrote those.
    Truncated,
}

impl Form {
    /// Every form in which writers store the values of a column.
    pub fn all(column: ColumnType) -> impl Iterator<Item = Self> {
        let widest = match (column.physical, column.meaning) {
            (PhysicalType::ByteArray, Meaning::Decimal { .. }) => ShortBytes::MAX,
            _ => 1,
        };
        let truncated = column.physical == PhysicalType::Int96 && matches!(column.meaning, Meaning::Timestamp { .. });
        let others = (2..=widest).map(Self::Padded).chain(truncated.then_some(Self::Truncated));
        std::iter::once(Self::Usual).chain(others)
    }

    pub(super) fn is_truncated(self) -> bool {
        self == Self::Truncated
    }

    /// The fewest bytes of a decimal.
    pub(super) fn least_bytes(self) -> usize {
        if let Self::Padded(least) = self { least } else { 1 }
    }
}
