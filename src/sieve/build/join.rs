//! Joins partitions of the sorted keys to an index.

use crate::error::{Error, ErrorKind, Result};
use crate::sieve::build::builder::{BuiltPartition, Fragment, PageEncoder};
use crate::sieve::build::pages::PageSplitter;
use crate::sieve::index::directory::Built;
use crate::sieve::key::axis::Key;
use crate::sieve::record::key_section::take_keys;
use crate::sieve::record::options::Options;
use crate::sieve::record::records::Records;
use crate::sieve::segment::encode::EncodedSegment;
use crate::sieve::unit::stats::KeySpan;

/// Joins partitions in order of their keys, with the same result as one builder for all keys. No key may be in two of
/// them.
pub fn join<K: Key>(parts: Vec<BuiltPartition<K>>, num_locations: u32, options: Options) -> Result<Built<K>> {
    let mut joined = Join::new(num_locations, options)?;
    parts.into_iter().try_for_each(|part| joined.push(part))?;
    Ok(joined.finish())
}

/// Joins partitions one by one.
#[derive(Debug)]
pub(in crate::sieve) struct Join<K> {
    splitter: PageSplitter<K>,
    encoder: PageEncoder<K>,
    last: Option<K>,
}

impl<K: Key> Join<K> {
    pub(in crate::sieve) fn new(num_locations: u32, options: Options) -> Result<Self> {
        options.check()?;
        let encoder = PageEncoder::new(num_locations, options);
        Ok(Self { splitter: PageSplitter::new(options, None), encoder, last: None })
    }

    /// Adds the next partition.
    pub(in crate::sieve) fn push(&mut self, part: BuiltPartition<K>) -> Result<()> {
        let Self { splitter, encoder, last } = self;
        add_fragment(&part.head, splitter, encoder, last)?;
        if let (Some(first), Some(end)) = (part.built.segments.first(), part.built.segments.last()) {
            if last.as_ref().is_some_and(|last| *last >= first.least) {
                return Err(Error::new(ErrorKind::SieveOrder));
            }
            splitter.finish(Some(&first.least), &mut |records, len| encoder.page(records, len));
            *last = Some(end.most.clone());
            *splitter = PageSplitter::new(encoder.options, last.clone());
            encoder.built.segments.extend(part.built.segments);
        }
        merge_spans(&mut encoder.built.spans, part.built.spans);
        add_fragment(&part.tail, splitter, encoder, last)
    }

    /// Returns the segments finished so far. Each segment is returned once.
    pub(in crate::sieve) fn take_segments(&mut self) -> Vec<EncodedSegment<K>> {
        std::mem::take(&mut self.encoder.built.segments)
    }

    /// Finishes the index.
    pub(in crate::sieve) fn finish(mut self) -> Built<K> {
        let Self { splitter, encoder, .. } = &mut self;
        splitter.finish(None, &mut |records, len| encoder.page(records, len));
        self.encoder.built
    }
}

fn add_fragment<K: Key>(
    fragment: &Fragment,
    splitter: &mut PageSplitter<K>,
    encoder: &mut PageEncoder<K>,
    last: &mut Option<K>,
) -> Result<()> {
    let mut records = Records::default();
    take_keys(fragment.as_bytes(), encoder.num_locations, &mut records)?;
    for (number, key) in records.keys.iter().enumerate() {
        if last.as_ref().is_some_and(|last| last >= key) {
            return Err(Error::new(ErrorKind::SieveOrder));
        }
        let pairs = records.pairs(number..number + 1);
        let buffer = splitter.records();
        buffer.locations.extend_from_slice(&records.locations[pairs.clone()]);
        buffer.rows.extend_from_slice(&records.rows[pairs]);
        splitter.close(key.clone(), &mut |records, len| encoder.page(records, len));
        *last = Some(key.clone());
    }
    Ok(())
}

/// Merges the spans of each location over different keys.
pub(super) fn merge_spans<K: Key>(spans: &mut [Option<KeySpan<K>>], others: Vec<Option<KeySpan<K>>>) {
    for (span, other) in spans.iter_mut().zip(others) {
        *span = match (span.take(), other) {
            (Some(a), Some(b)) => Some(KeySpan {
                least: a.least.min(b.least),
                most: a.most.max(b.most),
                rows: a.rows.saturating_add(b.rows),
            }),
            (a, b) => a.or(b),
        };
    }
}
