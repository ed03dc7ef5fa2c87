//! Errors in a map of pages, and files that cannot have one.

use std::fmt;

use super::Class;

/// The kinds of errors of a map of pages.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum PageMapKind {
    /// The directory does not begin with its magic, or has a newer version.
    Magic,
    /// The checksum of the directory or of a block does not match its bytes.
    Checksum,
    /// The directory or a block is inconsistent.
    Malformed {
        /// The invalid field.
        field: &'static str,
    },
    /// A file that cannot have a map.
    NoMap {
        /// The property that prevents it.
        reason: &'static str,
    },
    /// Slices added to a map out of order, or twice.
    Order,
    /// A footer was requested for a part of a file's columns.
    PartialColumns,
}

impl PageMapKind {
    pub(super) fn class(&self) -> Class {
        match self {
            Self::Magic | Self::NoMap { .. } => Class::Unsupported,
            Self::Checksum | Self::Malformed { .. } => Class::Format,
            Self::Order | Self::PartialColumns => Class::Value,
        }
    }
}

impl fmt::Display for PageMapKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Magic => {
                write!(f, "not a map of pages, version 1; a newer version of parsieve may have written it")
            }
            Self::Checksum => write!(f, "the checksum of a map of pages does not match its bytes"),
            Self::Malformed { field } => write!(f, "invalid map of pages: {field}"),
            Self::NoMap { reason } => write!(f, "the file cannot have a map of its pages: {reason}"),
            Self::Order => write!(f, "slices must be added to a map of pages in ascending order"),
            Self::PartialColumns => write!(f, "a footer needs all columns; read the file's map without columns="),
        }
    }
}
