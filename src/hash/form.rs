//! Equal values that writers store as different bytes. A probe must look for each of these forms.

use super::slots::ShortBytes;
use crate::arrow::{ColumnType, Meaning, PhysicalType};

/// A byte form of a value. Signed zeros and NaNs are handled elsewhere: see `bloom::Filter`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// The form that the format specifies, and the only form that is inserted into filters.
    Usual,
    /// A decimal in a BYTE_ARRAY of at least this many bytes. The format only recommends that writers use the
    /// fewest.
    Padded(usize),
    /// An INT96 before 1970 whose days are rounded towards zero and whose nanoseconds are negative, as older versions
    /// of Arrow C++ wrote it.
    Truncated,
}

impl Form {
    /// Returns every form in which writers store the values of a column.
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

    /// Returns the minimum number of bytes of a decimal.
    pub(super) fn min_bytes(self) -> usize {
        if let Self::Padded(min_bytes) = self { min_bytes } else { 1 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_schema::TimeUnit;

    fn forms(physical: PhysicalType, meaning: Meaning) -> Vec<Form> {
        Form::all(ColumnType { physical, meaning }).collect()
    }

    #[test]
    fn only_decimals_of_bytes_and_int96_have_several_forms() {
        let (decimal, time) =
            (Meaning::Decimal { scale: 2 }, Meaning::Timestamp { unit: TimeUnit::Nanosecond, zoned: false });
        let padded: Vec<Form> = std::iter::once(Form::Usual).chain((2..=32).map(Form::Padded)).collect();
        assert_eq!(forms(PhysicalType::ByteArray, decimal), padded);
        assert_eq!(forms(PhysicalType::Int96, time), [Form::Usual, Form::Truncated]);
        for (physical, meaning) in [
            (PhysicalType::ByteArray, Meaning::Bytes),
            (PhysicalType::FixedLenByteArray(16), decimal),
            (PhysicalType::Int64, decimal),
            (PhysicalType::Int64, time),
            (PhysicalType::Int96, Meaning::Date),
        ] {
            assert_eq!(forms(physical, meaning), [Form::Usual]);
        }
        assert!(Form::Truncated.is_truncated() && !Form::Usual.is_truncated() && !Form::Padded(3).is_truncated());
        assert_eq!([Form::Usual, Form::Padded(3), Form::Truncated].map(Form::min_bytes), [1, 3, 1]);
    }
}
