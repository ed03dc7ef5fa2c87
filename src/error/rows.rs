//! Errors of reading rows.

use std::fmt;

use super::Class;

/// The kinds of errors of reading rows.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum RowsKind {
    /// A mask with another number of values than the set has rows.
    MaskLength {
        /// The number of rows of the set.
        expected: u64,
        /// The number of values of the mask.
        found: u64,
    },
    /// Row numbers that do not ascend.
    Order,
    /// A row that the file does not have.
    NoSuchRow {
        /// The number of rows of the file.
        num_rows: u64,
    },
    /// A top-level column that the file does not have.
    NoSuchColumn(usize),
    /// A row group or column that a map of pages does not have.
    NotInMap,
    /// A column that cannot be read exactly.
    Unreadable {
        /// The name of the column.
        column: String,
        /// The property that prevents it.
        reason: String,
    },
    /// A schema that is not valid.
    Schema(String),
    /// Pages that contradict the footer or each other.
    Pages {
        /// The name of the column.
        column: String,
        /// The contradiction.
        reason: String,
    },
    /// An offset index that contradicts its pages.
    OffsetIndex,
    /// Levels of a page that do not fill it, or are greater than the schema allows.
    Levels,
    /// A page that claims many more values than its size makes likely.
    TooManyValues,
    /// Pages that cannot be decoded.
    Decode(String),
}

impl RowsKind {
    pub(super) fn class(&self) -> Class {
        match self {
            Self::MaskLength { .. } | Self::Order | Self::NoSuchRow { .. } | Self::NoSuchColumn(_) | Self::NotInMap => {
                Class::Value
            }
            Self::Unreadable { .. } | Self::TooManyValues => Class::Unsupported,
            Self::Schema(_) | Self::Pages { .. } | Self::OffsetIndex | Self::Levels | Self::Decode(_) => Class::Format,
        }
    }
}

impl fmt::Display for RowsKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::MaskLength { expected, found } => {
                write!(f, "the mask has {found} values, but the set has {expected} rows")
            }
            Self::Order => write!(f, "row numbers must ascend; sort them first"),
            Self::NoSuchRow { num_rows } => write!(f, "the rows are not all in the file, which has {num_rows} rows"),
            Self::NoSuchColumn(column) => write!(f, "the file has no column {column}"),
            Self::NotInMap => write!(f, "the map of pages lacks a row group or column; read it without selection"),
            Self::Unreadable { column, reason } => {
                write!(f, "column {column:?} cannot be read by rows: {reason}; read it with pyarrow")
            }
            Self::Schema(reason) => write!(f, "the schema of the file cannot be decoded: {reason}"),
            Self::Pages { column, reason } => write!(f, "the pages of column {column:?} are not valid: {reason}"),
            Self::OffsetIndex => write!(f, "an offset index contradicts the pages of its column; read the file again"),
            Self::Levels => write!(f, "the levels of a page are damaged"),
            Self::TooManyValues => {
                write!(f, "a page claims many more values than its size makes likely; read the file with pyarrow")
            }
            Self::Decode(reason) => write!(f, "the pages cannot be decoded: {reason}"),
        }
    }
}
