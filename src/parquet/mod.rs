//! Parquet files as byte ranges: finds and parses metadata, probes Bloom filters, and plans rewritten files.
//! Does no I/O.

mod filter;
#[cfg(test)]
pub(crate) mod fixtures;
mod meta;
mod open;
#[cfg(feature = "decode")]
mod pages;

pub use filter::locate::{FilterBytes, FilterHeader, FilterLocation, block_index};
pub use filter::patch::{ChunkPatch, Pointer, patch_column_metadata, patch_metadata};
pub use filter::probe::{ColumnProbe, RowGroupVerdicts, UnusableFilter};
pub use filter::rewrite::{NewFilter, OldFooter, PlacedFilter, Rewrite};
pub use meta::chunk::{ColumnChunk, ColumnMeta, IndexLocation, Protection, Statistics};
pub use meta::encryption::{Algorithm, Cipher, FileCrypto};
pub use meta::file_metadata::{ColumnOrder, Metadata, RowGroup, column_ordinal};
pub use meta::footer::{MAGIC_LEN, TAIL_LEN, Tail};
pub use meta::offset_index::{PageLocation, page_locations};
pub use meta::schema::{Logical, Physical, SchemaLeaf, TimeUnit};
pub use open::bounds::{Bound, Bounds};
pub use open::decryptor::{Decryptor, FilterPart};
pub use open::file::{FIRST_READ, Footer, ParquetFile};
#[cfg(feature = "crypto")]
pub use open::keyring::FileKeyRing;
#[cfg(feature = "rows")]
pub(crate) use open::writer::always_compresses;
pub use open::writer::has_wrong_statistics;
#[cfg(feature = "decode")]
pub use pages::decode::{ChunkScan, ScannedChunk};
#[cfg(feature = "rows")]
pub(crate) use pages::{
    codec::Codec,
    delta::{DeltaNumbers, by_length, by_prefix},
    page::{PageHeader, PageKind, body_parts, encoding},
};
