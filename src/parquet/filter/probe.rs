//! Which row groups can hold a row: every filter that a question needs, each read as little as that takes.

use std::ops::Range;

use crate::arrow::{ColumnType, Meaning, PhysicalType};
use crate::bloom::{Filter, Probe};
use crate::error::{Error, ErrorKind, FileKind, Result};
use crate::int::to_u64;
use crate::parquet::filter::locate::FilterPlace;
use crate::parquet::meta::chunk::Protection;
use crate::parquet::meta::schema::Leaf;
use crate::parquet::open::decryptor::Vault;
use crate::parquet::open::file::ParquetFile;
use crate::ranges::{Fetched, Step};

/// Bytes that one question holds at once, over many row groups.
const AT_ONCE: u64 = 64 * 1024 * 1024;
/// Bytes that a block of 32 brings with it, where near ranges are joined. Blocks closer than this are not worth asking for
/// one by one.
const ROUND_A_BLOCK: u64 = 4096;
/// The size of a filter whose length nobody says.
const USUAL_FILTER: u64 = 1024 * 1024;

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
    /// Whether a row may be there, for each row group from the first one asked for; `false` is certain.
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
            let reason = "the format defines no hash for its type, or this version does not know it";
            Error::new(ErrorKind::File(FileKind::NoHash { column, reason }))
        })?;
        let step = self.read_filter(&place, vault, fetched)?;
        Ok(step.map(|sbbf| Some(Filter::new(sbbf, Some(column_type)))))
    }

    /// Which row groups may hold a row in which every column has one of its values. What is broken, unknown or closed
    /// excludes nothing. Answers begin at row group `first`, and end where more would have to be held in memory at once
    /// than is good; ask for the rest with another `Fetched`.
    pub fn might_contain(
        &self,
        probes: &[ColumnProbe],
        first: usize,
        vault: Option<&dyn Vault>,
        fetched: &Fetched,
    ) -> Step<Verdicts> {
        self.might_contain_within(AT_ONCE, probes, first, vault, fetched)
    }

    fn might_contain_within(
        &self,
        at_once: u64,
        probes: &[ColumnProbe],
        first: usize,
        vault: Option<&dyn Vault>,
        fetched: &Fetched,
    ) -> Step<Verdicts> {
        let (mut needed, mut plaintext, mut may_contain) = (Vec::new(), Vec::new(), Vec::new());
        let mut cost = 0;
        for row_group in first..self.metadata.row_groups().len() {
            // It depends on the metadata alone, so every step of a question ends at the same row group.
            cost += probes.iter().map(|asked| self.cost(row_group, asked)).sum::<u64>();
            if cost > at_once && row_group > first {
                break;
            }
            match self.group(row_group, probes, &mut plaintext, vault, fetched) {
                Step::Ready(answer) => may_contain.push(answer),
                Step::Need(ranges) => needed.extend(ranges),
            }
        }
        match needed.is_empty() {
            true => Step::Ready(Verdicts { may_contain, plaintext }),
            false => Step::Need(needed),
        }
    }

    fn group(
        &self,
        row_group: usize,
        probes: &[ColumnProbe],
        plaintext: &mut Vec<(usize, usize)>,
        vault: Option<&dyn Vault>,
        fetched: &Fetched,
    ) -> Step<bool> {
        let mut missing: Vec<Range<u64>> = Vec::new();
        for asked in probes {
            match self.judge(row_group, asked, vault, fetched) {
                // One certain "no" decides; what else was to be read is not needed any more.
                Ok(Step::Ready(false)) => return Step::Ready(false),
                Ok(Step::Ready(true)) => {}
                Ok(Step::Need(ranges)) => missing.extend(ranges),
                Err(error) if error.kind() == &ErrorKind::File(FileKind::PlaintextFilter) => {
                    plaintext.push((row_group, asked.column));
                }
                Err(_) => {}
            }
        }
        if missing.is_empty() { Step::Ready(true) } else { Step::Need(missing) }
    }

    /// The headers of the plaintext filters that a question to these row groups met, by their offsets: whoever keeps them
    /// need not read them for the next question.
    pub fn headers(&self, row_groups: Range<usize>, probes: &[ColumnProbe], fetched: &Fetched) -> Vec<(u64, Vec<u8>)> {
        let chunks = row_groups.flat_map(|row_group| probes.iter().map(move |asked| (row_group, asked.column)));
        let header = |(row_group, column)| {
            let place = self.filter_place(row_group, column).ok().flatten()?;
            let Ok(Step::Ready(header)) = place.header(fetched) else { return None };
            let bytes = fetched.get(&(place.offset..header.bitset.start))?;
            (place.protection == Protection::Plain).then(|| (place.offset, bytes.to_vec()))
        };
        chunks.filter_map(header).collect()
    }

    /// Bytes that a question to one filter holds in memory, at most or about.
    fn cost(&self, row_group: usize, asked: &ColumnProbe) -> u64 {
        let hashes = asked.probe.hashes().map_or(0, <[u64]>::len);
        match self.filter_place(row_group, asked.column) {
            Ok(Some(place)) if place.protection != Protection::Plain || is_read_whole(&place, hashes) => {
                place.length.unwrap_or(USUAL_FILTER)
            }
            Ok(Some(_)) => to_u64(hashes).saturating_mul(ROUND_A_BLOCK),
            _ => 0,
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
        let column_type = self.metadata.leaves().get(asked.column).and_then(Leaf::column_type);
        let typed = column_type.is_some_and(|column_type| !self.is_rebased(column_type));
        match self.known_place(row_group, asked.column, vault)? {
            Some(place) if typed && is_read_whole(&place, hashes.len()) => {
                let filter = self.read_filter(&place, vault, fetched)?;
                Ok(filter.map(|filter| hashes.iter().any(|hash| filter.may_contain_hash(*hash))))
            }
            Some(place) if typed => {
                let answers = self.probe_filter(&place, vault, hashes, fetched)?;
                Ok(answers.map(|answers| answers.contains(&true)))
            }
            _ => Ok(Step::Ready(true)),
        }
    }

    /// Whether Spark wrote a column's days in its old hybrid calendar: it reads other dates from them than are stored.
    fn is_rebased(&self, column: ColumnType) -> bool {
        let mark = match (column.physical, column.meaning) {
            (PhysicalType::Int96, Meaning::Timestamp { .. }) => "org.apache.spark.legacyINT96",
            (_, Meaning::Timestamp { .. } | Meaning::Date) => "org.apache.spark.legacyDateTime",
            _ => return false,
        };
        self.metadata.key_values().any(|(key, _)| key == mark)
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

/// Whether so many hashes ask for about every block of a filter.
fn is_read_whole(place: &FilterPlace, hashes: usize) -> bool {
    place.length.unwrap_or(USUAL_FILTER) <= to_u64(hashes).saturating_mul(ROUND_A_BLOCK)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{ArrayRef, BinaryArray, Int64Array, RecordBatch};
    use arrow_schema::{DataType, Field, Schema};
    use parquet::arrow::ArrowWriter;
    use parquet::file::properties::WriterProperties;

    use super::*;
    use crate::parquet::fixtures;
    use crate::ranges::tests::drive;

    /// Asks a file of one column for some values; gives the answers, and the lengths of what was read.
    fn ask(file: &[u8], opened: &ParquetFile, values: &[&str]) -> (Vec<bool>, Vec<u64>) {
        let values: ArrayRef = Arc::new(BinaryArray::from_iter_values(values));
        let probe = Probe::new(&values, opened.metadata.leaves()[0].column_type().unwrap()).unwrap();
        let probes = [ColumnProbe { column: 0, probe }];
        let (verdicts, read) = drive(file, |fetched| Ok(opened.might_contain(&probes, 0, None, fetched))).unwrap();
        (verdicts.may_contain, read.iter().map(|range| range.end - range.start).collect())
    }

    #[test]
    fn a_question_reads_the_header_and_one_block_for_each_value() {
        for (name, whole) in
            [("data_index_bloom_encoding_stats", false), ("data_index_bloom_encoding_with_length", true)]
        {
            let Some(file) = fixtures::file(name) else { return };
            let opened = fixtures::open(&file).unwrap();
            // A filter whose length is said and small is read whole.
            let expect = if whole { vec![2064] } else { vec![64, 32] };
            assert_eq!(ask(&file, &opened, &["today"]), (vec![true], expect.clone()));
            assert_eq!(ask(&file, &opened, &["hello"]), (vec![false], expect));
            assert!(ask(&file, &opened, &["hello", "", "dog"]).0[0]);
            assert_eq!(ask(&file, &opened, &[]), (vec![false], vec![]), "one of no values is nowhere");
        }
    }

    #[test]
    fn many_row_groups_are_asked_in_turns_and_many_keys_read_filters_whole() {
        let values = |range: Range<i64>| Arc::new(Int64Array::from_iter_values(range)) as ArrayRef;
        let schema = Arc::new(Schema::new(vec![Field::new("c", DataType::Int64, false)]));
        let properties = WriterProperties::builder().set_bloom_filter_enabled(true).build();
        let mut file = Vec::new();
        let mut writer = ArrowWriter::try_new(&mut file, schema.clone(), Some(properties)).unwrap();
        for group in 0..4 {
            let rows = values(group * 20_000..(group + 1) * 20_000);
            writer.write(&RecordBatch::try_new(schema.clone(), vec![rows]).unwrap()).unwrap();
            writer.flush().unwrap();
        }
        writer.close().unwrap();
        let opened = fixtures::open(&file).unwrap();
        let check = |asked: Range<i64>, at_once: u64, turns: usize, longest: Range<u64>| {
            let probe = Probe::new(&values(asked.clone()), "INT64 integer".parse().unwrap()).unwrap();
            let probes = [ColumnProbe { column: 0, probe }];
            let (mut answers, mut asked_for, mut found) = (Vec::new(), 0, Vec::new());
            while answers.len() < 4 {
                let first = answers.len();
                let step = |fetched: &Fetched| Ok(opened.might_contain_within(at_once, &probes, first, None, fetched));
                let (verdicts, read) = drive(&file, step).unwrap();
                answers.extend(verdicts.may_contain);
                found.extend(read.iter().map(|range| range.end - range.start));
                asked_for += 1;
            }
            for (group, answer) in (0..).zip(&answers) {
                let there = asked.start < (group + 1) * 20_000 && group * 20_000 < asked.end;
                assert!(*answer || !there, "{asked:?} in {group}");
            }
            assert_eq!(asked_for, turns, "{asked:?} within {at_once}");
            assert!(longest.contains(found.iter().max().unwrap()), "{asked:?} reads {found:?}");
        };
        check(25_000..25_001, AT_ONCE, 1, 32..65);
        check(25_000..25_001, 0, 4, 32..65);
        check(25_000..25_001, 2 * ROUND_A_BLOCK, 2, 32..65);
        check(25_000..45_000, AT_ONCE, 1, 16_384..1 << 20);
        check(25_000..45_000, 1, 4, 16_384..1 << 20);
    }

    #[test]
    fn a_filter_is_bound_to_its_column() {
        let Some(file) = fixtures::file("data_index_bloom_encoding_stats") else { return };
        let opened = fixtures::open(&file).unwrap();
        let (filter, _) = drive(&file, |fetched| opened.filter(0, 0, None, fetched)).unwrap();
        assert_eq!(filter.unwrap().column().unwrap().to_string(), "BYTE_ARRAY bytes");
        assert!(
            opened.filter(0, 1, None, &Fetched::new()).is_err() && opened.filter(1, 0, None, &Fetched::new()).is_err()
        );
        let claims: Vec<_> = opened.claimed_filters().collect();
        assert_eq!(claims, [(0, 0, 192, None)]);
    }

    #[test]
    fn what_is_closed_or_not_there_excludes_nothing() {
        for (name, file) in fixtures::files().iter().filter(|(name, _)| !name.starts_with("data_index")) {
            let Ok(opened) = fixtures::open(file) else { continue };
            let value: ArrayRef = Arc::new(Int64Array::from(vec![i64::MIN + 7]));
            let groups = opened.metadata.row_groups().len();
            for column in 0..opened.metadata.leaves().len() {
                let probe = Probe::new(&value, "INT64 integer".parse().unwrap()).unwrap();
                let step = opened.might_contain(&[ColumnProbe { column, probe }], 0, None, &Fetched::new());
                let expect = Verdicts { may_contain: vec![true; groups], plaintext: vec![] };
                assert_eq!(step, Step::Ready(expect), "{name}, column {column}");
            }
            let beyond = [ColumnProbe { column: 1 << 20, probe: Probe::NOTHING.or(Probe::ANYTHING) }];
            assert!(matches!(opened.might_contain(&beyond, 0, None, &Fetched::new()), Step::Ready(_)));
        }
    }
}
