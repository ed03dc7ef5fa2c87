//! Avro rows as Arrow columns: only the chosen fields, and no object for each row.
//!
//! The caller parses the container of the file and decompresses its blocks. [`Layout`] describes how a row is encoded
//! and which fields become columns; [`Columns`] decodes blocks of rows.

mod columns;
mod layout;

pub use columns::Columns;
pub use layout::{Kind, Layout};
