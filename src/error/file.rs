//! What can be wrong with a Parquet file, its pages or its encryption.

use std::fmt;

use super::{Class, ErrorKind};

/// Each way in which a Parquet file can be wrong, or more than we handle.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum FileKind {
    /// The last four bytes are not a Parquet magic number.
    NotParquet,
    /// The footer claims more bytes than the file has before its tail.
    FooterLength {
        /// Bytes that the metadata claims.
        claimed: u64,
        /// Bytes between the leading magic and the tail.
        available: u64,
    },
    /// A field occurs twice in one structure, so readers would disagree on its value.
    DuplicateField {
        /// The structure.
        structure: &'static str,
        /// The field's number.
        id: i16,
    },
    /// A field that must be written has another type in this file, so some writer gave it a meaning of its own.
    ForeignField {
        /// The structure.
        structure: &'static str,
        /// The field's number.
        id: i16,
    },
    /// Text that is not UTF-8.
    NotUtf8 {
        /// `Struct.field`.
        field: &'static str,
    },
    /// A number that its field cannot hold.
    FieldValue {
        /// `Struct.field`.
        field: &'static str,
        /// The number found.
        value: i64,
    },
    /// The list of schema elements is no tree that we follow.
    SchemaShape(&'static str),
    /// A row group has another number of column chunks than the schema has leaves.
    ColumnCount {
        /// Position of the row group.
        row_group: u64,
        /// Column chunks found.
        found: u64,
        /// Leaves of the schema.
        leaves: u64,
    },
    /// A column chunk names another column than its place in the row group.
    ChunkDisagrees {
        /// The field that disagrees with the schema.
        field: &'static str,
    },
    /// A column chunk's data lie in another file.
    DataElsewhere,
    /// No row group or no column has that number.
    NoSuchChunk {
        /// The row group asked for.
        row_group: u64,
        /// The column asked for.
        column: u64,
    },
    /// Bytes that the metadata point to lie outside the file's data.
    OutsideFile {
        /// What lies there.
        what: &'static str,
        /// Where it starts.
        offset: i64,
        /// Its length, if known.
        length: Option<i64>,
        /// The first byte after the file's data.
        limit: u64,
    },
    /// The metadata and the filter itself state different lengths.
    FilterLength {
        /// Bytes by the metadata.
        stated: u64,
        /// Bytes by the filter's own header.
        actual: u64,
    },
    /// A Bloom filter header that does not end where headers end.
    FilterHeaderTooLong(u64),
    /// A filter in plaintext, in a column that is encrypted: anybody may have written it.
    PlaintextFilter,
    /// A filter longer than its 32-bit length field can say.
    FilterTooLong(u64),
    /// A file whose number of row groups or columns is too large for encryption.
    Ordinal(u64),
    /// One column chunk is named twice in one change.
    ChunkTwice {
        /// The row group.
        row_group: u64,
        /// The column.
        column: u64,
    },
    /// A column whose values have no hash.
    NoHash {
        /// The column's path.
        column: String,
        /// Why.
        reason: &'static str,
    },
    /// Bytes that would be wiped are claimed by something else too.
    SharedBytes {
        /// Start of the bytes.
        start: u64,
        /// First byte after them.
        end: u64,
    },
    /// A page of a kind newer than this code.
    PageType(i32),
    /// Values in an encoding that their type does not have, or that is newer than this code.
    PageEncoding(i32),
    /// Pages compressed by a codec that this code does not have.
    Compression(i32),
    /// A compressed page that is damaged, or of another length than it claims.
    CompressedPage,
    /// A page in a delta or split encoding that is damaged.
    DeltaPage,
    /// The pages of a column chunk hold another number of values than its metadata say.
    ValueCount {
        /// Values by the metadata or the page header.
        stated: u64,
        /// Values found.
        found: u64,
    },
    /// A data page refers to a dictionary, and the column chunk has none.
    NoDictionary,
    /// Encrypted bytes, and no key for them.
    KeyMissing {
        /// Whose key: `the footer` or a column's path.
        what: String,
    },
    /// The file asks for an AAD prefix that it does not hold.
    AadPrefixMissing,
    /// An AES key of another length than 16, 24 or 32 bytes.
    KeyLength(u64),
    /// An encrypted module shorter than its nonce and tag, or of another length than its place.
    ModuleLength(u64),
    /// Authentication failed; deliberately no more than that.
    Decryption,
    /// The system gave no random bytes for a nonce.
    NoRandomness,
    /// Encrypted bytes, and this build cannot decrypt.
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
