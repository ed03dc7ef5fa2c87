//! Merges sorted runs into one stream of pairs, holding one chunk of each run.
//!
//! It does no I/O: if a run has used up its chunk, the caller supplies the next one.

use crate::error::{Error, ErrorKind, Result};
use crate::sieve::key::arrow::ArrowKey;
use crate::sieve::record::pairs::RunChunk;
use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// Merges runs by key.
#[derive(Debug)]
pub struct Merge<K> {
    runs: Vec<RunState<K>>,
    heap: BinaryHeap<NextPair<K>>,
    waiting: Vec<usize>,
    /// Stops before this key.
    until: Option<K>,
}

#[derive(Debug)]
enum RunState<K> {
    Waiting,
    Open(RunChunk<K>),
    Done,
}

/// The next pair of a run. The heap's maximum is the pair with the least key.
#[derive(Debug)]
struct NextPair<K> {
    key: K,
    location: u32,
    run: usize,
    rows: u64,
}

impl<K: Ord> NextPair<K> {
    fn order(&self) -> (&K, u32, usize) {
        (&self.key, self.location, self.run)
    }
}

impl<K: Ord> Ord for NextPair<K> {
    fn cmp(&self, other: &Self) -> Ordering {
        other.order().cmp(&self.order())
    }
}

impl<K: Ord> PartialOrd for NextPair<K> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<K: Ord> PartialEq for NextPair<K> {
    fn eq(&self, other: &Self) -> bool {
        self.order() == other.order()
    }
}

impl<K: Ord> Eq for NextPair<K> {}

impl<K: ArrowKey> Merge<K> {
    /// Creates a merge of `num_runs` runs. All of them wait for their first chunk.
    pub fn new(num_runs: usize) -> Self {
        Self {
            runs: (0..num_runs).map(|_| RunState::Waiting).collect(),
            heap: BinaryHeap::with_capacity(num_runs),
            waiting: (0..num_runs).rev().collect(),
            until: None,
        }
    }

    /// Returns the same merge, limited to keys below `key`.
    pub fn until(self, key: Option<K>) -> Self {
        Self { until: key, ..self }
    }

    /// Supplies the next chunk of a waiting run, or `None` at its end.
    pub fn feed(&mut self, run: usize, chunk: Option<Vec<u8>>) -> Result<()> {
        let Some(at) = self.waiting.iter().position(|waiting| *waiting == run) else {
            return Err(Error::new(ErrorKind::SieveOption("a run that is not waiting cannot be fed")));
        };
        match chunk {
            Some(bytes) => {
                self.runs[run] = RunState::Open(RunChunk::new(bytes)?);
                self.waiting.swap_remove(at);
                self.advance(run)?;
            }
            None => {
                self.runs[run] = RunState::Done;
                self.waiting.swap_remove(at);
            }
        }
        Ok(())
    }

    /// Passes pairs to `sink` until a run needs its next chunk, and returns its number. Returns `None` at the end.
    pub fn pour(&mut self, mut sink: impl FnMut(K, u32, u64) -> Result<()>) -> Result<Option<usize>> {
        loop {
            if let Some(&waiting) = self.waiting.last() {
                return Ok(Some(waiting));
            }
            let Some(mut head) = self.heap.peek_mut() else { return Ok(None) };
            if self.until.as_ref().is_some_and(|until| *until <= head.key) {
                return Ok(None);
            }
            let run = head.run;
            let next = match &mut self.runs[run] {
                RunState::Open(chunk) => chunk.next_pair()?,
                RunState::Waiting | RunState::Done => None,
            };
            let pair = match next {
                Some((key, location, rows)) => std::mem::replace(&mut *head, NextPair { key, location, run, rows }),
                None => {
                    self.runs[run] = RunState::Waiting;
                    self.waiting.push(run);
                    std::collections::binary_heap::PeekMut::pop(head)
                }
            };
            sink(pair.key, pair.location, pair.rows)?;
        }
    }

    fn advance(&mut self, run: usize) -> Result<()> {
        if let RunState::Open(chunk) = &mut self.runs[run] {
            match chunk.next_pair()? {
                Some((key, location, rows)) => self.heap.push(NextPair { key, location, run, rows }),
                None => {
                    self.runs[run] = RunState::Waiting;
                    self.waiting.push(run);
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sieve::record::pairs::RunWriter;
    use proptest::prelude::*;

    type Pair = (u64, u32, u64);

    /// Writes sorted pairs as chunks of `len` pairs.
    fn chunks(pairs: &[Pair], len: usize) -> Vec<Vec<u8>> {
        let write = |pairs: &[Pair]| {
            let mut writer = RunWriter::default();
            pairs.iter().for_each(|&(key, location, rows)| writer.push(key, location, rows));
            writer.finish()
        };
        pairs.chunks(len).flat_map(write).collect()
    }

    /// Merges runs of which each has chunks of `len` pairs.
    fn merge(runs: &[Vec<Pair>], len: usize, until: Option<u64>) -> Vec<Pair> {
        let mut merge = Merge::new(runs.len()).until(until);
        let mut feeds: Vec<_> = runs.iter().map(|run| chunks(run, len).into_iter()).collect();
        let mut merged = Vec::new();
        let mut take = |key, location, rows| {
            merged.push((key, location, rows));
            Ok(())
        };
        while let Some(run) = merge.pour(&mut take).unwrap() {
            merge.feed(run, feeds[run].next()).unwrap();
        }
        // A merge that has ended passes on nothing more.
        assert_eq!(merge.pour(&mut take).unwrap(), None);
        merged
    }

    #[test]
    fn runs_are_fed_only_while_they_wait() {
        let mut merge = Merge::<u64>::new(2);
        let one = chunks(&[(5, 0, 1)], 1).remove(0);
        merge.feed(0, Some(one.clone())).unwrap();
        assert_eq!(merge.pour(|_, _, _| Ok(())).unwrap(), Some(1));
        let error = merge.feed(0, Some(one)).unwrap_err();
        assert_eq!(error.kind(), &ErrorKind::SieveOption("a run that is not waiting cannot be fed"));
        merge.feed(1, None).unwrap();
        assert_eq!(merge.pour(|_, _, _| Ok(())).unwrap(), Some(0));
    }

    proptest! {
        #[test]
        fn merged_runs_are_sorted_and_complete(
            runs in proptest::collection::vec(proptest::collection::vec((0u64..30, 0u32..4, 1u64..4), 0..40), 0..5),
            len in 1usize..8,
            until in proptest::option::of(0u64..32),
        ) {
            let runs: Vec<Vec<Pair>> = runs
                .into_iter()
                .map(|mut run| {
                    run.sort_unstable();
                    run
                })
                .collect();
            let mut merged = merge(&runs, len, until);
            let order = |pair: &Pair| (pair.0, pair.1);
            prop_assert!(merged.windows(2).all(|pair| order(&pair[0]) <= order(&pair[1])));
            let mut expected = runs.concat();
            expected.retain(|pair| until.is_none_or(|until| pair.0 < until));
            expected.sort_unstable();
            merged.sort_unstable();
            prop_assert_eq!(merged, expected);
        }
    }
}
