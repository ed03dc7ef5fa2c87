//! Parquet's split block Bloom filter. Start with [`block`], then read [`sbbf`].

pub mod batch;
pub mod block;
pub mod builder;
pub mod filter;
pub mod fold;
pub mod header;
mod memory;
pub mod probe;
pub mod sbbf;
pub mod sizing;
pub mod text;
mod window;

pub use block::Block;
pub use builder::{Built, FilterBuilder};
pub use filter::{ColumnOptions, Filter};
pub use header::Header;
pub use probe::Probe;
pub use sbbf::Sbbf;
