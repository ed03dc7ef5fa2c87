//! The map of pages of a table: where the column chunks and pages of its files are, so that a reader needs no footer.
//!
//! ```text
//! directory    schemas, and the slices, length and checksum of each block
//! blocks       of about 64 KiB, read by ranges: the row groups of some slices, their chunks and pages
//! ```
//!
//! `docs/format/page-map-v1.md` specifies the bytes. A map describes one version of each file. If any byte of it is
//! damaged, the checksum does not match, and the reader uses the footer of the file.

mod bits;
mod block;
mod builder;
mod directory;
mod file_map;
mod footer;
mod reader;
mod run;
mod schema;
#[cfg(test)]
mod tests;

pub use builder::{BLOCK_BYTES, Builder, MAX_SCHEMA_BYTES};
pub use file_map::{Chunk, FileMap, Page, RowGroup};
#[cfg(feature = "rows")]
pub(crate) use file_map::{index_range, pages_of, place};
pub use reader::{PageMap, Selection};
pub use schema::FileSchema;

use crate::error::{Error, ErrorKind, PageMapKind};

/// Returns an error for a field that contradicts the others.
fn malformed(field: &'static str, at: u64) -> Error {
    Error::at(ErrorKind::PageMap(PageMapKind::Malformed { field }), at)
}

/// Returns an error without an offset.
fn error(kind: PageMapKind) -> Error {
    Error::new(ErrorKind::PageMap(kind))
}
