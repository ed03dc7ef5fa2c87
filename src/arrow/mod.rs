//! Arrow columns as Parquet would store them: which physical type, which meaning, which leaf.

pub mod leaf;
pub mod settle;
pub mod types;

pub use leaf::Leaf;
pub use types::{ColumnType, Meaning, PhysicalType};
