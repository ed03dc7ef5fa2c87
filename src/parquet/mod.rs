//! Parquet files as ranges of bytes: where things lie, what the metadata say, and how a rewritten file is put together.
//! Reads no file itself.

mod bounds;
mod chunk;
#[cfg(feature = "decode")]
mod codec;
mod column_type;
#[cfg(feature = "decode")]
mod decode;
#[cfg(feature = "decode")]
mod delta;
#[cfg(feature = "decode")]
mod distinct;
mod encryption;
mod file;
#[cfg(test)]
pub(crate) mod fixtures;
mod footer;
mod locate;
mod metadata;
#[cfg(feature = "decode")]
mod page;
mod patch;
mod question;
pub mod ranges;
mod record;
mod rewrite;
mod schema;
#[cfg(feature = "decode")]
mod sealed;
#[cfg(feature = "crypto")]
mod secret;
mod span;
#[cfg(feature = "decode")]
mod values;
mod vault;

pub use bounds::{Bound, Bounds};
pub use chunk::{ColumnChunk, ColumnMeta, IndexPlace, Protection, Statistics};
#[cfg(feature = "decode")]
pub use decode::{ChunkHashes, ChunkScan};
pub use encryption::{Algorithm, Cipher, FileCrypto};
pub use file::{FIRST_READ, Footer, ParquetFile};
pub use footer::{MAGIC_LEN, TAIL_LEN, Tail};
pub use locate::{Extent, FilterHeader, FilterPlace, block_index};
pub use metadata::{ColumnOrder, Metadata, RowGroup, column_ordinal};
pub use patch::{ChunkPatch, Pointer, patch_column_metadata, patch_metadata};
pub use question::{ColumnProbe, Verdicts};
pub use rewrite::{NewFilter, OldFooter, PlacedFilter, Rewrite};
pub use schema::{Leaf, Logical, Physical, TimeUnit};
#[cfg(feature = "crypto")]
pub use secret::Secrets;
pub use vault::{FilterPart, Vault};
