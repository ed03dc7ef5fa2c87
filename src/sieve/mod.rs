//! The Sieve index: for a key, or an interval of keys, the locations that can hold a matching row.
//!
//! Blocks address, runs answer. `docs/design/sieve-layout.md` says why it is laid out so, `docs/format/sieve-v1.md` what
//! each byte means. The law of every file here: a location that holds a live matching row is never left out.

pub mod arrow;
pub mod axis;
mod bits;
mod block;
mod budget;
mod builder;
mod chart;
mod coarsen;
mod compact;
mod cuts;
mod delta;
mod directory;
mod format;
mod heads;
mod heat;
#[cfg(test)]
mod holes;
mod index;
mod keys;
mod lookup;
mod merge;
#[cfg(test)]
mod model;
mod offset;
mod options;
pub mod pairs;
mod record;
mod report;
pub mod root;
mod run;
mod seal;
mod segment;
mod set;
mod sort;
mod split;
mod spool;
#[cfg(test)]
mod tests;
mod unpacked;
mod varint;
mod version;
mod warm;
mod write;

pub use arrow::{Axis, Encode, Sides, Width};
pub use axis::{AxisType, Bytes, Composite, Key};
pub use budget::within_budget;
pub use builder::{Builder, Built, Fragment, Part, Span, join};
pub use chart::Chart;
pub use compact::{Carried, Compacted};
pub use delta::{Change, Delta, Side};
pub use directory::{Entry, Extent, Location, Root, Stats, pack};
pub use index::Index;
pub use lookup::{Answer, Lookup, Need, Query};
pub use merge::Merge;
pub use options::{Coarsen, Options};
pub use pairs::{Gather, Gathered, Piece, Pieces};
pub use report::Report;
pub use seal::{Counts, Sealed};
pub use segment::Segment;
pub use sort::{build_pairs, sort_pairs};
pub use spool::{Joined, Share, Spool, check_keys, join_shares, root_over};
pub use version::{Timeline, View};
