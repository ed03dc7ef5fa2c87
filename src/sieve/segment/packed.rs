//! A segment as lookups use it: its part of the axis, its blocks of equal width and its locations.
//!
//! `block = (point DIV width) - (least DIV width)`. The width is a power of two, so the division of the thesis is a
//! shift. Block boundaries are boundaries of the axis's dyadic cells and do not depend on the least key.

use std::marker::PhantomData;

use crate::cursor::Cursor;
use crate::error::Result;
use crate::int::{index, low_u64, saturating_u32, to_u64, to_usize};
use crate::sieve::code::bits::{BitReader, Source};
use crate::sieve::code::format::{SEGMENT, SEGMENT_2, cursor, finished, malformed, unframe};
use crate::sieve::code::offset::{Offset, shifted};
use crate::sieve::code::separators::Distribution;
use crate::sieve::code::set::take_members;
use crate::sieve::key::axis::{Bytes, Key, Position, take_point};
use crate::sieve::key::hash::HashedKey as _;
use crate::sieve::key::string_points::StringPoints;
use crate::sieve::segment::block::{
    BLOCKS_PER_UNION, Blocks, CLUMPED, Damaged, FINGERPRINTS, FUEL, GAPS, KINDS, Layout, NUM_KINDS_1, StoredSets,
    UNIONS, Visited, on_line, visit_union,
};
use crate::sieve::segment::cache_entry::{CacheEntry, CachedSegment};
use crate::sieve::segment::decoded::{DecodedSegment, StoredSegment};
use crate::sieve::segment::fingerprint::MAX_SLOTS;
use crate::varint::take_len;

/// The lookup section of a segment, validated and ready to answer.
#[derive(Debug, Clone)]
pub struct Segment<K> {
    layout: Layout,
    mapping: StringPoints,
    least: u128,
    most: u128,
    /// True if every gap between keys is a run without locations.
    gaps: bool,
    /// The locations by local number, ascending.
    locations: Vec<u32>,
    shared_bounds: Vec<u32>,
    shared: Vec<u8>,
    /// The unions of neighboring blocks. The bounds are empty if the segment has no unions.
    union_bounds: Vec<u32>,
    unions: Vec<u8>,
    /// The first bit of each block in `payload`, and the end of the last.
    bounds: Vec<u32>,
    payload: Vec<u8>,
    pub(in crate::sieve) cache: CacheEntry,
    key: PhantomData<K>,
}

impl<K: Key> Segment<K> {
    /// Parses a lookup section, of either version, of an index over `num_locations` locations.
    pub fn parse(bytes: &[u8], num_locations: u32) -> Result<Self> {
        let is_version_2 = SEGMENT_2.begins(bytes);
        let (part, num_kinds, known_flags) = if is_version_2 {
            (SEGMENT_2, KINDS.len(), CLUMPED | UNIONS | FINGERPRINTS | GAPS)
        } else {
            (SEGMENT, NUM_KINDS_1, CLUMPED | UNIONS)
        };
        let mut cursor = cursor(unframe(part, bytes)?);
        let cursor = &mut cursor;
        if cursor.u8()? != K::CODE {
            return Err(malformed(cursor, "key width"));
        }
        let flags = cursor.u8()?;
        let distribution = if flags & CLUMPED == 0 { Distribution::Scattered } else { Distribution::Clumped };
        let (shift, count_bits) = (u32::from(cursor.u8()?), u32::from(cursor.u8()?));
        let mut kinds = Vec::with_capacity(KINDS.len());
        for _ in 0..cursor.u8()? {
            let kind = KINDS[..num_kinds].get(usize::from(cursor.u8()?)).filter(|kind| !kinds.contains(*kind));
            kinds.push(*kind.ok_or_else(|| malformed(cursor, "kinds of sets"))?);
        }
        let mapping = if K::CODE == Bytes::CODE { StringPoints::read(cursor)? } else { StringPoints::default() };
        let (least, most) = (take_point::<K>(cursor)?, take_point::<K>(cursor)?);
        let point_bits = saturating_u32(K::POINT_BYTES) * 8;
        let both = FINGERPRINTS | GAPS;
        if flags & !known_flags != 0
            || flags & both == both
            || shift >= point_bits
            || count_bits > 10
            || kinds.is_empty()
            || least > most
        {
            return Err(malformed(cursor, "segment header"));
        }
        // A later index may have more locations than this segment knows.
        let universe = if is_version_2 { take_number(cursor)? } else { num_locations };
        let has_fingerprints = flags & FINGERPRINTS != 0;
        let slots = if has_fingerprints { take_number(cursor)? } else { 0 };
        let num_locals = take_number(cursor)?;
        let num_shared = take_number(cursor)?;
        let max_members = take_number(cursor)?;
        let fits = universe <= num_locations && slots <= MAX_SLOTS && (slots > 0) == has_fingerprints;
        if !fits || num_locals == 0 || num_locals > universe || max_members == 0 || max_members > num_locals {
            return Err(malformed(cursor, "locations of a segment"));
        }
        let locals_len = take_len(cursor)?;
        let (shared_bits, payload_bits) = (take_number(cursor)?, take_number(cursor)?);

        let area = cursor.take(locals_len)?;
        let mut locations = Vec::new();
        let mut reader = BitReader::new(area, 0, area.len() * 8);
        take_members(&mut reader, num_locals, 0, universe, &mut |location| locations.push(location));
        if reader.exhausted() || locations.len() != index(num_locals) {
            return Err(malformed(cursor, "locations of a segment"));
        }
        let shared_bounds =
            take_bounds(cursor, if num_shared == 0 { 0 } else { u64::from(num_shared) + 1 }, shared_bits)?;
        let shared = cursor.take(index(shared_bits.div_ceil(8)))?.to_vec();
        let num_blocks = shifted(most, shift) - shifted(least, shift);
        let num_bounds = u64::try_from(num_blocks).ok().and_then(|blocks| blocks.checked_add(2));
        let num_bounds = num_bounds.ok_or_else(|| malformed(cursor, "blocks"))?;
        let (mut union_bounds, mut unions) = (Vec::new(), Vec::new());
        if flags & UNIONS != 0 {
            let union_bits = take_number(cursor)?;
            let num_unions = (num_bounds - 1).div_ceil(to_u64(BLOCKS_PER_UNION));
            union_bounds = take_bounds(cursor, num_unions + 1, union_bits)?;
            unions = cursor.take(index(union_bits.div_ceil(8)))?.to_vec();
        }
        let bounds = take_bounds(cursor, num_bounds, payload_bits)?;
        let payload = cursor.take(index(payload_bits.div_ceil(8)))?.to_vec();
        finished(cursor)?;
        let layout = Layout { shift, distribution, count_bits, kinds, num_locals, num_shared, max_members, slots };
        Ok(Self {
            layout,
            mapping,
            least,
            most,
            gaps: flags & GAPS != 0,
            locations,
            shared_bounds,
            shared,
            union_bounds,
            unions,
            bounds,
            payload,
            cache: CacheEntry::default(),
            key: PhantomData,
        })
    }

    /// Returns all locations of the segment in ascending order.
    pub fn locations(&self) -> &[u32] {
        &self.locations
    }

    /// Returns the number of blocks.
    pub fn num_blocks(&self) -> usize {
        self.bounds.len() - 1
    }

    /// Appends the locations of a key in ascending order. Appends nothing for a key in a gap, or excluded by
    /// fingerprints. Fails if the key is outside the segment: the directory then contradicts the segment.
    #[inline]
    pub(in crate::sieve) fn point(&self, key: &K, out: &mut Vec<u32>) -> Visited {
        let Position::At(point) = key.position(&self.mapping) else { return Err(Damaged) };
        if point < self.least || point > self.most {
            return Err(Damaged);
        }
        let block = self.block_of(point);
        let inside = self.inside(point);
        let (start, hash) = (out.len(), (self.layout.slots > 0).then(|| key.key_hash()));
        let present = self.visit_block(block, (inside, inside), hash, &mut FUEL.clone(), &mut |local| {
            out.extend(self.locations.get(index(local)));
        })?;
        if !present {
            out.truncate(start);
        }
        Ok(())
    }

    /// Like [`Segment::point`], but uses the decoded form. The key must be between the segment's least and greatest
    /// key.
    #[inline]
    pub(in crate::sieve) fn point_in_decoded(&self, cached: &CachedSegment, key: &K, out: &mut Vec<u32>) {
        if let Some(point) = key.approximate_point(&self.mapping, cached.decoded.ignored_bits()) {
            cached.decoded.point(point, || key.key_hash(), out);
        }
    }

    /// Decodes the segment.
    pub(in crate::sieve) fn decode(&self) -> Option<DecodedSegment> {
        let packed = StoredSegment {
            layout: &self.layout,
            locations: &self.locations,
            least: self.least,
            shared: StoredSets { bytes: &self.shared, bounds: &self.shared_bounds },
            bounds: &self.bounds,
            payload: &self.payload,
        };
        if K::POINT_BYTES == 8 { DecodedSegment::new::<u64>(&packed) } else { DecodedSegment::new::<u128>(&packed) }
    }

    /// Appends the locations of every run that overlaps the keys from `low` to `high`, ascending and without
    /// duplicates. May omit locations that `known` already contains. Fails if all these keys are outside the segment.
    pub(in crate::sieve) fn interval(&self, low: &K, high: &K, known: Option<&[bool]>, out: &mut Vec<u32>) -> Visited {
        let least = match low.position(&self.mapping) {
            Position::Below => self.least,
            Position::At(point) => point.max(self.least),
            Position::Above => return Err(Damaged),
        };
        let most = match high.position(&self.mapping) {
            Position::Below => return Err(Damaged),
            Position::At(point) => point.min(self.most),
            Position::Above => self.most,
        };
        if least > most {
            return Err(Damaged);
        }
        if (least, most) == (self.least, self.most) {
            out.extend_from_slice(&self.locations);
            return Ok(());
        }
        if let Some(cached) = self.cache.get() {
            cached.decoded.interval(least, most, out);
            return Ok(());
        }
        let is_known =
            |location: &u32| known.is_some_and(|known| known.get(index(*location)).copied().unwrap_or(false));
        let mut seen: Vec<bool> = match known {
            None => vec![false; self.locations.len()],
            Some(_) => self.locations.iter().map(is_known).collect(),
        };
        let mut missing = seen.iter().filter(|seen| !**seen).count();
        let mut new_locals = Vec::new();
        let (first, last) = (self.block_of(least), self.block_of(most));
        self.cache.count(last.saturating_sub(first));
        let end = 1u128.checked_shl(self.layout.shift).map_or(u128::MAX, |width| width - 1);
        let mut fuel = FUEL;
        let mut block = first;
        // Stop early once every location has been found.
        while block <= last && missing > 0 {
            let mut add = |local: u32| {
                if let Some(slot) = seen.get_mut(index(local)).filter(|seen| !**seen) {
                    missing -= 1;
                    *slot = true;
                    new_locals.push(local);
                }
            };
            let inner = block > first && block % BLOCKS_PER_UNION == 0 && block + BLOCKS_PER_UNION <= last;
            if inner && !self.union_bounds.is_empty() {
                let unions = StoredSets { bytes: &self.unions, bounds: &self.union_bounds };
                visit_union(unions, block / BLOCKS_PER_UNION, self.layout.num_locals, &mut add)?;
                block += BLOCKS_PER_UNION;
                continue;
            }
            let low = if block == first { self.inside(least) } else { 0 };
            let high = if block == last { self.inside(most) } else { end };
            self.visit_block(block, (low, high), None, &mut fuel, &mut add)?;
            block += 1;
        }
        if new_locals.len() < seen.len() / 16 {
            new_locals.sort_unstable();
        } else {
            let new =
                (0..).zip(&self.locations).zip(&seen).filter(|((_, location), seen)| **seen && !is_known(location));
            new_locals = new.map(|((local, _), _)| local).collect();
        }
        out.extend(new_locals.iter().filter_map(|&local| self.locations.get(index(local))));
        Ok(())
    }

    /// Sums the locations that missing keys at `probes` evenly spaced points of the segment read. The hash of a point
    /// replaces the hash of its key.
    pub(in crate::sieve) fn reads_of(&self, probes: u32) -> u64 {
        if self.gaps {
            return 0;
        }
        let (step, mut reads, mut out) = ((self.most - self.least) / u128::from(probes.max(1)), 0u64, Vec::new());
        for probe in 0..probes {
            let point = self.least + step * u128::from(probe) + step / 2;
            out.clear();
            let inside = self.inside(point);
            let (block, hash) = (self.block_of(point), Some(point.key_hash()));
            let visited = self.visit_block(block, (inside, inside), hash, &mut FUEL.clone(), &mut |at| out.push(at));
            reads += match visited {
                Ok(true) => to_u64(out.len()),
                Ok(false) => 0,
                Err(Damaged) => u64::from(self.layout.num_locals),
            };
        }
        reads
    }

    #[inline]
    fn block_of(&self, point: u128) -> usize {
        let block = shifted(point, self.layout.shift) - shifted(self.least, self.layout.shift);
        // Parsing has checked that the bounds of every block of `least..=most` are in memory.
        to_usize(low_u64(block)).unwrap_or(usize::MAX)
    }

    #[inline]
    fn inside(&self, point: u128) -> u128 {
        point & ((1u128 << self.layout.shift) - 1)
    }

    #[inline]
    fn visit_block(
        &self,
        block: usize,
        keys: (u128, u128),
        hash: Option<u64>,
        fuel: &mut u64,
        visit: &mut impl FnMut(u32),
    ) -> std::result::Result<bool, Damaged> {
        let bounds = self.bounds.get(block..).and_then(|rest| rest.first_chunk::<2>()).ok_or(Damaged)?;
        if bounds[0] == bounds[1] {
            return Ok(true);
        }
        let shared = StoredSets { bytes: &self.shared, bounds: &self.shared_bounds };
        let blocks = Blocks { bytes: &self.payload, layout: &self.layout, shared };
        let bits = (index(bounds[0]), index(bounds[1]));
        if K::POINT_BYTES == 8 {
            let keys = (u64::of(keys.0), u64::of(keys.1));
            blocks.visit_runs(bits, keys, hash, fuel, visit)
        } else {
            blocks.visit_runs(bits, keys, hash, fuel, visit)
        }
    }
}

fn take_number(cursor: &mut Cursor<'_>) -> Result<u32> {
    let value = cursor.varint()?;
    u32::try_from(value).ok().filter(|&value| value < 1 << 31).ok_or_else(|| malformed(cursor, "number"))
}

/// Reads `count` ascending bit positions from 0 to `total`, stored as distances from a straight line. Checks that
/// enough bytes are present before allocating.
fn take_bounds(cursor: &mut Cursor<'_>, count: u64, total: u32) -> Result<Vec<u32>> {
    if count == 0 {
        return if total == 0 { Ok(Vec::new()) } else { Err(malformed(cursor, "bounds")) };
    }
    // The first distance is zero, so the least distance is never positive.
    let below = cursor.varint()?;
    let width = u32::from(cursor.u8()?);
    let bits = count.checked_mul(u64::from(width)).filter(|&bits| bits <= to_u64(cursor.remaining()).saturating_mul(8));
    let bits = bits.filter(|_| (1..=32).contains(&width)).ok_or_else(|| malformed(cursor, "bounds"))?;
    let bytes = cursor.take(to_usize(bits.div_ceil(8)).unwrap_or(usize::MAX))?;
    let mut reader = BitReader::new(bytes, 0, bytes.len() * 8);
    let bound = |at: u64| {
        let sum = on_line(at, count - 1, u64::from(total)).saturating_add(reader.take(width));
        u32::try_from(sum.checked_sub(below)?).ok()
    };
    let bounds: Option<Vec<u32>> = (0..count).map(bound).collect();
    let bounds =
        bounds.filter(|bounds| bounds.is_sorted() && bounds.first() == Some(&0) && bounds.last() == Some(&total));
    bounds.ok_or_else(|| malformed(cursor, "bounds"))
}
