//! One block: the separators of its runs from its first bit on, and the runs' location sets backwards from its last.
//!
//! ```text
//!   block: | count | tree of separators -->    <-- set of run 2 | set of run 1 | set of run 0 |
//! ```
//! So a point reads the tree as far as its own run and the sets as far as its own run, and neither needs a length. A block
//! without keys has no bits, and no locations.

use crate::int::{index, low_u32, low_u64, saturating_u32};
use crate::sieve::code::binomial::Split;
use crate::sieve::code::bits::{BackReader, BackWriter, BitReader, BitWriter, Sink, Source};
use crate::sieve::code::offset::Offset;
use crate::sieve::code::separators::{Habit, MAX_SEPARATORS, put_separators, rank};
use crate::sieve::code::set::{put_members, take_members};

/// How the set of a run is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(in crate::sieve) enum Kind {
    /// One location, by its number in the segment.
    One = 0,
    /// A set of the segment's dictionary.
    Shared = 1,
    /// A set written here.
    Inline = 2,
    /// The set of the run before.
    Previous = 3,
    /// The set of the run before that: late rows inside a long run.
    BeforePrevious = 4,
}

pub(in crate::sieve) const KINDS: [Kind; 5] =
    [Kind::One, Kind::Shared, Kind::Inline, Kind::Previous, Kind::BeforePrevious];

/// Flag of a segment whose separators come in clumps.
pub(in crate::sieve) const CLUMPED: u8 = 1;
/// Flag of a segment that keeps the unions of neighbouring blocks.
pub(in crate::sieve) const UNIONS: u8 = 2;

/// What the blocks of a segment have in common.
#[derive(Debug, Clone)]
pub(in crate::sieve) struct Layout {
    /// Binary logarithm of the block's width.
    pub(in crate::sieve) shift: u32,
    pub(in crate::sieve) habit: Habit,
    /// Bits of a block's number of separators.
    pub(in crate::sieve) count_bits: u32,
    /// The kinds in use, the most frequent first: codes 0, 10, 110, ... with the last one all ones.
    pub(in crate::sieve) kinds: Vec<Kind>,
    /// Locations of the segment.
    pub(in crate::sieve) num_locals: u32,
    /// Sets of its dictionary.
    pub(in crate::sieve) num_shared: u32,
    /// Members of the largest set of several locations.
    pub(in crate::sieve) max_members: u32,
}

impl Layout {
    /// The code of each kind, its first bit highest, and its length.
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

/// The set of a run, as the writer tells it.
#[derive(Debug, Clone, Copy)]
pub(in crate::sieve) enum Told<'a> {
    One(u32),
    Shared(u32),
    Inline(&'a [u32]),
    Previous,
    BeforePrevious,
}

impl Told<'_> {
    pub(in crate::sieve) fn kind(&self) -> Kind {
        match self {
            Self::One(_) => Kind::One,
            Self::Shared(_) => Kind::Shared,
            Self::Inline(_) => Kind::Inline,
            Self::Previous => Kind::Previous,
            Self::BeforePrevious => Kind::BeforePrevious,
        }
    }
}

/// Writes the size and the members of a set of at least two locations.
pub(in crate::sieve) fn put_set(out: &mut impl Sink, members: &[u32], layout: &Layout) {
    out.put_below(saturating_u32(members.len()) - 2, layout.max_members - 1);
    put_members(out, members, 0, layout.num_locals);
}

/// Writes one block that has keys; `back` is scratch.
#[allow(single_use_lifetimes, reason = "an `impl Trait` cannot leave it out")]
pub(in crate::sieve) fn put_block<'a, P: Offset>(
    out: &mut BitWriter,
    back: &mut BackWriter,
    layout: &Layout,
    separators: &[P],
    sets: impl Iterator<Item = Told<'a>>,
) {
    let codes = &layout.kind_codes();
    out.put(u64::from(saturating_u32(separators.len())), layout.count_bits);
    put_separators(out, separators, P::ZERO, layout.shift, layout.habit);
    for told in sets {
        let kind @ (code, bits) = codes[usize::from(told.kind() as u8)];
        match told {
            Told::One(local) => back.put_after(kind, local, layout.num_locals),
            Told::Shared(number) => back.put_after(kind, number, layout.num_shared),
            Told::Inline(members) => {
                back.put(u64::from(code), bits);
                put_set(back, members, layout);
            }
            Told::Previous | Told::BeforePrevious => back.put(u64::from(code), bits),
        }
    }
    back.drain_into(out);
}

/// Where the sets of a segment's dictionary lie.
#[derive(Debug, Clone, Copy)]
pub(in crate::sieve) struct Shared<'a> {
    pub(in crate::sieve) bytes: &'a [u8],
    /// First bit and bit after the last of a set, by its number.
    pub(in crate::sieve) bounds: &'a [u32],
}

/// A set that was met, cheap to remember.
#[derive(Debug, Clone, Copy)]
enum Met {
    Nothing,
    One(u32),
    Shared(u32),
    /// Written before this bit.
    Inline(usize),
}

/// Bits that make no block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::sieve) struct Damaged;

/// Whether all of the bits made sense.
pub(in crate::sieve) type Visited = Result<(), Damaged>;

/// Visits the locations of every run that meets `low ..= high`, both relative to the block, which lies at `start..end` of
/// `bytes` and is not empty. `visit` gets a local number, possibly several times, and answers whether to go on.
#[inline]
pub(in crate::sieve) fn visit_runs<P: Offset>(
    bytes: &[u8],
    (start, end): (usize, usize),
    layout: &Layout,
    shared: Shared<'_>,
    (low, high): (P, P),
    fuel: &mut u64,
    visit: &mut impl FnMut(u32),
) -> Visited {
    let mut reader = BitReader::new(bytes, start, end);
    let count = low_u32(reader.take(layout.count_bits)).min(MAX_SEPARATORS);
    let rank_of = |point| rank(&mut reader.clone(), count, layout.shift, point, layout.habit).ok_or(Damaged);
    // Inner blocks of an interval are met whole, and need no separator.
    let whole = (P::ONE << layout.shift) - P::ONE;
    let first = if low == P::ZERO && high == whole { 0 } else { rank_of(low)? };
    let last = match high {
        _ if high == low => first,
        _ if high == whole => count,
        _ => rank_of(high)?,
    };
    let mut back = BackReader::new(bytes, start, end);
    let (mut previous, mut before) = (Met::Nothing, Met::Nothing);
    for run in 0..=last {
        let kind = take_kind(&mut back, layout)?;
        let met = match kind {
            Kind::One => Met::One(back.take_below(layout.num_locals)),
            Kind::Shared => Met::Shared(back.take_below(layout.num_shared)),
            Kind::Inline => {
                let here = back.position();
                // The members are taken to get past them, even where nobody asks for them.
                if run >= first {
                    take_set(&mut back, layout, fuel, visit)?;
                } else {
                    take_set(&mut back, layout, fuel, &mut |_| {})?;
                }
                Met::Inline(here)
            }
            Kind::Previous => previous,
            Kind::BeforePrevious => before,
        };
        if back.exhausted() {
            return Err(Damaged);
        }
        if run >= first && kind != Kind::Inline {
            match met {
                Met::Nothing => return Err(Damaged),
                Met::One(local) => visit(local),
                Met::Shared(number) => take_shared(shared, number, layout, fuel, visit)?,
                Met::Inline(here) => take_set(&mut BackReader::new(bytes, start, here), layout, fuel, visit)?,
            }
        }
        (before, previous) = (previous, met);
    }
    Ok(())
}

/// How the next run's set is told.
#[inline]
pub(in crate::sieve) fn take_kind(back: &mut BackReader<'_>, layout: &Layout) -> Result<Kind, Damaged> {
    let mut rank = 0;
    while rank + 1 < layout.kinds.len() && back.take(1) == 1 {
        rank += 1;
    }
    layout.kinds.get(rank).copied().ok_or(Damaged)
}

/// Members that the decoding of one answer may visit in one segment, passed ones too. Only hostile bytes, or one set of a
/// great many locations in a great many blocks, come near.
pub(in crate::sieve) const FUEL: u64 = 1 << 24;

/// Visits a set of several locations.
pub(in crate::sieve) fn take_set(
    source: &mut impl Split,
    layout: &Layout,
    fuel: &mut u64,
    visit: &mut impl FnMut(u32),
) -> Visited {
    let count = source.take_below(layout.max_members.saturating_sub(1)) + 2;
    *fuel = fuel.checked_sub(u64::from(count)).ok_or(Damaged)?;
    take_members(source, count, 0, layout.num_locals, visit);
    if source.exhausted() { Err(Damaged) } else { Ok(()) }
}

/// Visits a set of the dictionary.
pub(in crate::sieve) fn take_shared(
    shared: Shared<'_>,
    number: u32,
    layout: &Layout,
    fuel: &mut u64,
    visit: &mut impl FnMut(u32),
) -> Visited {
    let bounds = shared.bounds.get(index(number)..).and_then(|rest| rest.first_chunk::<2>()).ok_or(Damaged)?;
    let mut reader = BitReader::new(shared.bytes, index(bounds[0]), index(bounds[1]));
    take_set(&mut reader, layout, fuel, visit)
}

/// Blocks whose union may be kept, so that a long interval decodes few blocks one by one.
pub(in crate::sieve) const BLOCKS_PER_UNION: usize = 32;

/// Writes the union of some blocks: any number of locations.
pub(in crate::sieve) fn put_union(out: &mut impl Sink, members: &[u32], num_locals: u32) {
    out.put_below(saturating_u32(members.len()), num_locals + 1);
    put_members(out, members, 0, num_locals);
}

/// Visits a union that [`put_union`] wrote.
pub(in crate::sieve) fn visit_union(
    unions: Shared<'_>,
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

/// Where bound `at` of `0..=last` would lie, were all blocks equally long.
pub(in crate::sieve) fn on_line(at: u64, last: u64, total: u64) -> u64 {
    match at.checked_mul(total) {
        Some(product) => product / last.max(1),
        None => low_u64(u128::from(at) * u128::from(total) / u128::from(last.max(1))),
    }
}
