//! The encoding of the root: axis, options, locations with their statistics, and the directory of segments.

use crate::cursor::Cursor;
use crate::error::Result;
use crate::int::{to_u64, to_usize};
use crate::sieve::code::format::{ROOT, cursor, finished, frame, malformed, take_u32, unframe};
use crate::sieve::index::directory::{Entry, Location, Root, SectionRange};
use crate::sieve::key::axis::{AxisType, Key};
use crate::sieve::record::options::{Coarsen, Options};
use crate::sieve::segment::encode::Counts;
use crate::sieve::unit::stats::{Stats, put_span, take_span};
use crate::varint::{put_varint, take_len};

/// Flags of a location.
const HAS_KEYS: u8 = 1;
const UNKNOWN: u8 = 2;

/// Encodes a root.
pub fn write<K: Key>(root: &Root<K>) -> Vec<u8> {
    let mut body = vec![K::CODE, root.axis.code()];
    body.extend_from_slice(&root.instant.to_le_bytes());
    put_coarsen(&mut body, root.options.coarsen);
    put_limits(&mut body, &root.options);
    put_varint(&mut body, to_u64(root.locations.len()));
    for (location, stats) in root.locations.iter().zip(&root.stats) {
        put_location(&mut body, location);
        let flags = if stats.span.is_some() { HAS_KEYS } else { 0 } | if stats.unknown { UNKNOWN } else { 0 };
        body.push(flags);
        put_varint(&mut body, stats.nulls);
        put_varint(&mut body, stats.nans);
        if let Some(span) = &stats.span {
            put_span(&mut body, span);
        }
    }
    put_varint(&mut body, to_u64(root.segments.len()));
    let mut previous: Option<&K> = None;
    for entry in &root.segments {
        put_entry(&mut body, previous, entry);
        previous = Some(&entry.most);
    }
    frame(ROOT, &body)
}

pub(in crate::sieve) fn put_coarsen(body: &mut Vec<u8>, coarsen: Coarsen) {
    let (tag, amount) = match coarsen {
        Coarsen::Exact => (0, 0),
        Coarsen::Error { millionths } => (1, millionths),
        Coarsen::Slope { thousandths } => (2, thousandths),
        Coarsen::Plain { keys } => (3, keys),
    };
    body.push(tag);
    put_varint(body, u64::from(amount));
}

pub(in crate::sieve) fn put_limits(body: &mut Vec<u8>, options: &Options) {
    put_varint(body, to_u64(options.max_records));
    put_varint(body, to_u64(options.max_key_bytes));
    put_varint(body, u64::from(options.max_weight));
}

pub(in crate::sieve) fn put_entry<K: Key>(body: &mut Vec<u8>, previous: Option<&K>, entry: &Entry<K>) {
    entry.least.write_after(previous, body);
    entry.most.write_after(Some(&entry.least), body);
    for extent in [entry.lookup, entry.keys] {
        put_varint(body, u64::from(extent.file));
        put_varint(body, extent.offset);
        put_varint(body, extent.len);
    }
    put_counts(body, &entry.counts);
}

pub(in crate::sieve) fn put_counts(body: &mut Vec<u8>, counts: &Counts) {
    for count in [counts.keys, counts.rows, counts.pairs, counts.reads, counts.runs, counts.blocks] {
        put_varint(body, count);
    }
}

pub(in crate::sieve) fn take_entry<K: Key>(cursor: &mut Cursor<'_>, previous: Option<&K>) -> Result<Entry<K>> {
    let least = K::read_after(previous, cursor)?;
    let most = K::read_after(Some(&least), cursor)?;
    if previous.is_some_and(|previous| *previous >= least) || least > most {
        return Err(malformed(cursor, "order of segments"));
    }
    let (lookup, keys) = (take_extent(cursor)?, take_extent(cursor)?);
    Ok(Entry { least, most, lookup, keys, check: None, counts: take_counts(cursor)? })
}

pub(in crate::sieve) fn take_counts(cursor: &mut Cursor<'_>) -> Result<Counts> {
    Ok(Counts {
        keys: cursor.varint()?,
        rows: cursor.varint()?,
        pairs: cursor.varint()?,
        reads: cursor.varint()?,
        runs: cursor.varint()?,
        blocks: cursor.varint()?,
    })
}

/// Decodes a root.
pub fn read<K: Key>(bytes: &[u8]) -> Result<Root<K>> {
    let mut cursor = cursor(unframe(ROOT, bytes)?);
    let cursor = &mut cursor;
    if cursor.u8()? != K::CODE {
        return Err(malformed(cursor, "key width"));
    }
    let axis = AxisType::from_code(cursor.u8()?).ok_or_else(|| malformed(cursor, "axis"))?;
    let instant = cursor.u64()?.cast_signed();
    let options = take_options(cursor)?;
    let (mut locations, mut stats) = (Vec::new(), Vec::new());
    // Each iteration consumes bytes, so a false count fails at the end of the input.
    for _ in 0..cursor.varint()? {
        locations.push(take_location(cursor)?);
        stats.push(take_stats(cursor)?);
    }
    if to_u64(locations.len()) >= 1 << 31 {
        return Err(malformed(cursor, "number of locations"));
    }
    let mut segments: Vec<Entry<K>> = Vec::new();
    for _ in 0..cursor.varint()? {
        let entry = take_entry(cursor, segments.last().map(|entry| &entry.most))?;
        segments.push(entry);
    }
    finished(cursor)?;
    Ok(Root { axis, instant, options, locations, stats, segments })
}

fn take_options(cursor: &mut Cursor<'_>) -> Result<Options> {
    let coarsen = take_coarsen(cursor)?;
    let options = Options { coarsen, ..take_limits(cursor)? };
    options.check().map_err(|_| malformed(cursor, "options"))?;
    Ok(options)
}

pub(in crate::sieve) fn take_coarsen(cursor: &mut Cursor<'_>) -> Result<Coarsen> {
    let tag = cursor.u8()?;
    let amount = take_u32(cursor)?;
    match tag {
        0 => Ok(Coarsen::Exact),
        1 => Ok(Coarsen::Error { millionths: amount }),
        2 => Ok(Coarsen::Slope { thousandths: amount }),
        3 => Ok(Coarsen::Plain { keys: amount }),
        _ => Err(malformed(cursor, "coarsening")),
    }
}

pub(in crate::sieve) fn take_limits(cursor: &mut Cursor<'_>) -> Result<Options> {
    let mut size = || cursor.varint().map(|size| to_usize(size).unwrap_or(usize::MAX));
    let (max_records, max_key_bytes) = (size()?, size()?);
    Ok(Options { max_records, max_key_bytes, max_weight: take_u32(cursor)?, ..Options::DEFAULT })
}

fn take_stats<K: Key>(cursor: &mut Cursor<'_>) -> Result<Stats<K>> {
    let flags = cursor.u8()?;
    if flags > HAS_KEYS | UNKNOWN {
        return Err(malformed(cursor, "flags of a location"));
    }
    let (nulls, nans) = (cursor.varint()?, cursor.varint()?);
    let mut span = None;
    if flags & HAS_KEYS != 0 {
        span = Some(take_span(cursor)?);
    }
    Ok(Stats { span, nulls, nans, unknown: flags & UNKNOWN != 0 })
}

fn take_extent(cursor: &mut Cursor<'_>) -> Result<SectionRange> {
    Ok(SectionRange { file: take_u32(cursor)?, offset: cursor.varint()?, len: cursor.varint()? })
}

pub(in crate::sieve) fn put_location(body: &mut Vec<u8>, location: &Location) {
    for text in [&location.partition, &location.group] {
        put_varint(body, to_u64(text.len()));
        body.extend_from_slice(text.as_bytes());
    }
}

pub(in crate::sieve) fn take_location(cursor: &mut Cursor<'_>) -> Result<Location> {
    let mut text = || {
        let len = take_len(cursor)?;
        let bytes = cursor.take(len)?;
        String::from_utf8(bytes.to_vec()).map_err(|_| malformed(cursor, "name of a location"))
    };
    Ok(Location { partition: text()?, group: text()? })
}
