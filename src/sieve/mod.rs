//! The Sieve index: finds the locations that may hold a row with a key, or with a key in an interval.
//!
//! `docs/design/sieve-layout.md` explains the layout and names its sources. `docs/format/sieve-v1.md` and `sieve-v2.md`
//! specify the bytes.
//! Every file here follows one rule: never leave out a location that holds a live matching row.

mod build;
mod code;
mod index;
mod key;
mod record;
mod segment;
#[cfg(test)]
mod tests;
mod unit;
mod version;

pub use build::budget::within_budget;
pub use build::builder::{Builder, BuiltPartition, Fragment};
pub use build::join::join;
pub use build::kept::{Kept, KeptSegment};
pub use build::merge::Merge;
pub use build::sort::{SortedBuild, build_pairs, sort_pairs};
pub use build::stream::{Joined, SegmentStream, Share, check_keys, join_shares, root_over, unit_root_over};
pub use index::directory::{Built, Entry, IndexInfo, Location, Root, SectionRange, pack};
pub use index::loaded::Index;
pub use index::lookup::{Answer, Lookup, Need, Query};
pub use index::report::Report;
pub use index::root;
pub use index::unit_root::{EncodedRoot, PageEntry, UnitRoot};
pub use key::arrow::{self, ArrowKey, Axis, ColumnCounts, Width};
pub use key::axis::{self, AxisType, Bytes, Composite, Key};
pub use key::bounds::{Bound, CUT_BYTES};
pub use key::hash::HashedKey;
pub use key::string_points::StringPoints;
pub use record::options::{Coarsen, Format, Options};
pub use record::pairs::{self, RunChunk, RunSorter, RunWriter, SortableKey};
pub use record::sorted::SortedRows;
pub use record::texts::TextPairs;
pub use segment::encode::{Counts, EncodedSegment};
pub use segment::packed::Segment;
pub use unit::layout::{self, Cut, Layout, SliceLayout, UnitRange};
pub use unit::page::{Summary, UnitPage};
pub use unit::slice_map::{SliceMap, WHOLE_SLICE};
pub use unit::stats::{KeySpan, Stats};
pub use version::compact::{CarriedDelete, Compacted};
pub use version::delta::{Change, Delta, KeylessRows};
pub use version::rebuild::Touched;
pub use version::timeline::{Timeline, View};
pub use version::unit_compact::CompactionFiles;
pub use version::unit_delta::{ChangedSlice, UnitDelta};
pub use version::unit_timeline::{UnitNeed, UnitTimeline};
