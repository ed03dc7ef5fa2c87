//! Which row groups can hold a row: every filter that a question needs, each read as little as that takes.

use std::ops::Range;

use super::chunk::Protection;
use super::file::ParquetFile;
use super::locate::FilterPlace;
use super::ranges::{Fetched, Step};
use super::vault::Vault;
use crate::bloom::{Filter, Probe};
use crate::error::{Error, ErrorKind, Result};

/// What is asked of one column: any of some values.
#[derive(Debug, Clone)]
pub struct ColumnProbe {
    /// Position of the column among the leaves.
    pub column: usize,
    /// The values.
    pub probe: Probe,
}

/// The answer for each row group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdicts {
    /// Whether a row may be there, by row group; `false` is certain.
    pub may_contain: Vec<bool>,
    /// Filters in plaintext of encrypted columns, by row group and column: not trusted, and somebody should know.
    pub plaintext: Vec<(usize, usize)>,
}

impl ParquetFile {
    /// The filter that a column chunk has, bound to its column's type; `None` only where there is none.
    pub fn filter(
        &self,
        row_group: usize,
        column: usize,
        vault: Option<&dyn Vault>,
        fetched: &Fetched,
    ) -> Result<Step<Option<Filter>>> {
        let Some(place) = self.known_place(row_group, column, vault)? else { return Ok(Step::Ready(None)) };
        let leaf = &self.metadata.leaves()[column];
        let column_type = leaf.column_type().ok_or_else(|| {
            let column = self.metadata.path(leaf).join(".");
            Error::new(ErrorKind::NoHash {
                column,
                reason: "the format defines no hash for its type, or this version does not know it",
            })
        })?;
        let step = self.read_filter(&place, vault, fetched)?;
        Ok(step.map(|sbbf| Some(Filter::new(sbbf, Some(column_type)))))
    }

    /// Which row groups may hold a row in which every column has one of its values. What is broken, unknown or closed
    /// excludes nothing.
    pub fn might_contain(
        &self,
        probes: &[ColumnProbe],
        vault: Option<&dyn Vault>,
        fetched: &Fetched,
    ) -> Step<Verdicts> {
        let (mut needed, mut plaintext) = (Vec::new(), Vec::new());
        let groups = 0..self.metadata.row_groups().len();
        let may_contain = groups.map(|row_group| {
            let mut missing: Vec<Range<u64>> = Vec::new();
            for asked in probes {
                match self.judge(row_group, asked, vault, fetched) {
                    // One certain "no" decides; what else was to be read is not needed any more.
                    Ok(Step::Ready(false)) => return false,
                    Ok(Step::Ready(true)) => {}
                    Ok(Step::Need(ranges)) => missing.extend(ranges),
                    Err(error) if error.kind() == &ErrorKind::PlaintextFilter => {
                        plaintext.push((row_group, asked.column));
                    }
                    Err(_) => {}
                }
            }
            needed.extend(missing);
            true
        });
        let may_contain = may_contain.collect();
        match needed.is_empty() {
            true => Step::Ready(Verdicts { may_contain, plaintext }),
            false => Step::Need(needed),
        }
    }

    fn judge(
        &self,
        row_group: usize,
        asked: &ColumnProbe,
        vault: Option<&dyn Vault>,
        fetched: &Fetched,
    ) -> Result<Step<bool>> {
        let hashes = match asked.probe.hashes() {
            Some([]) => return Ok(Step::Ready(false)),
            Some(hashes) => hashes,
            None => return Ok(Step::Ready(true)),
        };
        let typed = self.metadata.leaves().get(asked.column).is_some_and(|leaf| leaf.column_type().is_some());
        match self.known_place(row_group, asked.column, vault)? {
            Some(place) if typed => {
                let answers = self.probe_filter(&place, vault, hashes, fetched)?;
                Ok(answers.map(|answers| answers.contains(&true)))
            }
            _ => Ok(Step::Ready(true)),
        }
    }

    /// Where a filter lies, and an error rather than "none" where the metadata that could say so are closed to us.
    fn known_place(&self, row_group: usize, column: usize, vault: Option<&dyn Vault>) -> Result<Option<FilterPlace>> {
        let place = self.filter_place(row_group, column)?;
        let chunk = self.metadata.chunk(row_group, column)?;
        if place.is_none() && chunk.protection != Protection::Plain && self.metadata.encrypted_meta(chunk).is_some() {
            // A plaintext footer shows a part of them; the whole opens with the column's key only.
            let vault = vault.ok_or_else(|| self.no_key(column))?;
            vault.open_column(&self.metadata, row_group, column)?;
        }
        Ok(place)
    }

    /// Where filters lie by the metadata's own words, unchecked: row group, column, offset, length.
    pub fn claimed_filters(&self) -> impl Iterator<Item = (usize, usize, i64, Option<i32>)> {
        let groups = self.metadata.row_groups().iter().enumerate();
        groups.flat_map(|(row_group, group)| {
            group.chunks.iter().enumerate().filter_map(move |(column, chunk)| {
                let meta = chunk.meta.as_ref()?;
                Some((row_group, column, meta.bloom_filter_offset?, meta.bloom_filter_length))
            })
        })
    }
}
