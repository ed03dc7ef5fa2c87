//! Finds the row groups that may contain a match, reading as little of each filter as possible.

use std::ops::Range;

use crate::arrow::{ColumnType, Meaning, PhysicalType};
use crate::bloom::{Filter, Probe};
use crate::error::{Error, ErrorKind, FileKind, Result};
use crate::int::to_u64;
use crate::parquet::filter::locate::FilterLocation;
use crate::parquet::meta::chunk::Protection;
use crate::parquet::meta::schema::SchemaLeaf;
use crate::parquet::open::decryptor::Decryptor;
use crate::parquet::open::file::ParquetFile;
use crate::ranges::{Fetched, Step};

/// Maximum number of bytes that a query over many row groups keeps in memory at once.
const MEMORY_LIMIT: u64 = 64 * 1024 * 1024;
/// Number of bytes read per 32-byte block when nearby ranges are merged. Requesting blocks that are closer than this
/// separately does not pay off.
const BYTES_PER_BLOCK: u64 = 4096;
/// Assumed size of a filter whose length is unknown.
const DEFAULT_FILTER_SIZE: u64 = 1024 * 1024;

/// A query for a column: does it contain any of the given values?
#[derive(Debug, Clone)]
pub struct ColumnProbe {
    /// Index of the column among the leaves.
    pub column: usize,
    /// The values to look for.
    pub probe: Probe,
}

/// The result per row group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowGroupVerdicts {
    /// For each row group from the first requested one on: true if it may contain a match. `false` is certain.
    pub may_contain: Vec<bool>,
    /// The filters that cannot be used, and exclude nothing. They should be reported.
    pub unusable: Vec<UnusableFilter>,
}

/// A filter that is damaged, unsupported, encrypted without a key, or not trusted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnusableFilter {
    /// Index of the row group.
    pub row_group: usize,
    /// Index of the column among the leaves.
    pub column: usize,
    /// Why the filter cannot be used.
    pub error: Error,
}

impl UnusableFilter {
    /// Returns true for a plaintext filter of an encrypted column, which anyone could have written.
    pub fn is_plaintext(&self) -> bool {
        self.error.kind() == &ErrorKind::File(FileKind::PlaintextFilter)
    }
}

impl ParquetFile {
    /// Reads the filter of a column chunk, bound to the column's type. Returns `None` only if there is no filter.
    pub fn filter(
        &self,
        row_group: usize,
        column: usize,
        decryptor: Option<&dyn Decryptor>,
        fetched: &Fetched,
    ) -> Result<Step<Option<Filter>>> {
        let Some(location) = self.locate_filter(row_group, column, decryptor)? else { return Ok(Step::Ready(None)) };
        let leaf = &self.metadata.leaves()[column];
        let column_type = leaf.column_type().ok_or_else(|| {
            let column = self.metadata.path(leaf).join(".");
            let reason = "the format defines no hash for its type, or this version does not know it";
            Error::new(ErrorKind::File(FileKind::NoHash { column, reason }))
        })?;
        let step = self.read_filter(&location, decryptor, fetched)?;
        Ok(step.map(|sbbf| Some(Filter::new(sbbf, Some(column_type)))))
    }

    /// Returns the row groups that may contain a row in which every column has one of its values.
    ///
    /// Damaged, unknown and encrypted filters exclude nothing. The result starts at row group `first`. It ends early if
    /// more row groups would need too much memory at once; call this again with a new `Fetched` for the remaining row
    /// groups.
    pub fn might_contain(
        &self,
        probes: &[ColumnProbe],
        first: usize,
        decryptor: Option<&dyn Decryptor>,
        fetched: &Fetched,
    ) -> Step<RowGroupVerdicts> {
        self.might_contain_within(MEMORY_LIMIT, probes, first, decryptor, fetched)
    }

    fn might_contain_within(
        &self,
        memory_limit: u64,
        probes: &[ColumnProbe],
        first: usize,
        decryptor: Option<&dyn Decryptor>,
        fetched: &Fetched,
    ) -> Step<RowGroupVerdicts> {
        let (mut needed, mut unusable, mut may_contain) = (Vec::new(), Vec::new(), Vec::new());
        let mut cost = 0;
        for row_group in first..self.metadata.row_groups().len() {
            // The cost depends only on the metadata, so every step of a query ends at the same row group.
            cost += probes.iter().map(|query| self.cost(row_group, query)).sum::<u64>();
            if cost > memory_limit && row_group > first {
                break;
            }
            match self.probe_row_group(row_group, probes, &mut unusable, decryptor, fetched) {
                Step::Ready(answer) => may_contain.push(answer),
                Step::Need(ranges) => needed.extend(ranges),
            }
        }
        match needed.is_empty() {
            true => Step::Ready(RowGroupVerdicts { may_contain, unusable }),
            false => Step::Need(needed),
        }
    }

    fn probe_row_group(
        &self,
        row_group: usize,
        probes: &[ColumnProbe],
        unusable: &mut Vec<UnusableFilter>,
        decryptor: Option<&dyn Decryptor>,
        fetched: &Fetched,
    ) -> Step<bool> {
        let mut missing: Vec<Range<u64>> = Vec::new();
        for query in probes {
            match self.probe_chunk(row_group, query, decryptor, fetched) {
                // One certain "no" decides the row group, so the other reads are not needed.
                Ok(Step::Ready(false)) => return Step::Ready(false),
                Ok(Step::Ready(true)) => {}
                Ok(Step::Need(ranges)) => missing.extend(ranges),
                Err(error) => unusable.push(UnusableFilter { row_group, column: query.column, error }),
            }
        }
        if missing.is_empty() { Step::Ready(true) } else { Step::Need(missing) }
    }

    /// Returns the plaintext filter headers that a query on these row groups has read, by offset. A caller that caches
    /// them need not read them for the next query.
    pub fn headers(&self, row_groups: Range<usize>, probes: &[ColumnProbe], fetched: &Fetched) -> Vec<(u64, Vec<u8>)> {
        let chunks = row_groups.flat_map(|row_group| probes.iter().map(move |query| (row_group, query.column)));
        let header = |(row_group, column)| {
            let location = self.filter_location(row_group, column).ok().flatten()?;
            let Ok(Step::Ready(header)) = location.header(fetched) else { return None };
            let bytes = fetched.get(&(location.offset..header.bitset.start))?;
            (location.protection == Protection::Plain).then(|| (location.offset, bytes.to_vec()))
        };
        chunks.filter_map(header).collect()
    }

    /// Estimates the number of bytes that probing one filter keeps in memory.
    fn cost(&self, row_group: usize, query: &ColumnProbe) -> u64 {
        let hashes = query.probe.hashes().map_or(0, <[u64]>::len);
        match self.filter_location(row_group, query.column) {
            Ok(Some(location)) if location.protection != Protection::Plain || is_read_completely(&location, hashes) => {
                location.length.unwrap_or(DEFAULT_FILTER_SIZE)
            }
            Ok(Some(_)) => to_u64(hashes).saturating_mul(BYTES_PER_BLOCK),
            _ => 0,
        }
    }

    fn probe_chunk(
        &self,
        row_group: usize,
        query: &ColumnProbe,
        decryptor: Option<&dyn Decryptor>,
        fetched: &Fetched,
    ) -> Result<Step<bool>> {
        let hashes = match query.probe.hashes() {
            Some([]) => return Ok(Step::Ready(false)),
            Some(hashes) => hashes,
            None => return Ok(Step::Ready(true)),
        };
        let column_type = self.metadata.leaves().get(query.column).and_then(SchemaLeaf::column_type);
        let typed = column_type.is_some_and(|column_type| !self.is_rebased(column_type));
        match self.locate_filter(row_group, query.column, decryptor)? {
            Some(location) if typed && is_read_completely(&location, hashes.len()) => {
                let filter = self.read_filter(&location, decryptor, fetched)?;
                Ok(filter.map(|filter| hashes.iter().any(|hash| filter.may_contain_hash(*hash))))
            }
            Some(location) if typed => {
                let answers = self.probe_filter(&location, decryptor, hashes, fetched)?;
                Ok(answers.map(|answers| answers.contains(&true)))
            }
            _ => Ok(Step::Ready(true)),
        }
    }

    /// Returns true if Spark wrote the column in its old hybrid calendar, so that it reads other dates than are stored.
    fn is_rebased(&self, column: ColumnType) -> bool {
        let mark = match (column.physical, column.meaning) {
            (PhysicalType::Int96, Meaning::Timestamp { .. }) => "org.apache.spark.legacyINT96",
            (_, Meaning::Timestamp { .. } | Meaning::Date) => "org.apache.spark.legacyDateTime",
            _ => return false,
        };
        self.metadata.key_values().any(|(key, _)| key == mark)
    }

    /// Returns the position of a filter. If the relevant metadata is encrypted and its key is missing, this is an error
    /// instead of `None`.
    fn locate_filter(
        &self,
        row_group: usize,
        column: usize,
        decryptor: Option<&dyn Decryptor>,
    ) -> Result<Option<FilterLocation>> {
        let location = self.filter_location(row_group, column)?;
        let chunk = self.metadata.chunk(row_group, column)?;
        if location.is_none() && chunk.protection != Protection::Plain && self.metadata.encrypted_meta(chunk).is_some()
        {
            // A plaintext footer shows only a part of the metadata. The rest requires the column's key.
            let decryptor = decryptor.ok_or_else(|| self.no_key(column))?;
            decryptor.open_column(&self.metadata, row_group, column)?;
        }
        Ok(location)
    }

    /// Returns the positions of all filters as claimed by the metadata, not validated: row group, column, offset,
    /// length.
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

/// Returns true if this many hashes need about every block of a filter.
fn is_read_completely(location: &FilterLocation, hashes: usize) -> bool {
    location.length.unwrap_or(DEFAULT_FILTER_SIZE) <= to_u64(hashes).saturating_mul(BYTES_PER_BLOCK)
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

    /// Probes the first column of a file for some values. Returns the answers and the lengths of all reads.
    fn probe_first_column(file: &[u8], opened: &ParquetFile, values: &[&str]) -> (Vec<bool>, Vec<u64>) {
        let values: ArrayRef = Arc::new(BinaryArray::from_iter_values(values));
        let probe = Probe::new(&values, opened.metadata.leaves()[0].column_type().unwrap()).unwrap();
        let probes = [ColumnProbe { column: 0, probe }];
        let (verdicts, read) = drive(file, |fetched| Ok(opened.might_contain(&probes, 0, None, fetched))).unwrap();
        (verdicts.may_contain, read.iter().map(|range| range.end - range.start).collect())
    }

    #[test]
    fn a_probe_reads_the_header_and_one_block_per_value() {
        for (name, whole) in
            [("data_index_bloom_encoding_stats", false), ("data_index_bloom_encoding_with_length", true)]
        {
            let Some(file) = fixtures::file(name) else { return };
            let opened = fixtures::open(&file).unwrap();
            // A small filter whose length is stored is read completely.
            let expect = if whole { vec![2064] } else { vec![64, 32] };
            assert_eq!(probe_first_column(&file, &opened, &["today"]), (vec![true], expect.clone()));
            assert_eq!(probe_first_column(&file, &opened, &["hello"]), (vec![false], expect));
            assert!(probe_first_column(&file, &opened, &["hello", "", "dog"]).0[0]);
            assert_eq!(probe_first_column(&file, &opened, &[]), (vec![false], vec![]), "no values, so no match");
        }
    }

    #[test]
    fn large_probes_run_in_several_steps_and_read_complete_filters() {
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
        let check = |query: Range<i64>, memory_limit: u64, expected_steps: usize, longest: Range<u64>| {
            let probe = Probe::new(&values(query.clone()), "INT64 integer".parse().unwrap()).unwrap();
            let probes = [ColumnProbe { column: 0, probe }];
            let (mut answers, mut num_steps, mut read_lengths) = (Vec::new(), 0, Vec::new());
            while answers.len() < 4 {
                let first = answers.len();
                let step =
                    |fetched: &Fetched| Ok(opened.might_contain_within(memory_limit, &probes, first, None, fetched));
                let (verdicts, read) = drive(&file, step).unwrap();
                answers.extend(verdicts.may_contain);
                read_lengths.extend(read.iter().map(|range| range.end - range.start));
                num_steps += 1;
            }
            for (group, answer) in (0..).zip(&answers) {
                let has_match = query.start < (group + 1) * 20_000 && group * 20_000 < query.end;
                assert!(*answer || !has_match, "{query:?} in {group}");
            }
            assert_eq!(num_steps, expected_steps, "{query:?} within {memory_limit}");
            assert!(longest.contains(read_lengths.iter().max().unwrap()), "{query:?} reads {read_lengths:?}");
        };
        check(25_000..25_001, MEMORY_LIMIT, 1, 32..65);
        check(25_000..25_001, 0, 4, 32..65);
        check(25_000..25_001, 2 * BYTES_PER_BLOCK, 2, 32..65);
        check(25_000..45_000, MEMORY_LIMIT, 1, 16_384..1 << 20);
        check(25_000..45_000, 1, 4, 16_384..1 << 20);
    }

    #[test]
    fn dates_in_the_old_calendar_of_spark_are_not_probed() {
        use arrow_array::Date32Array;
        use parquet::file::metadata::KeyValue;

        let schema = Arc::new(Schema::new(vec![Field::new("day", DataType::Date32, false)]));
        let days = |range: Range<i32>| Arc::new(Date32Array::from_iter_values(range)) as ArrayRef;
        for (mark, is_probed) in [("org.apache.spark.legacyDateTime", false), ("org.apache.spark.version", true)] {
            let properties = WriterProperties::builder()
                .set_bloom_filter_enabled(true)
                .set_bloom_filter_fpp(1e-9)
                .set_key_value_metadata(Some(vec![KeyValue::new(mark.to_owned(), String::new())]))
                .build();
            let mut file = Vec::new();
            let mut writer = ArrowWriter::try_new(&mut file, schema.clone(), Some(properties)).unwrap();
            writer.write(&RecordBatch::try_new(schema.clone(), vec![days(0..1000)]).unwrap()).unwrap();
            writer.close().unwrap();
            let opened = fixtures::open(&file).unwrap();
            // One value reads a block of the filter, and many values read all of it.
            for (absent, is_complete) in [(5000..5001, false), (5000..5400, true)] {
                let location = opened.filter_location(0, 0).unwrap().unwrap();
                assert_eq!(is_read_completely(&location, absent.len()), is_complete);
                let probe = Probe::new(&days(absent), opened.metadata.leaves()[0].column_type().unwrap()).unwrap();
                let probes = [ColumnProbe { column: 0, probe }];
                let (verdicts, _) =
                    drive(&file, |fetched| Ok(opened.might_contain(&probes, 0, None, fetched))).unwrap();
                assert_eq!((verdicts.may_contain, verdicts.unusable.len()), (vec![!is_probed], 0));
            }
        }
    }

    #[test]
    fn headers_of_plaintext_filters_can_be_cached() {
        let Some(file) = fixtures::file("data_index_bloom_encoding_stats") else { return };
        let opened = fixtures::open(&file).unwrap();
        let probes = [0, 1].map(|column| ColumnProbe { column, probe: Probe::ANYTHING });
        let mut fetched = Fetched::new();
        assert_eq!(opened.headers(0..1, &probes, &fetched), []);
        fetched.insert(192, file[192..256].to_vec());
        let header = crate::bloom::header::encode(32).unwrap();
        assert_eq!(opened.headers(0..1, &probes, &fetched), [(192, header)]);
    }

    #[test]
    fn filters_have_the_type_of_their_column() {
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
    fn damaged_filters_are_reported() {
        let Some(mut file) = fixtures::file("data_index_bloom_encoding_stats") else { return };
        let opened = fixtures::open(&file).unwrap();
        let (_, _, offset, _) = opened.claimed_filters().next().unwrap();
        file[usize::try_from(offset).unwrap()] = 0xff;
        let value: ArrayRef = Arc::new(BinaryArray::from_iter_values(["today"]));
        let probe = Probe::new(&value, opened.metadata.leaves()[0].column_type().unwrap()).unwrap();
        let probes = [ColumnProbe { column: 0, probe }];
        let (verdicts, _) = drive(&file, |fetched| Ok(opened.might_contain(&probes, 0, None, fetched))).unwrap();
        assert_eq!(verdicts.may_contain, [true]);
        let [filter] = &verdicts.unusable[..] else { panic!("{:?}", verdicts.unusable) };
        assert_eq!((filter.row_group, filter.column, filter.is_plaintext()), (0, 0, false));
    }

    #[test]
    fn missing_and_encrypted_filters_exclude_nothing() {
        for (name, file) in fixtures::files().iter().filter(|(name, _)| !name.starts_with("data_index")) {
            let Ok(opened) = fixtures::open(file) else { continue };
            let value: ArrayRef = Arc::new(Int64Array::from(vec![i64::MIN + 7]));
            let groups = opened.metadata.row_groups().len();
            for column in 0..opened.metadata.leaves().len() {
                let probe = Probe::new(&value, "INT64 integer".parse().unwrap()).unwrap();
                let step = opened.might_contain(&[ColumnProbe { column, probe }], 0, None, &Fetched::new());
                let Step::Ready(verdicts) = step else { panic!("{name}, column {column}: more bytes are needed") };
                assert_eq!(verdicts.may_contain, vec![true; groups], "{name}, column {column}");
                for filter in verdicts.unusable {
                    assert_eq!(filter.column, column);
                    assert!(filter.error.to_string().contains("decrypt"), "{name}, column {column}: {}", filter.error);
                }
            }
            let beyond = [ColumnProbe { column: 1 << 20, probe: Probe::NOTHING.or(Probe::ANYTHING) }];
            assert!(matches!(opened.might_contain(&beyond, 0, None, &Fetched::new()), Step::Ready(_)));
        }
    }
}
