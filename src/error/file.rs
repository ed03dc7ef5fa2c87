//! Errors in a Parquet file, its pages or its encryption.

use std::fmt;

use super::{Class, ErrorKind};

/// The kinds of errors in a Parquet file, including valid input that is not supported.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum FileKind {
    /// The last four bytes are not a Parquet magic number.
    NotParquet,
    /// The footer claims more bytes than the file has before it.
    FooterLength {
        /// The claimed size of the metadata.
        claimed: u64,
        /// The bytes between the leading magic and the tail.
        available: u64,
    },
    /// A field occurs twice in a structure, so readers may disagree about its value.
    DuplicateField {
        /// The structure.
        structure: &'static str,
        /// The field ID.
        id: i16,
    },
    /// A field that must be changed has a non-standard type, so some writer uses it for another purpose.
    ForeignField {
        /// The structure.
        structure: &'static str,
        /// The field ID.
        id: i16,
    },
    /// Text that is not UTF-8.
    NotUtf8 {
        /// `Struct.field`.
        field: &'static str,
    },
    /// A number that is invalid for its field.
    FieldValue {
        /// `Struct.field`.
        field: &'static str,
        /// The number.
        value: i64,
    },
    /// The list of schema elements is not a valid tree.
    SchemaShape(&'static str),
    /// A row group has a different number of column chunks than the schema has leaves.
    ColumnCount {
        /// The position of the row group.
        row_group: u64,
        /// The number of column chunks.
        found: u64,
        /// The number of leaves in the schema.
        leaves: u64,
    },
    /// A column chunk names another column than the schema has at its position.
    ChunkDisagrees {
        /// The field that contradicts the schema.
        field: &'static str,
    },
    /// The data of a column chunk is in another file.
    DataElsewhere,
    /// The row group or column does not exist.
    NoSuchChunk {
        /// The requested row group.
        row_group: u64,
        /// The requested column.
        column: u64,
    },
    /// The metadata refers to bytes outside the file's data.
    OutsideFile {
        /// The object at these bytes.
        what: &'static str,
        /// Its start.
        offset: i64,
        /// Its length, if known.
        length: Option<i64>,
        /// The first byte after the file's data.
        limit: u64,
    },
    /// The metadata and the filter itself state different lengths.
    FilterLength {
        /// The length in the metadata.
        stated: u64,
        /// The length in the filter's own header.
        actual: u64,
    },
    /// A Bloom filter header that is longer than the limit.
    FilterHeaderTooLong(u64),
    /// A plaintext filter in an encrypted column, which anyone could have written.
    PlaintextFilter,
    /// A filter too long for its 32-bit length field.
    FilterTooLong(u64),
    /// A file with too many row groups or columns for encryption.
    Ordinal(u64),
    /// A change contains the same column chunk twice.
    ChunkTwice {
        /// The row group.
        row_group: u64,
        /// The column.
        column: u64,
    },
    /// A column whose values cannot be hashed.
    NoHash {
        /// The path of the column.
        column: String,
        /// The reason.
        reason: &'static str,
    },
    /// Bytes that should be wiped also belong to another part of the file.
    SharedBytes {
        /// The first byte.
        start: u64,
        /// The first byte after them.
        end: u64,
    },
    /// A page type that this version does not know.
    PageType(i32),
    /// An encoding that is invalid for the type, or that this version does not know.
    PageEncoding(i32),
    /// An unsupported compression codec.
    Compression(i32),
    /// A compressed page that is damaged, or whose length differs from its header.
    CompressedPage,
    /// A damaged page in a delta or byte-stream-split encoding.
    DeltaPage,
    /// A value of a narrow integer column is not within the column's type.
    IntegerTooWide,
    /// The pages of a column chunk contain a different number of values than the metadata states.
    ValueCount {
        /// The number in the metadata or the page header.
        stated: u64,
        /// The number of values in the pages.
        found: u64,
    },
    /// A data page refers to a dictionary, but the column chunk has none.
    NoDictionary,
    /// No key for encrypted bytes.
    KeyMissing {
        /// The owner of the key: `the footer` or the path of a column.
        what: String,
    },
    /// The file requires an AAD prefix that it does not store.
    AadPrefixMissing,
    /// An AES key that does not have 16, 24 or 32 bytes.
    KeyLength(u64),
    /// An encrypted module with an invalid length.
    ModuleLength(u64),
    /// Authentication failed. The error deliberately contains no details.
    Decryption,
    /// The system returned no random bytes for a nonce.
    NoRandomness,
    /// The bytes are encrypted, but this build cannot decrypt.
    NoCrypto,
}

impl From<FileKind> for ErrorKind {
    fn from(kind: FileKind) -> Self {
        Self::File(kind)
    }
}

impl FileKind {
    pub(super) fn class(&self) -> Class {
        use FileKind as K;
        match self {
            K::NotParquet
            | K::FooterLength { .. }
            | K::DuplicateField { .. }
            | K::NotUtf8 { .. }
            | K::FieldValue { .. }
            | K::SchemaShape(_)
            | K::ColumnCount { .. }
            | K::ChunkDisagrees { .. }
            | K::OutsideFile { .. }
            | K::FilterLength { .. }
            | K::FilterHeaderTooLong(_)
            | K::CompressedPage
            | K::DeltaPage
            | K::IntegerTooWide
            | K::ValueCount { .. }
            | K::NoDictionary
            | K::ModuleLength(_) => Class::Format,
            K::ForeignField { .. }
            | K::DataElsewhere
            | K::PlaintextFilter
            | K::FilterTooLong(_)
            | K::Ordinal(_)
            | K::NoHash { .. }
            | K::PageType(_)
            | K::PageEncoding(_)
            | K::Compression(_)
            | K::SharedBytes { .. }
            | K::NoRandomness
            | K::NoCrypto => Class::Unsupported,
            K::NoSuchChunk { .. } | K::ChunkTwice { .. } | K::KeyLength(_) => Class::Value,
            K::KeyMissing { .. } | K::AadPrefixMissing | K::Decryption => Class::Decryption,
        }
    }
}

impl fmt::Display for FileKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use FileKind as K;
        match self {
            K::NotParquet => write!(f, "not a Parquet file (missing PAR1 footer)"),
            K::FooterLength { claimed, available } => {
                write!(f, "the footer claims {claimed} bytes of metadata, but the file has only {available} before it")
            }
            K::DuplicateField { structure, id } => write!(f, "field {id} occurs twice in one {structure}"),
            K::ForeignField { structure, id } => {
                write!(f, "field {id} of {structure} has a non-standard type, so it cannot be changed")
            }
            K::NotUtf8 { field } => write!(f, "{field} is not valid UTF-8"),
            K::FieldValue { field, value } => write!(f, "{field} cannot be {value}"),
            K::SchemaShape(what) => write!(f, "invalid schema: {what}"),
            K::ColumnCount { row_group, found, leaves } => {
                write!(f, "row group {row_group} has {found} column chunks, but the schema has {leaves} columns")
            }
            K::ChunkDisagrees { field } => write!(f, "{field} disagrees with the schema"),
            K::DataElsewhere => write!(f, "the column chunk's data is in another file, which is not supported"),
            K::NoSuchChunk { row_group, column } => {
                write!(f, "the file has no column {column} in row group {row_group}")
            }
            K::OutsideFile { what, offset, length: Some(length), limit } => {
                write!(f, "{what} claims {length} bytes at offset {offset}, but the file's data ends at {limit}")
            }
            K::OutsideFile { what, offset, length: None, limit } => {
                write!(f, "{what} claims to start at offset {offset}, but the file's data ends at {limit}")
            }
            K::FilterLength { stated, actual } => {
                write!(f, "a Bloom filter has {actual} bytes by its header, but {stated} by the column's metadata")
            }
            K::FilterHeaderTooLong(limit) => {
                write!(f, "a Bloom filter header does not end within {limit} bytes")
            }
            K::PlaintextFilter => {
                write!(f, "the column is encrypted but its Bloom filter is not, so the filter cannot be trusted")
            }
            K::FilterTooLong(length) => {
                write!(f, "a Bloom filter of {length} bytes is too long; Parquet allows at most 2147483647")
            }
            K::Ordinal(ordinal) => {
                write!(
                    f,
                    "row group or column {ordinal} cannot be encrypted; encrypted files have at most 32768 of each"
                )
            }
            K::ChunkTwice { row_group, column } => {
                write!(f, "column {column} of row group {row_group} appears twice in one change")
            }
            K::NoHash { column, reason } => write!(f, "column {column:?} cannot have a Bloom filter: {reason}"),
            K::SharedBytes { start, end } => write!(
                f,
                "the plaintext filter at bytes {start} to {end} cannot be wiped: other parts of the file claim the same bytes"
            ),
            K::PageType(code) => write!(f, "page type {code} is newer than this version of parsieve"),
            K::PageEncoding(code) => write!(f, "encoding {code} of this column's values is not supported"),
            K::Compression(code) => write!(f, "compression codec {code} is not supported"),
            K::CompressedPage => write!(f, "a compressed page is damaged, or its length differs from its header"),
            K::DeltaPage => write!(f, "an encoded page is damaged"),
            K::IntegerTooWide => write!(f, "a value does not fit the type of its column, and engines read another one"),
            K::ValueCount { stated, found } => {
                write!(f, "the metadata states {stated} values, but the pages hold {found}")
            }
            K::NoDictionary => write!(f, "a data page refers to a dictionary that the column chunk does not have"),
            K::KeyMissing { what } => write!(f, "missing decryption key for {what}"),
            K::AadPrefixMissing => {
                write!(f, "the file does not store its AAD prefix; pass aad_prefix")
            }
            K::KeyLength(length) => {
                write!(f, "invalid key of {length} bytes; AES keys have 16, 24 or 32 bytes")
            }
            K::ModuleLength(length) => write!(f, "an encrypted module has an invalid length of {length} bytes"),
            K::Decryption => write!(f, "decryption failed"),
            K::NoRandomness => write!(f, "the system returned no random bytes, which encryption needs"),
            K::NoCrypto => write!(f, "the bytes are encrypted, but this build of parsieve cannot decrypt"),
        }
    }
}
