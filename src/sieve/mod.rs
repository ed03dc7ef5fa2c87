//! The Sieve index: finds the locations that may hold a row with a key, or with a key in an interval.
//!
//! `docs/design/sieve-layout.md` explains the layout, `docs/format/sieve-v1.md` specifies the bytes. Every file here
//! follows one law: never leave out a location that holds a live matching row.

mod build;
mod code;
mod index;
mod key;
mod record;
mod segment;
#[cfg(test)]
mod tests;
mod version;

pub use build::budget::within_budget;
pub use build::builder::{Builder, BuiltPartition, Fragment};
pub use build::join::join;
pub use build::merge::Merge;
pub use build::sort::{SortedBuild, build_pairs, sort_pairs};
pub use build::stream::{Joined, SegmentStream, Share, check_keys, join_shares, root_over};
pub use index::directory::{Built, Entry, IndexInfo, KeySpan, Location, Root, SectionRange, Stats, pack};
pub use index::loaded::Index;
pub use index::lookup::{Answer, Lookup, Need, Query};
pub use index::report::Report;
pub use index::root;
pub use key::arrow::{self, ArrowKey, Axis, ColumnCounts, Width};
pub use key::axis::{self, AxisType, Bytes, Composite, Key};
pub use key::string_points::StringPoints;
pub use record::options::{Coarsen, Format, Options};
pub use record::pairs::{self, RunChunk, RunSorter, RunWriter, SortableKey};
pub use record::sorted::SortedRows;
pub use record::texts::TextPairs;
pub use segment::encode::{Counts, EncodedSegment};
pub use segment::packed::Segment;
pub use version::compact::{CarriedDelete, Compacted};
pub use version::delta::{Change, Delta, KeylessRows};
pub use version::timeline::{Timeline, View};
