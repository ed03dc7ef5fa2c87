//! The one error of the core: what was wrong, at which byte, and (in `Display`) what is allowed instead.

use std::fmt;

mod file;

pub use file::FileKind;

/// Result of every fallible function of the core.
pub type Result<T> = std::result::Result<T, Error>;

/// What went wrong, and where in the bytes or rows that were given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    kind: ErrorKind,
    at: Option<u64>,
}

/// The family an error belongs to; the bindings map each to one exception type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// Bytes that do not follow their format.
    Format,
    /// Something correct that we do not handle.
    Unsupported,
    /// An argument of the right type with an impossible value.
    Value,
    /// An argument of the wrong type.
    Type,
    /// Memory that the machine does not have.
    Memory,
    /// Encrypted bytes without the right key.
    Decryption,
}

/// Each way to be wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The input ended before a value did.
    Truncated {
        /// Bytes that the value still needs.
        needed: u64,
        /// Bytes that are left.
        available: u64,
    },
    /// A variable-length integer has more bytes than its type can hold.
    VarintTooLong,
    /// A number lies outside the range of its type.
    IntegerRange,
    /// A Thrift type code that the compact protocol does not have.
    ThriftType(u8),
    /// Thrift structures nested deeper than we follow.
    ThriftDepth(usize),
    /// A Thrift container claims more elements than bytes are left.
    ThriftContainer {
        /// Elements that it claims.
        elements: u64,
        /// Bytes that are left.
        available: u64,
    },
    /// A field has another Thrift type than its definition says.
    FieldType {
        /// `Struct.field`.
        field: &'static str,
    },
    /// A required field is absent.
    MissingField {
        /// `Struct.field`.
        field: &'static str,
    },
    /// A structure has a field twice.
    RepeatedField {
        /// `Struct.field`.
        field: &'static str,
    },
    /// A union holds a member that is newer than this code, or none.
    UnknownUnionMember {
        /// The union's name.
        union: &'static str,
        /// The field id found; `None` for an empty union.
        member: Option<i16>,
    },
    /// A bitset size that is not a positive multiple of 32 bytes within the format's limit.
    BitsetSize(i64),
    /// A header claims a bitset larger than the input.
    BitsetBeyondInput {
        /// Bytes that the header claims.
        claimed: u64,
        /// Bytes that follow the header.
        available: u64,
    },
    /// Bytes are left over after the value.
    TrailingBytes(u64),
    /// A number of blocks outside 1 to 2^26 - 1.
    NumBlocks(u64),
    /// The machine has no memory for a filter.
    OutOfMemory {
        /// Bytes asked for.
        num_bytes: u64,
    },
    /// A false positive rate outside the open interval (0, 1).
    Fpp,
    /// No filter that the format can hold keeps the promised rate for so many values.
    TooManyValues {
        /// Distinct values asked for.
        ndv: u64,
    },
    /// A fold by a number that does not divide the blocks.
    FoldFactor {
        /// The divisor asked for.
        factor: u64,
        /// The filter's blocks.
        num_blocks: u64,
    },
    /// A fold by a divisor that is not a power of two, without the caller's consent.
    FoldNotPowerOfTwo(u64),
    /// Two filters of different sizes cannot be merged.
    MergeSize {
        /// Blocks of the filter merged into.
        ours: u64,
        /// Blocks of the other.
        theirs: u64,
    },
    /// Two filters hold values of different types.
    MergeType {
        /// Type of the filter merged into.
        ours: String,
        /// Type of the other.
        theirs: String,
    },
    /// An Arrow type that Parquet cannot hash, or that we do not support.
    ArrowType {
        /// The Arrow type.
        arrow: String,
        /// Why, and what to do.
        reason: &'static str,
    },
    /// A physical type whose name or length is not understood.
    PhysicalName(String),
    /// An Arrow type that has no form in the physical type asked for.
    NoPhysicalForm {
        /// The Arrow type.
        arrow: String,
        /// The column type asked for.
        target: String,
    },
    /// A value that the column type cannot hold exactly.
    NotExact {
        /// The Arrow type of the value.
        arrow: String,
        /// The column type it was to become.
        target: String,
    },
    /// A nested column has several leaves and none was chosen.
    SeveralLeaves(String),
    /// A nested column has no leaf of that name.
    NoSuchLeaf {
        /// The path asked for.
        leaf: String,
        /// The leaves there are.
        leaves: String,
    },
    /// A Parquet file or its encryption.
    File(FileKind),
    /// A directory of shelved Bloom filters that does not begin with its magic, or begins with that of a newer version.
    ShelfMagic,
    /// A directory of shelved Bloom filters contradicts itself.
    ShelfMalformed {
        /// What is wrong.
        field: &'static str,
    },
    /// A part of a Sieve index that does not begin with its magic, or begins with that of a newer version.
    SieveMagic {
        /// Which part was expected.
        part: &'static str,
    },
    /// The checksum of a part of a Sieve index does not match its bytes.
    SieveChecksum {
        /// Which part.
        part: &'static str,
    },
    /// A part of a Sieve index contradicts itself.
    SieveMalformed {
        /// Which field.
        field: &'static str,
    },
    /// Keys, partitions or segments given to the Sieve builder out of order.
    SieveOrder,
    /// A location number that the index does not know.
    SieveLocation(u32),
    /// A commit whose instant already carries another commit, or lies before the newest one.
    SieveConflict {
        /// The instant asked for.
        instant: i64,
    },
    /// An instant that the index no longer keeps.
    SieveExpired {
        /// The instant asked for.
        instant: i64,
    },
    /// A part of a Sieve index that is needed and was not given.
    SieveNotLoaded {
        /// Number of the segment.
        segment: usize,
    },
    /// An Arrow type whose values the Sieve index cannot put in order.
    SieveType {
        /// The type.
        arrow: String,
        /// Why not.
        reason: &'static str,
    },
    /// Values that cannot be compared with those of the indexed column.
    SieveMeaning {
        /// What the index holds.
        column: String,
        /// What was given.
        found: String,
    },
    /// A Sieve option outside its range.
    SieveOption(&'static str),
}

impl Error {
    /// An error that has no place in bytes.
    pub fn new(kind: ErrorKind) -> Self {
        Self { kind, at: None }
    }

    /// An error at a byte offset of the input (or, for `NotExact`, at a row).
    pub fn at(kind: ErrorKind, at: u64) -> Self {
        Self { kind, at: Some(at) }
    }

    /// What went wrong.
    pub fn kind(&self) -> &ErrorKind {
        &self.kind
    }

    /// The byte offset (or row) it was found at.
    pub fn offset(&self) -> Option<u64> {
        self.at
    }

    /// The family it belongs to.
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
            | K::TrailingBytes(_) => Class::Format,
            K::UnknownUnionMember { .. } | K::ArrowType { .. } | K::SieveType { .. } => Class::Unsupported,
            K::NumBlocks(_)
            | K::Fpp
            | K::TooManyValues { .. }
            | K::FoldFactor { .. }
            | K::FoldNotPowerOfTwo(_)
            | K::MergeSize { .. }
            | K::PhysicalName(_)
            | K::NotExact { .. }
            | K::SeveralLeaves(_)
            | K::NoSuchLeaf { .. } => Class::Value,
            K::NoPhysicalForm { .. } | K::MergeType { .. } | K::SieveMeaning { .. } => Class::Type,
            K::OutOfMemory { .. } => Class::Memory,
            K::File(kind) => kind.class(),
            K::SieveMagic { .. } | K::ShelfMagic => Class::Unsupported,
            K::ShelfMalformed { .. } | K::SieveChecksum { .. } | K::SieveMalformed { .. } => Class::Format,
            K::SieveOrder
            | K::SieveLocation(_)
            | K::SieveConflict { .. }
            | K::SieveExpired { .. }
            | K::SieveNotLoaded { .. }
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
            K::ShelfMagic => write!(
                f,
                "not a directory of Bloom filters, version 1; a newer version of parsieve may have written it"
            ),
            K::ShelfMalformed { field } => write!(f, "invalid directory of Bloom filters: {field}"),
            K::SieveMagic { part } => {
                write!(f, "not a {part} of a Sieve index, version 1; a newer version of parsieve may have written it")
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
