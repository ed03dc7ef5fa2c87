//! One block: the separators of its runs from the first bit onwards, and the location sets of its runs backwards from
//! the last bit.
//!
//! ```text
//!   block: | count | tree of separators -->    <-- set of run 2 | set of run 1 | set of run 0 |
//! ```
//! A point lookup decodes the tree and the sets only up to its own run, and neither needs a stored length. A block
//! without keys has no bits and no locations. The fingerprints of a run, if any, follow its set.

use crate::int::{index, low_u32, low_u64, saturating_u32};
use crate::sieve::code::binomial::BinomialSource;
use crate::sieve::code::bits::{BackReader, BackWriter, BitReader, BitWriter, Sink, Source};
use crate::sieve::code::offset::Offset;
use crate::sieve::code::separators::{Distribution, MAX_SEPARATORS, put_separators, rank};
use crate::sieve::code::set::{put_members, take_members};
use crate::sieve::segment::fingerprint::{fingerprint, put_fingerprints, take_fingerprints};

/// How the set of a run is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(in crate::sieve) enum SetKind {
    /// One location, by its number within the segment.
    One = 0,
    /// A set from the segment's dictionary.
    Shared = 1,
    /// A set of several locations, stored in the block.
    Inline = 2,
    /// The same set as the previous run.
    Previous = 3,
    /// The same set as the run before the previous one. This occurs if late rows interrupt a long run.
    BeforePrevious = 4,
    /// No location: the run is a gap between keys. Only version 2 has it.
    Empty = 5,
}

pub(in crate::sieve) const KINDS: [SetKind; 6] =
    [SetKind::One, SetKind::Shared, SetKind::Inline, SetKind::Previous, SetKind::BeforePrevious, SetKind::Empty];
/// The number of kinds in version 1, which are the first ones.
pub(in crate::sieve) const NUM_KINDS_1: usize = 5;

/// The flag of a segment whose separators are clumped.
pub(in crate::sieve) const CLUMPED: u8 = 1;
/// The flag of a segment that stores the unions of neighboring blocks.
pub(in crate::sieve) const UNIONS: u8 = 2;
/// The flag of a segment that stores fingerprints. Only version 2 has it.
pub(in crate::sieve) const FINGERPRINTS: u8 = 4;
/// The flag of a segment whose runs contain keys only, because every gap between keys is a run without locations. Only
/// version 2 has it.
pub(in crate::sieve) const GAPS: u8 = 8;

/// The properties that all blocks of a segment share.
#[derive(Debug, Clone)]
pub(in crate::sieve) struct Layout {
    /// The binary logarithm of the width of a block.
    pub(in crate::sieve) shift: u32,
    pub(in crate::sieve) distribution: Distribution,
    /// The number of bits that store a block's number of separators.
    pub(in crate::sieve) count_bits: u32,
    /// The kinds in use, most frequent first. Their codes are 0, 10, 110 and so on; the last one consists of ones only.
    pub(in crate::sieve) kinds: Vec<SetKind>,
    /// The number of locations in the segment.
    pub(in crate::sieve) num_locals: u32,
    /// The number of sets in the dictionary.
    pub(in crate::sieve) num_shared: u32,
    /// The size of the largest set of several locations.
    pub(in crate::sieve) max_members: u32,
    /// The slots of a fingerprint for each location, or zero if the segment has no fingerprints.
    pub(in crate::sieve) slots: u32,
}

impl Layout {
    /// Returns the code of each kind, first bit highest, and its length.
    fn kind_codes(&self) -> [(u8, u32); KINDS.len()] {
        let mut codes = [(0, 0); KINDS.len()];
        for (rank, &kind) in (0u32..).zip(&self.kinds) {
            let is_last = index(rank) + 1 == self.kinds.len();
            let ones = (1 << rank) - 1;
            codes[usize::from(kind as u8)] = if is_last { (ones, rank) } else { (ones << 1, rank + 1) };
        }
        codes
    }
}

/// The set of a run, in the form in which the encoder stores it.
#[derive(Debug, Clone, Copy)]
pub(in crate::sieve) enum SetForm<'a> {
    One(u32),
    Shared(u32),
    Inline(&'a [u32]),
    Previous,
    BeforePrevious,
    Empty,
}

impl SetForm<'_> {
    pub(in crate::sieve) fn kind(&self) -> SetKind {
        match self {
            Self::One(_) => SetKind::One,
            Self::Shared(_) => SetKind::Shared,
            Self::Inline(_) => SetKind::Inline,
            Self::Previous => SetKind::Previous,
            Self::BeforePrevious => SetKind::BeforePrevious,
            Self::Empty => SetKind::Empty,
        }
    }
}

/// A run, in the form in which the encoder stores it.
#[derive(Debug, Clone, Copy)]
pub(in crate::sieve) struct StoredRun<'a> {
    pub(in crate::sieve) form: SetForm<'a>,
    pub(in crate::sieve) num_locations: u32,
    /// The hashes of its keys. Empty if the segment has no fingerprints.
    pub(in crate::sieve) hashes: &'a [u64],
}

/// Writes the size and the members of a set of at least two locations.
pub(in crate::sieve) fn put_set(out: &mut impl Sink, members: &[u32], layout: &Layout) {
    out.put_below(saturating_u32(members.len()) - 2, layout.max_members - 1);
    put_members(out, members, 0, layout.num_locals);
}

/// Writes a block that has keys. `back` is scratch space.
#[allow(single_use_lifetimes, reason = "an `impl Trait` argument cannot elide its lifetime")]
pub(in crate::sieve) fn put_block<'a, P: Offset>(
    out: &mut BitWriter,
    back: &mut BackWriter,
    layout: &Layout,
    separators: &[P],
    runs: impl Iterator<Item = StoredRun<'a>>,
) {
    let codes = &layout.kind_codes();
    out.put(u64::from(saturating_u32(separators.len())), layout.count_bits);
    put_separators(out, separators, P::ZERO, layout.shift, layout.distribution);
    for run in runs {
        let kind @ (code, bits) = codes[usize::from(run.form.kind() as u8)];
        match run.form {
            SetForm::One(local) => back.put_after(kind, local, layout.num_locals),
            SetForm::Shared(number) => back.put_after(kind, number, layout.num_shared),
            SetForm::Inline(members) => {
                back.put(u64::from(code), bits);
                put_set(back, members, layout);
            }
            SetForm::Previous | SetForm::BeforePrevious | SetForm::Empty => back.put(u64::from(code), bits),
        }
        if layout.slots > 0 && run.num_locations > 0 {
            put_fingerprints(back, run.hashes, run.num_locations, layout.slots);
        }
    }
    back.drain_into(out);
}

/// Sets of a segment, one after the other in a bit stream: its dictionary, or its unions.
#[derive(Debug, Clone, Copy)]
pub(in crate::sieve) struct StoredSets<'a> {
    pub(in crate::sieve) bytes: &'a [u8],
    /// The first bit of each set by number, and the end of the last.
    pub(in crate::sieve) bounds: &'a [u32],
}

impl<'a> StoredSets<'a> {
    fn reader(&self, number: u32) -> Result<BitReader<'a>, Damaged> {
        let bounds = self.bounds.get(index(number)..).and_then(|rest| rest.first_chunk::<2>()).ok_or(Damaged)?;
        Ok(BitReader::new(self.bytes, index(bounds[0]), index(bounds[1])))
    }
}

/// A set that was decoded in this block, in a form that is cheap to copy.
#[derive(Debug, Clone, Copy)]
enum SeenSet {
    Unknown,
    Empty,
    One(u32),
    Shared(u32),
    /// An inline set that ends at this bit.
    Inline(usize),
}

/// The error for bits that do not form a block, or for a segment that lacks a part of its range in the directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::sieve) struct Damaged;

/// The result of a visit: an error if some of the bits are corrupt.
pub(in crate::sieve) type Visited = Result<(), Damaged>;

/// The stored blocks of a segment.
#[derive(Debug, Clone, Copy)]
pub(in crate::sieve) struct Blocks<'a> {
    pub(in crate::sieve) bytes: &'a [u8],
    pub(in crate::sieve) layout: &'a Layout,
    pub(in crate::sieve) shared: StoredSets<'a>,
}

impl Blocks<'_> {
    /// Calls `visit` with the locations of every run that overlaps `low ..= high`, both relative to the block at bits
    /// `start..end`, which must not be empty. `visit` gets local numbers, possibly several times.
    ///
    /// The hash of the only key can be given for `low == high`. The result is false if the fingerprints of its run
    /// exclude the key. The visited locations are then void.
    #[inline]
    pub(in crate::sieve) fn visit_runs<P: Offset>(
        &self,
        (start, end): (usize, usize),
        (low, high): (P, P),
        hash: Option<u64>,
        fuel: &mut u64,
        visit: &mut impl FnMut(u32),
    ) -> Result<bool, Damaged> {
        let Self { bytes, layout, shared } = *self;
        let mut reader = BitReader::new(bytes, start, end);
        let count = low_u32(reader.take(layout.count_bits)).min(MAX_SEPARATORS);
        let rank_of = |point| rank(&mut reader.clone(), count, layout.shift, point, layout.distribution).ok_or(Damaged);
        // An interval covers its inner blocks completely. They need no separators.
        let width_mask = (P::ONE << layout.shift) - P::ONE;
        let first = if low == P::ZERO && high == width_mask { 0 } else { rank_of(low)? };
        let last = match high {
            _ if high == low => first,
            _ if high == width_mask => count,
            _ => rank_of(high)?,
        };
        let mut back = BackReader::new(bytes, start, end);
        let (mut previous, mut before) = ((SeenSet::Unknown, 0), (SeenSet::Unknown, 0));
        for run in 0..=last {
            let kind = take_kind(&mut back, layout)?;
            // The set and, if fingerprints follow, the number of its locations.
            let seen = match kind {
                SetKind::One => (SeenSet::One(back.take_below(layout.num_locals)), 1),
                SetKind::Shared => {
                    let number = back.take_below(layout.num_shared);
                    let size = if layout.slots > 0 { size_of_shared(shared, number, layout)? } else { 0 };
                    (SeenSet::Shared(number), size)
                }
                SetKind::Inline => {
                    let end_bit = back.position();
                    // The members must be decoded even if they are not visited, to find the next set.
                    let size = if run >= first {
                        take_set(&mut back, layout, fuel, visit)?
                    } else {
                        take_set(&mut back, layout, fuel, &mut |_| {})?
                    };
                    (SeenSet::Inline(end_bit), size)
                }
                SetKind::Previous => previous,
                SetKind::BeforePrevious => before,
                SetKind::Empty => (SeenSet::Empty, 0),
            };
            if back.exhausted() {
                return Err(Damaged);
            }
            if run >= first && kind != SetKind::Inline {
                match seen.0 {
                    SeenSet::Unknown => return Err(Damaged),
                    SeenSet::Empty => {}
                    SeenSet::One(local) => visit(local),
                    SeenSet::Shared(number) => {
                        take_shared(shared, number, layout, fuel, visit)?;
                    }
                    SeenSet::Inline(end_bit) => {
                        take_set(&mut BackReader::new(bytes, start, end_bit), layout, fuel, visit)?;
                    }
                }
            }
            if layout.slots > 0 && seen.1 > 0 && (run < last || hash.is_some()) {
                let sizes = (seen.1, layout.slots);
                if let Some(hash) = hash.filter(|_| run == last) {
                    let mut present = false;
                    let test = |universe, stored| present |= fingerprint(hash, universe) == stored;
                    take_fingerprints(&mut back, sizes, fuel, test)?;
                    return Ok(present);
                }
                take_fingerprints(&mut back, sizes, fuel, |_, _| {})?;
            }
            (before, previous) = (previous, seen);
        }
        Ok(true)
    }
}

/// Reads the kind of the next run's set.
#[inline]
pub(in crate::sieve) fn take_kind(back: &mut BackReader<'_>, layout: &Layout) -> Result<SetKind, Damaged> {
    let mut rank = 0;
    while rank + 1 < layout.kinds.len() && back.take(1) == 1 {
        rank += 1;
    }
    layout.kinds.get(rank).copied().ok_or(Damaged)
}

/// The most set members that one answer may decode in one segment, skipped ones included. Only corrupt bytes, or a very
/// large set in a great many blocks, come near this limit.
pub(in crate::sieve) const FUEL: u64 = 1 << 24;

/// Visits a set of several locations, and returns their number.
pub(in crate::sieve) fn take_set(
    source: &mut impl BinomialSource,
    layout: &Layout,
    fuel: &mut u64,
    visit: &mut impl FnMut(u32),
) -> Result<u32, Damaged> {
    let count = take_size(source, layout);
    *fuel = fuel.checked_sub(u64::from(count)).ok_or(Damaged)?;
    take_members(source, count, 0, layout.num_locals, visit);
    if source.exhausted() { Err(Damaged) } else { Ok(count) }
}

#[inline]
fn take_size(source: &mut impl Source, layout: &Layout) -> u32 {
    source.take_below(layout.max_members.saturating_sub(1)) + 2
}

/// Returns the number of locations of a set of the dictionary.
fn size_of_shared(shared: StoredSets<'_>, number: u32, layout: &Layout) -> Result<u32, Damaged> {
    Ok(take_size(&mut shared.reader(number)?, layout))
}

/// Visits a set of the dictionary, and returns the number of its locations.
pub(in crate::sieve) fn take_shared(
    shared: StoredSets<'_>,
    number: u32,
    layout: &Layout,
    fuel: &mut u64,
    visit: &mut impl FnMut(u32),
) -> Result<u32, Damaged> {
    take_set(&mut shared.reader(number)?, layout, fuel, visit)
}

/// The number of blocks in a stored union, which saves a long interval from decoding each of them.
pub(in crate::sieve) const BLOCKS_PER_UNION: usize = 32;

/// Writes the union of several blocks, which may have any number of locations.
pub(in crate::sieve) fn put_union(out: &mut impl Sink, members: &[u32], num_locals: u32) {
    out.put_below(saturating_u32(members.len()), num_locals + 1);
    put_members(out, members, 0, num_locals);
}

/// Visits a union written by [`put_union`].
pub(in crate::sieve) fn visit_union(
    unions: StoredSets<'_>,
    number: usize,
    num_locals: u32,
    visit: &mut impl FnMut(u32),
) -> Visited {
    let bounds = unions.bounds.get(number..).and_then(|rest| rest.first_chunk::<2>()).ok_or(Damaged)?;
    let mut reader = BitReader::new(unions.bytes, index(bounds[0]), index(bounds[1]));
    let count = reader.take_below(num_locals + 1);
    take_members(&mut reader, count, 0, num_locals, visit);
    if reader.exhausted() { Err(Damaged) } else { Ok(()) }
}

/// Returns the value that bound `at` of `0..=last` would have if all blocks had the same length.
pub(in crate::sieve) fn on_line(at: u64, last: u64, total: u64) -> u64 {
    match at.checked_mul(total) {
        Some(product) => product / last.max(1),
        None => low_u64(u128::from(at) * u128::from(total) / u128::from(last.max(1))),
    }
}
