//! Maps Arrow columns to Parquet: the physical type, the meaning and the leaf columns.

pub mod leaf;
pub mod normalize_offsets;
pub mod types;

pub use leaf::Leaf;
pub use types::{ColumnType, Meaning, PhysicalType};
