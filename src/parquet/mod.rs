//! Parquet files as ranges of bytes: where things lie, what the metadata say, and how a rewritten file is put together.
//! Reads no file itself.

mod filter;
#[cfg(test)]
pub(crate) mod fixtures;
mod meta;
mod open;
#[cfg(feature = "decode")]
mod pages;

pub use filter::locate::{Extent, FilterHeader, FilterPlace, block_index};
pub use filter::patch::{ChunkPatch, Pointer, patch_column_metadata, patch_metadata};
pub use filter::probe::{ColumnProbe, Verdicts};
pub use filter::rewrite::{NewFilter, OldFooter, PlacedFilter, Rewrite};
pub use meta::chunk::{ColumnChunk, ColumnMeta, IndexPlace, Protection, Statistics};
pub use meta::encryption::{Algorithm, Cipher, FileCrypto};
pub use meta::file_metadata::{ColumnOrder, Metadata, RowGroup, column_ordinal};
pub use meta::footer::{MAGIC_LEN, TAIL_LEN, Tail};
pub use meta::schema::{Leaf, Logical, Physical, TimeUnit};
pub use open::bounds::{Bound, Bounds};
pub use open::decryptor::{FilterPart, Vault};
pub use open::file::{FIRST_READ, Footer, ParquetFile};
#[cfg(feature = "crypto")]
pub use open::keyring::Secrets;
#[cfg(feature = "decode")]
pub use pages::decode::{ChunkHashes, ChunkScan};
