//! The error type of the core: the kind of error and its byte offset. `Display` also suggests a remedy.

use std::fmt;

mod file;
mod page_map;
mod rows;

pub use file::FileKind;
pub use page_map::PageMapKind;
pub use rows::RowsKind;

/// The result of every fallible function of the core.
pub type Result<T> = std::result::Result<T, Error>;

/// A kind of error, and its offset in the input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    kind: ErrorKind,
    at: Option<u64>,
}

/// The class of an error. The bindings map each class to one exception type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// Bytes that do not follow their format.
    Format,
    /// Valid input that is not supported.
    Unsupported,
    /// An argument of the right type with an invalid value.
    Value,
    /// An argument of the wrong type.
    Type,
    /// Not enough memory.
    Memory,
    /// Encrypted bytes without the right key.
    Decryption,
}

/// The kinds of errors.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The input ended inside a value.
    Truncated {
        /// The bytes that the value needs.
        needed: u64,
        /// The bytes that remain.
        available: u64,
    },
    /// A variable-length integer has more bytes than its type can hold.
    VarintTooLong,
    /// A number is outside the range of its type.
    IntegerRange,
    /// A Thrift type code that does not exist in the compact protocol.
    ThriftType(u8),
    /// Thrift structures are nested deeper than the limit.
    ThriftDepth(usize),
    /// A Thrift container claims more elements than bytes remain.
    ThriftContainer {
        /// The claimed number of elements.
        elements: u64,
        /// The bytes that remain.
        available: u64,
    },
    /// A field has another Thrift type than its definition.
    FieldType {
        /// `Struct.field`.
        field: &'static str,
    },
    /// A required field is missing.
    MissingField {
        /// `Struct.field`.
        field: &'static str,
    },
    /// A structure has a field twice.
    RepeatedField {
        /// `Struct.field`.
        field: &'static str,
    },
    /// A union holds a member that this version does not know, or none.
    UnknownUnionMember {
        /// The name of the union.
        union: &'static str,
        /// The field ID. `None` for an empty union.
        member: Option<i16>,
    },
    /// A bitset size that is not a positive multiple of 32 bytes within the format's limit.
    BitsetSize(i64),
    /// A header claims a bitset larger than the input.
    BitsetBeyondInput {
        /// The claimed number of bytes.
        claimed: u64,
        /// The bytes that follow the header.
        available: u64,
    },
    /// Bytes follow the end of the value.
    TrailingBytes(u64),
    /// A number of blocks outside 1 to 2^26 - 1.
    NumBlocks(u64),
    /// Not enough memory for a filter.
    OutOfMemory {
        /// The requested number of bytes.
        num_bytes: u64,
    },
    /// A false positive rate outside the open interval (0, 1).
    Fpp,
    /// No filter that the format allows reaches the false positive rate for this many values.
    TooManyValues {
        /// The requested number of distinct values.
        ndv: u64,
    },
    /// A fold by a number that does not divide the number of blocks.
    FoldFactor {
        /// The requested divisor.
        factor: u64,
        /// The number of blocks of the filter.
        num_blocks: u64,
    },
    /// A fold by a divisor that is not a power of two, which the caller did not allow.
    FoldNotPowerOfTwo(u64),
    /// Two filters of different sizes cannot be merged.
    MergeSize {
        /// The number of blocks of the filter to merge into.
        ours: u64,
        /// The number of blocks of the other filter.
        theirs: u64,
    },
    /// Two filters hold values of different types.
    MergeType {
        /// The type of the filter to merge into.
        ours: String,
        /// The type of the other filter.
        theirs: String,
    },
    /// An Arrow type that Parquet cannot hash, or that is not supported.
    ArrowType {
        /// The Arrow type.
        arrow: String,
        /// The reason, and a remedy.
        reason: &'static str,
    },
    /// A physical type with an unknown name or length.
    PhysicalName(String),
    /// An Arrow type that cannot be converted to the physical type.
    NoPhysicalForm {
        /// The Arrow type.
        arrow: String,
        /// The column type.
        target: String,
    },
    /// A value that the column type cannot represent exactly.
    NotExact {
        /// The Arrow type of the value.
        arrow: String,
        /// The column type.
        target: String,
    },
    /// A nested column has several leaves, and none was chosen.
    SeveralLeaves(String),
    /// A nested column has no leaf with this path.
    NoSuchLeaf {
        /// The requested path.
        leaf: String,
        /// The existing leaves.
        leaves: String,
    },
    /// An error in a Parquet file or its encryption.
    File(FileKind),
    /// An error of a map of pages.
    PageMap(PageMapKind),
    /// An error of reading rows.
    Rows(RowsKind),
    /// Rows in the Avro format are inconsistent.
    AvroMalformed {
        /// The invalid field.
        field: &'static str,
    },
    /// The layout of rows in the Avro format is invalid.
    AvroLayout {
        /// The reason.
        reason: &'static str,
    },
    /// The directory of a Bloom index does not begin with its magic, or has a newer version.
    ShelfMagic,
    /// The directory of a Bloom index is inconsistent.
    ShelfMalformed {
        /// The invalid field.
        field: &'static str,
    },
    /// A part of a Sieve index does not begin with its magic, or has a newer version.
    SieveMagic {
        /// The expected part.
        part: &'static str,
    },
    /// The checksum of a part of a Sieve index does not match its bytes.
    SieveChecksum {
        /// The part.
        part: &'static str,
    },
    /// A part of a Sieve index is inconsistent.
    SieveMalformed {
        /// The invalid field.
        field: &'static str,
    },
    /// Keys, partitions or segments passed to the Sieve builder are out of order.
    SieveOrder,
    /// A location number that the index does not have.
    SieveLocation(u32),
    /// A commit whose instant belongs to another commit, or is before the newest one.
    SieveConflict {
        /// The instant of the commit.
        instant: i64,
    },
    /// An instant that the index no longer keeps.
    SieveExpired {
        /// The requested instant.
        instant: i64,
    },
    /// A required part of a Sieve index is missing.
    SieveNotLoaded {
        /// The number of the segment.
        segment: usize,
    },
    /// A segment that a compaction keeps lacks a key of a slice that was read again.
    SieveKeptKey {
        /// The unit of the key.
        location: u32,
    },
    /// A unit page of a Sieve index that is required is missing.
    SievePageMissing {
        /// The number of the page.
        page: usize,
    },
    /// An Arrow type that a Sieve index cannot order.
    SieveType {
        /// The Arrow type.
        arrow: String,
        /// The reason.
        reason: &'static str,
    },
    /// Values that cannot be compared with the values of the indexed column.
    SieveMeaning {
        /// The meaning of the indexed values.
        column: String,
        /// The meaning of the given values.
        found: String,
    },
    /// A Sieve option outside its range.
    SieveOption(&'static str),
}

impl Error {
    /// Creates an error without an offset.
    pub fn new(kind: ErrorKind) -> Self {
        Self { kind, at: None }
    }

    /// Creates an error at a byte offset of the input, or for `NotExact` at a row.
    pub fn at(kind: ErrorKind, at: u64) -> Self {
        Self { kind, at: Some(at) }
    }

    /// Returns the kind of error.
    pub fn kind(&self) -> &ErrorKind {
        &self.kind
    }

    /// Returns the byte offset of the error, or its row.
    pub fn offset(&self) -> Option<u64> {
        self.at
    }

    /// Returns the class of the error.
    pub fn class(&self) -> Class {
        use ErrorKind as K;
        match &self.kind {
            K::Truncated { .. }
            | K::VarintTooLong
            | K::IntegerRange
            | K::ThriftType(_)
            | K::ThriftDepth(_)
            | K::ThriftContainer { .. }
            | K::FieldType { .. }
            | K::MissingField { .. }
            | K::RepeatedField { .. }
            | K::BitsetSize(_)
            | K::BitsetBeyondInput { .. }
            | K::AvroMalformed { .. }
            | K::TrailingBytes(_) => Class::Format,
            K::UnknownUnionMember { .. } | K::ArrowType { .. } | K::SieveType { .. } => Class::Unsupported,
            K::NumBlocks(_)
            | K::Fpp
            | K::TooManyValues { .. }
            | K::FoldFactor { .. }
            | K::FoldNotPowerOfTwo(_)
            | K::MergeSize { .. }
            | K::PhysicalName(_)
            | K::AvroLayout { .. }
            | K::NotExact { .. }
            | K::SeveralLeaves(_)
            | K::NoSuchLeaf { .. } => Class::Value,
            K::NoPhysicalForm { .. } | K::MergeType { .. } | K::SieveMeaning { .. } => Class::Type,
            K::OutOfMemory { .. } => Class::Memory,
            K::File(kind) => kind.class(),
            K::PageMap(kind) => kind.class(),
            K::Rows(kind) => kind.class(),
            K::SieveMagic { .. } | K::ShelfMagic => Class::Unsupported,
            K::ShelfMalformed { .. } | K::SieveChecksum { .. } | K::SieveMalformed { .. } => Class::Format,
            K::SieveOrder
            | K::SieveLocation(_)
            | K::SieveConflict { .. }
            | K::SieveExpired { .. }
            | K::SieveNotLoaded { .. }
            | K::SievePageMissing { .. }
            | K::SieveKeptKey { .. }
            | K::SieveOption(_) => Class::Value,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use ErrorKind as K;
        match &self.kind {
            K::Truncated { needed, available } => {
                write!(f, "unexpected end of input: {needed} more bytes are needed, {available} are left")
            }
            K::VarintTooLong => write!(f, "a variable-length integer is longer than its type allows"),
            K::IntegerRange => write!(f, "a number is outside the range of its type"),
            K::ThriftType(code) => write!(f, "Thrift type code {code} does not exist in the compact protocol"),
            K::ThriftDepth(limit) => write!(f, "Thrift structures are nested deeper than {limit} levels"),
            K::ThriftContainer { elements, available } => {
                write!(f, "a Thrift container claims {elements} elements, but only {available} bytes are left")
            }
            K::FieldType { field } => write!(f, "{field} has the wrong Thrift type"),
            K::MissingField { field } => write!(f, "the required field {field} is missing"),
            K::RepeatedField { field } => write!(f, "the field {field} appears twice"),
            K::UnknownUnionMember { union, member: Some(member) } => {
                write!(f, "{union} holds member {member}, which this version does not know")
            }
            K::UnknownUnionMember { union, member: None } => write!(f, "{union} holds no member"),
            K::BitsetSize(size) => write!(
                f,
                "a Bloom filter claims a bitset of {size} bytes; the size must be a multiple of 32 between 32 and 2147483616"
            ),
            K::BitsetBeyondInput { claimed, available } => {
                write!(
                    f,
                    "a Bloom filter claims a bitset of {claimed} bytes, but only {available} bytes follow its header"
                )
            }
            K::TrailingBytes(count) => write!(f, "{count} bytes follow the end of the Bloom filter"),
            K::NumBlocks(blocks) => {
                write!(f, "a Bloom filter cannot have {blocks} blocks; allowed are 1 to 67108863 blocks of 32 bytes")
            }
            K::OutOfMemory { num_bytes } => write!(f, "not enough memory for Bloom filters of {num_bytes} bytes"),
            K::Fpp => write!(f, "fpp must be between 0 and 1 (exclusive), such as 0.01 for 1%"),
            K::TooManyValues { ndv } => write!(
                f,
                "a Parquet Bloom filter cannot reach that fpp for {ndv} values; use a higher fpp, or pass num_bytes"
            ),
            K::FoldFactor { factor, num_blocks } => {
                write!(
                    f,
                    "a filter of {num_blocks} blocks cannot be folded by {factor}: the factor must divide the blocks"
                )
            }
            K::FoldNotPowerOfTwo(factor) => write!(
                f,
                "folding by {factor} leaves a size that older Arrow readers refuse; pass tight=True to allow factors other than powers of two"
            ),
            K::MergeSize { ours, theirs } => {
                write!(f, "filters of {ours} and {theirs} blocks cannot be merged; fold the larger one first")
            }
            K::MergeType { ours, theirs } => {
                write!(f, "filters of {ours} and {theirs} cannot be merged: equal values have different hashes")
            }
            K::ArrowType { arrow, reason } => write!(f, "Arrow type {arrow} has no Parquet hash: {reason}"),
            K::PhysicalName(name) => write!(
                f,
                "unknown physical type {name:?}; use INT32, INT64, INT96, FLOAT, DOUBLE, BYTE_ARRAY or FIXED_LEN_BYTE_ARRAY(n)"
            ),
            K::NoPhysicalForm { arrow, target } => {
                write!(f, "Arrow type {arrow} cannot be compared with a column of {target}; cast it first")
            }
            K::NotExact { arrow, target } => {
                write!(f, "a value of type {arrow} has no exact form in a column of {target}")
            }
            K::SeveralLeaves(leaves) => write!(
                f,
                "the nested column has several leaves, each with its own filter; choose one with leaf=: {leaves}"
            ),
            K::NoSuchLeaf { leaf, leaves } => write!(f, "there is no leaf {leaf:?}; the leaves are: {leaves}"),
            K::File(kind) => kind.fmt(f),
            K::PageMap(kind) => kind.fmt(f),
            K::Rows(kind) => kind.fmt(f),
            K::AvroMalformed { field } => write!(f, "invalid Avro data: {field}"),
            K::AvroLayout { reason } => write!(f, "invalid layout of Avro rows: {reason}"),
            K::ShelfMagic => write!(
                f,
                "not a directory of Bloom filters, version 1; a newer version of parsieve may have written it"
            ),
            K::ShelfMalformed { field } => write!(f, "invalid directory of Bloom filters: {field}"),
            K::SieveMagic { part } => {
                write!(
                    f,
                    "not a {part} of a Sieve index of this version; a newer version of parsieve may have written it"
                )
            }
            K::SieveChecksum { part } => {
                write!(f, "the checksum of a {part} of a Sieve index does not match its bytes")
            }
            K::SieveMalformed { field } => write!(f, "invalid Sieve index: {field}"),
            K::SieveOrder => write!(f, "the Sieve builder needs keys and partitions in ascending order"),
            K::SieveLocation(id) => write!(f, "the Sieve index has no location {id}"),
            K::SieveConflict { instant } => {
                write!(
                    f,
                    "instant {instant} belongs to another commit or precedes the newest one; read again and retry"
                )
            }
            K::SieveExpired { instant } => write!(f, "the Sieve index no longer keeps instant {instant}"),
            K::SieveNotLoaded { segment } => write!(f, "segment {segment} of the Sieve index is missing"),
            K::SieveKeptKey { location } => {
                write!(f, "a kept segment lacks a key of unit {location}, which was read again; build the index anew")
            }
            K::SievePageMissing { page } => write!(f, "unit page {page} of the Sieve index is missing"),
            K::SieveType { arrow, reason } => write!(f, "Arrow type {arrow} cannot be indexed: {reason}"),
            K::SieveMeaning { column, found } => {
                write!(
                    f,
                    "values of kind {found:?} cannot be compared with an index of kind {column:?}; cast them first"
                )
            }
            K::SieveOption(what) => write!(f, "invalid Sieve option: {what}"),
        }?;
        match (&self.kind, self.at) {
            (K::File(FileKind::NotParquet), _) => Ok(()),
            (K::NotExact { .. }, Some(row)) => write!(f, " (row {row})"),
            (_, Some(at)) => write!(f, " (at byte {at})"),
            (_, None) => Ok(()),
        }
    }
}

impl std::error::Error for Error {}
