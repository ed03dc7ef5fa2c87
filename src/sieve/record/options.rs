//! The options of an index. They are stored in the root, so that a compaction uses the options of the build.

use crate::error::{Error, ErrorKind, Result};

/// How much an index may answer beyond the exact locations to become smaller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Coarsen {
    /// Exact: every existing key reads only its own locations.
    #[default]
    Exact,
    /// Merge neighbors until the mean share of locations that an existing key reads needlessly reaches this limit.
    Error {
        /// The limit in millionths.
        millionths: u32,
    },
    /// Merge neighbors while a saved bit costs at most this many needless reads, summed over the keys.
    Slope {
        /// The limit in thousandths of a read.
        thousandths: u32,
    },
    /// The plain blocks of the thesis: one location set per block.
    Plain {
        /// The mean number of keys per block.
        keys: u32,
    },
}

/// The version of the stored form.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Format {
    /// Version 1: locations are named, and every segment has a keys section. Only updates of existing columns write it.
    #[default]
    V1,
    /// Version 2: locations are units of slices, and keys sections are optional.
    V2,
}

/// Limits on a segment and on the memory of a build.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// The most `(key, location)` records of a segment. The thesis uses 3,000,000.
    pub max_records: usize,
    /// The most bytes of buffered byte-string keys.
    pub max_key_bytes: usize,
    /// The most locations of a segment, summed over its runs. It limits the lookup section to 64 KiB.
    pub max_weight: u32,
    /// How to coarsen the runs.
    pub coarsen: Coarsen,
    /// The version of the stored form. Version 1 ignores the fields below.
    pub format: Format,
    /// True to store every key, so that a compaction does not read the table again.
    pub keep_keys: bool,
    /// Whether to store fingerprints of the keys, which exclude missing keys. `None` stores them where they pay.
    pub fingerprints: Option<bool>,
    /// The mean number of locations that a missing key may read where fingerprints are stored, in millionths. Segments
    /// are built for four fifths of it.
    pub fpp: u32,
}

impl Default for Options {
    fn default() -> Self {
        Self::DEFAULT
    }
}

impl Options {
    /// The default options, for constants.
    pub const DEFAULT: Self = Self {
        max_records: 3_000_000,
        max_key_bytes: 64 << 20,
        max_weight: 16_384,
        coarsen: Coarsen::Exact,
        format: Format::V1,
        keep_keys: false,
        fingerprints: None,
        fpp: 20_000,
    };

    /// Returns true if segments have a keys section.
    pub fn stores_keys(&self) -> bool {
        self.format == Format::V1 || self.keep_keys
    }

    /// Returns the most bytes that a builder holds for keys of `key_size` bytes, apart from one more key with its
    /// locations.
    pub fn memory_bound(&self, key_size: usize) -> usize {
        // A record has a key, end, location, rows and cumulative weight. The page being encoded also has points and
        // runs.
        let record = key_size + 8 + 4 + 8 + 8;
        self.max_records.saturating_mul(record * 2).saturating_add(self.max_key_bytes)
    }

    pub(in crate::sieve) fn check(&self) -> Result<()> {
        let wrong = match self.coarsen {
            Coarsen::Plain { keys: 0 } => Some("plain blocks hold at least one key"),
            Coarsen::Error { millionths } if millionths > 1_000_000 => Some("an error is a share of at most one"),
            _ if self.max_records == 0 || self.max_key_bytes == 0 || self.max_weight == 0 => Some("a limit of zero"),
            _ if self.fpp == 0 || self.fpp > 1_000_000 => Some("a false positive rate is above zero and at most one"),
            _ => None,
        };
        wrong.map_or(Ok(()), |what| Err(Error::new(ErrorKind::SieveOption(what))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_out_of_range_are_rejected() {
        let usual = Options::default();
        assert_eq!(usual.check(), Ok(()));
        for accepted in [
            Options { coarsen: Coarsen::Plain { keys: 1 }, ..usual },
            Options { coarsen: Coarsen::Error { millionths: 1_000_000 }, ..usual },
            Options { fpp: 1, ..usual },
            Options { fpp: 1_000_000, ..usual },
        ] {
            assert_eq!(accepted.check(), Ok(()), "{accepted:?}");
        }
        for (wrong, reason) in [
            (Options { coarsen: Coarsen::Plain { keys: 0 }, ..usual }, "plain blocks hold at least one key"),
            (
                Options { coarsen: Coarsen::Error { millionths: 1_000_001 }, ..usual },
                "an error is a share of at most one",
            ),
            (Options { max_records: 0, ..usual }, "a limit of zero"),
            (Options { max_key_bytes: 0, ..usual }, "a limit of zero"),
            (Options { max_weight: 0, ..usual }, "a limit of zero"),
            (Options { fpp: 0, ..usual }, "a false positive rate is above zero and at most one"),
            (Options { fpp: 1_000_001, ..usual }, "a false positive rate is above zero and at most one"),
        ] {
            assert_eq!(wrong.check().unwrap_err().kind(), &ErrorKind::SieveOption(reason));
        }
    }

    #[test]
    fn the_memory_bound_covers_two_pages_of_records() {
        let options = Options { max_records: 100, max_key_bytes: 7, ..Options::default() };
        assert_eq!(options.memory_bound(8), 2 * 100 * (8 + 28) + 7);
        assert_eq!(Options { max_records: usize::MAX, ..options }.memory_bound(8), usize::MAX);
    }

    #[test]
    fn only_version_2_may_leave_out_the_keys() {
        for (format, keep_keys, stored) in
            [(Format::V1, false, true), (Format::V1, true, true), (Format::V2, false, false), (Format::V2, true, true)]
        {
            assert_eq!(Options { format, keep_keys, ..Options::default() }.stores_keys(), stored);
        }
    }
}
