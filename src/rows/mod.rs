//! Reads some rows of a file as Arrow arrays: only the pages that hold wanted rows are fetched and decompressed.
//!
//! Positions come from the footer, or from a map of pages. Pages are located, checked and decompressed here; the
//! `parquet` crate decodes their levels and values. Its panics are contained, because pages are untrusted bytes.

mod batches;
mod contain;
mod file;
mod levels;
mod load;
mod pages;
mod parts;
mod readable;
mod row_set;
mod scan;
mod schema;
mod values;

pub use contain::silence_contained_panics;
pub use file::RowFile;
pub use row_set::RowSet;
pub use scan::{BUDGET, RowScan};
