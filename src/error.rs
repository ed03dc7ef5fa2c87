//! The one error of the core: what was wrong, at which byte, and (in `Display`) what is allowed instead.

use std::fmt;

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
    // Parquet files and their encryption.
    /// The last four bytes are no Parquet magic.
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
            | K::BitsetSize(_)
            | K::BitsetBeyondInput { .. }
            | K::TrailingBytes(_) => Class::Format,
            K::UnknownUnionMember { .. } | K::ArrowType { .. } => Class::Unsupported,
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
            K::NoPhysicalForm { .. } | K::MergeType { .. } => Class::Type,
            K::OutOfMemory { .. } => Class::Memory,
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

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use ErrorKind as K;
        match &self.kind {
            K::Truncated { needed, available } => {
                write!(f, "the input ends too early: {needed} more bytes are needed and {available} are left")
            }
            K::VarintTooLong => write!(f, "a variable-length integer is longer than its type allows"),
            K::IntegerRange => write!(f, "a number is outside the range of its type"),
            K::ThriftType(code) => write!(f, "Thrift type code {code} does not exist in the compact protocol"),
            K::ThriftDepth(limit) => write!(f, "Thrift structures are nested deeper than {limit} levels"),
            K::ThriftContainer { elements, available } => {
                write!(f, "a Thrift container claims {elements} elements with {available} bytes left")
            }
            K::FieldType { field } => write!(f, "{field} has the wrong Thrift type"),
            K::MissingField { field } => write!(f, "the required field {field} is missing"),
            K::UnknownUnionMember { union, member: Some(member) } => {
                write!(f, "{union} holds member {member}, which this version does not know")
            }
            K::UnknownUnionMember { union, member: None } => write!(f, "{union} holds no member"),
            K::BitsetSize(size) => write!(
                f,
                "a Bloom filter claims a bitset of {size} bytes; a bitset is a positive multiple of 32 bytes, at most 2147483616"
            ),
            K::BitsetBeyondInput { claimed, available } => {
                write!(f, "a Bloom filter claims a bitset of {claimed} bytes and {available} bytes follow its header")
            }
            K::TrailingBytes(count) => write!(f, "{count} bytes follow the end of the Bloom filter"),
            K::NumBlocks(blocks) => {
                write!(f, "a Bloom filter of {blocks} blocks is impossible; it has 1 to 67108863 blocks of 32 bytes")
            }
            K::OutOfMemory { num_bytes } => write!(f, "there is no memory for a Bloom filter of {num_bytes} bytes"),
            K::Fpp => write!(f, "a false positive rate lies between 0 and 1, both excluded"),
            K::TooManyValues { ndv } => write!(
                f,
                "no Bloom filter of Parquet keeps that rate for {ndv} values; ask for a higher fpp, or give num_bytes"
            ),
            K::FoldFactor { factor, num_blocks } => {
                write!(
                    f,
                    "a filter of {num_blocks} blocks cannot be folded by {factor}: the factor must divide the blocks"
                )
            }
            K::FoldNotPowerOfTwo(factor) => write!(
                f,
                "folding by {factor} leaves a size that older Arrow readers refuse; pass tight=True to allow factors that are no power of two"
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
                "{name:?} is no physical type; use INT32, INT64, INT96, FLOAT, DOUBLE, BYTE_ARRAY or FIXED_LEN_BYTE_ARRAY(n)"
            ),
            K::NoPhysicalForm { arrow, target } => {
                write!(f, "Arrow type {arrow} cannot be compared with a column of {target}; cast it first")
            }
            K::NotExact { arrow, target } => {
                write!(f, "a value of type {arrow} has no exact form in a column of {target}")
            }
            K::SeveralLeaves(leaves) => write!(
                f,
                "a nested column has several leaves and each has a filter of its own; choose one with leaf=: {leaves}"
            ),
            K::NoSuchLeaf { leaf, leaves } => write!(f, "there is no leaf {leaf:?}; the leaves are: {leaves}"),
            K::NotParquet => write!(f, "this is no Parquet file: it does not end in PAR1 or PARE"),
            K::FooterLength { claimed, available } => {
                write!(f, "the footer claims {claimed} bytes of metadata and the file has room for {available}")
            }
            K::DuplicateField { structure, id } => write!(f, "field {id} occurs twice in one {structure}"),
            K::ForeignField { structure, id } => {
                write!(f, "field {id} of {structure} has a meaning of its writer's own and cannot be changed")
            }
            K::NotUtf8 { field } => write!(f, "{field} is not valid UTF-8"),
            K::FieldValue { field, value } => write!(f, "{field} cannot be {value}"),
            K::SchemaShape(what) => write!(f, "the schema is no tree: {what}"),
            K::ColumnCount { row_group, found, leaves } => {
                write!(f, "row group {row_group} has {found} column chunks and the schema has {leaves} leaves")
            }
            K::ChunkDisagrees { field } => write!(f, "{field} disagrees with the schema"),
            K::DataElsewhere => write!(f, "the column chunk's data lie in another file, which is not supported"),
            K::NoSuchChunk { row_group, column } => {
                write!(f, "the file has no column {column} in a row group {row_group}")
            }
            K::OutsideFile { what, offset, length: Some(length), limit } => {
                write!(f, "{what} claims {length} bytes at {offset}; the file's data end at {limit}")
            }
            K::OutsideFile { what, offset, length: None, limit } => {
                write!(f, "{what} claims to start at {offset}; the file's data end at {limit}")
            }
            K::FilterLength { stated, actual } => {
                write!(f, "a Bloom filter takes {actual} bytes by its header and {stated} by the column's metadata")
            }
            K::FilterHeaderTooLong(limit) => {
                write!(f, "a Bloom filter header does not end within {limit} bytes")
            }
            K::PlaintextFilter => write!(
                f,
                "the column is encrypted and its Bloom filter is not, so nothing proves that it belongs to the column"
            ),
            K::FilterTooLong(length) => {
                write!(f, "a Bloom filter of {length} bytes is too long; its length field holds at most 2147483647")
            }
            K::Ordinal(ordinal) => {
                write!(f, "row group or column {ordinal} cannot be encrypted; encrypted files number them up to 32767")
            }
            K::ChunkTwice { row_group, column } => {
                write!(f, "column {column} of row group {row_group} is named twice")
            }
            K::NoHash { column, reason } => write!(f, "column {column:?} can have no Bloom filter: {reason}"),
            K::SharedBytes { start, end } => write!(
                f,
                "the plaintext filter at bytes {start} to {end} cannot be wiped: other parts of the file claim the same bytes"
            ),
            K::PageType(code) => write!(f, "page type {code} is newer than this version of parsieve"),
            K::PageEncoding(code) => write!(f, "encoding {code} of this column's values is not supported"),
            K::Compression(code) => write!(f, "compression codec {code} is not supported"),
            K::CompressedPage => write!(f, "a compressed page is damaged or has another length than it claims"),
            K::DeltaPage => write!(f, "an encoded page is damaged"),
            K::ValueCount { stated, found } => write!(f, "{found} values were found where {stated} are stated"),
            K::NoDictionary => write!(f, "a data page refers to a dictionary that the column chunk does not have"),
            K::KeyMissing { what } => write!(f, "there is no key for {what}"),
            K::AadPrefixMissing => {
                write!(f, "the file was written with an AAD prefix that it does not hold; pass aad_prefix")
            }
            K::KeyLength(length) => {
                write!(f, "a key of {length} bytes is impossible; AES keys have 16, 24 or 32 bytes")
            }
            K::ModuleLength(length) => write!(f, "an encrypted module claims an impossible length of {length} bytes"),
            K::Decryption => write!(f, "decryption failed"),
            K::NoRandomness => write!(f, "the system gave no random bytes, and encryption needs them"),
            K::NoCrypto => write!(f, "the bytes are encrypted and this build of parsieve cannot decrypt"),
        }?;
        match (&self.kind, self.at) {
            (K::NotExact { .. }, Some(row)) => write!(f, " (row {row})"),
            (_, Some(at)) => write!(f, " (at byte {at})"),
            (_, None) => Ok(()),
        }
    }
}

impl std::error::Error for Error {}
