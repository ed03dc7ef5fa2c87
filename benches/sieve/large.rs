//! Builds an index of more rows than fit into memory: sorted runs in files, merged to segments in files, in a process whose
//! memory is limited.
//!
//! The rows of a file follow from its number, so each run of the command has the same rows. A sorted run is renamed when it
//! is complete. If you repeat an interrupted command, it sorts only the missing runs and merges them again, and it does not
//! repeat measurements of a complete index. Delete the folder to start from the beginning.

use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

use parsieve::sieve::pairs::{NumberPairs, PairBuffer};
use parsieve::sieve::{
    Answer, AxisType, Builder, Index, IndexInfo, Location, Lookup, Merge, Options, Query, RunWriter, SegmentStream,
    Stats, root, root_over,
};

use crate::clock::Clock;
use crate::json::rounded;
use crate::layouts::Random;
use crate::memory::{CAP, limit, peak};
use serde_json::{Value, json};

/// Rows of a file, which become a run. Sorting needs twice sixteen bytes for each row, far below the limit.
const ROWS_PER_FILE: u64 = 20_000_000;

/// Number of answers that are checked at the end.
const CHECKED: usize = 1000;

/// Returns the shuffled rows of one file, with random keys and locations.
fn rows_of(file: u64, rows: u64, locations: u32) -> impl Iterator<Item = (u64, u32)> {
    let mut random = Random(file << 40);
    (0..rows).map(move |_| (random.next(), u32::try_from(random.below(u64::from(locations))).unwrap()))
}

/// The measured cost of a run.
#[derive(Default)]
struct Cost {
    bare_sort: f64,
    made: f64,
    peak: u64,
}

impl Cost {
    fn add(&mut self, other: &Self) {
        (self.bare_sort, self.made) = (self.bare_sort + other.bare_sort, self.made + other.made);
        self.peak = self.peak.max(other.peak);
    }

    fn write(&self, path: &Path) {
        fs::write(path, format!("{} {} {}\n", self.bare_sort, self.made, self.peak)).unwrap();
    }

    fn read(path: &Path) -> Option<Self> {
        let text = fs::read_to_string(path).ok()?;
        let mut words = text.split_whitespace();
        let (bare_sort, made) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
        Some(Self { bare_sort, made, peak: words.next()?.parse().ok()? })
    }
}

/// Sorts the rows of one file into a run, unless the run exists.
fn run(folder: &Path, file: u64, rows: u64, locations: u32) -> (PathBuf, Cost) {
    let name = format!("run-{ROWS_PER_FILE}-{locations}-{file}-{rows}");
    let (path, cost_path) = (folder.join(&name), folder.join(format!("{name}.cost")));
    if let (true, Some(cost)) = (path.exists(), Cost::read(&cost_path)) {
        return (path, cost);
    }
    let mut bare: Vec<(u64, u32)> = rows_of(file, rows, locations).collect();
    let start = Clock::now();
    bare.sort_unstable();
    let bare_sort = start.seconds();
    drop(bare);
    let mut pairs = NumberPairs::<u64>::default();
    rows_of(file, rows, locations).for_each(|(key, location)| pairs.push(key, location, 1));
    let start = Clock::now();
    let unfinished = folder.join("unfinished");
    let mut out = File::create(&unfinished).unwrap();
    let mut pieces = RunWriter::default();
    let mut write = |some: Vec<Vec<u8>>| {
        for piece in some {
            out.write_all(&u32::try_from(piece.len()).unwrap().to_le_bytes()).unwrap();
            out.write_all(&piece).unwrap();
        }
    };
    pairs.drain(&mut |key, location, rows| {
        pieces.push(key, location, rows);
        write(pieces.take());
    });
    write(pieces.finish());
    out.sync_all().unwrap();
    let cost = Cost { bare_sort, made: start.seconds(), peak: peak() };
    cost.write(&cost_path);
    fs::rename(&unfinished, &path).unwrap();
    println!("run {file}: {rows} rows, bare sort {bare_sort:.1} s, sorted and written in {:.1} s", cost.made);
    (path, cost)
}

/// Reads the next chunk of a run.
fn piece(file: &mut File) -> Option<Vec<u8>> {
    let mut length = [0; 4];
    file.read_exact(&mut length).ok()?;
    let mut piece = vec![0; usize::try_from(u32::from_le_bytes(length)).unwrap()];
    file.read_exact(&mut piece).unwrap();
    Some(piece)
}

/// Builds the index of `rows` shuffled rows within the limit, in files below `folder`. Prints and returns a line of the
/// record.
pub(crate) fn large(rows: u64, locations: u32, folder: &Path) -> Value {
    limit();
    fs::create_dir_all(folder).unwrap();
    let record = folder.join(format!("record-{rows}"));
    if let Ok(known) = fs::read_to_string(&record) {
        println!("{rows} rows, {locations} locations were measured before: {known}");
        return serde_json::from_str(&known).unwrap();
    }
    let (mut runs, mut cost) = (Vec::new(), Cost::default());
    for (file, first) in (0..rows).step_by(usize::try_from(ROWS_PER_FILE).unwrap()).enumerate() {
        let file = u64::try_from(file).unwrap();
        let (path, made) = run(folder, file, ROWS_PER_FILE.min(rows - first), locations);
        cost.add(&made);
        runs.push(File::open(path).unwrap());
    }
    let (start, wall) = (Clock::now(), Instant::now());
    let mut merge = Merge::<u64>::new(runs.len());
    let mut builder = Builder::new(locations, Options::default()).unwrap();
    let mut stream = SegmentStream::new(0);
    let mut halves = ["lookups", "keys"].map(|half| File::create(folder.join(half)).unwrap());
    let mut give = |(lookups, keys): (Vec<u8>, Vec<u8>)| {
        for (half, bytes) in halves.iter_mut().zip([lookups, keys]) {
            half.write_all(&bytes).unwrap();
        }
    };
    while let Some(hungry) = merge.pour(|key, location, rows| builder.push(key, location, rows)).unwrap() {
        merge.feed(hungry, piece(&mut runs[hungry])).unwrap();
        stream.put(builder.take_segments());
        give(stream.take());
    }
    let built = builder.finish();
    stream.put(built.segments);
    give(stream.take());
    halves.iter().for_each(|half| half.sync_all().unwrap());
    let names = (0..locations).map(|at| Location { partition: String::new(), group: format!("{at:08}") }).collect();
    let stats = vec![Stats::default(); usize::try_from(locations).unwrap()];
    let info = IndexInfo { axis: AxisType::Unsigned, instant: 1, options: Options::default() };
    let root = root_over(info, names, stats, &built.spans, stream.into_entries()).unwrap();
    fs::write(folder.join("root"), root::write(&root)).unwrap();
    let (merged, passed) = (start.seconds(), wall.elapsed().as_secs_f64());
    cost.peak = cost.peak.max(peak());

    assert_eq!(root.counts().rows, rows, "every row is in the index");
    check(folder, Index::new(root), rows.min(ROWS_PER_FILE), locations);
    let index = Index::<u64>::new(root::read(&fs::read(folder.join("root")).unwrap()).unwrap());
    let (report, total) = (index.report(), cost.made + merged);
    println!(
        "{rows} rows, {locations} locations: {} runs sorted in {:.0} s, merged and built in {merged:.0} s ({passed:.0} s passed); a bare sort of each run's pairs {:.0} s, in all {:.2}x; peak memory {} MiB of {} MiB; {:.2} bits a row, {} segments, root {} B",
        runs.len(),
        cost.made,
        cost.bare_sort,
        total / cost.bare_sort,
        cost.peak >> 10,
        CAP >> 20,
        report.bits_per_row(),
        report.segments,
        report.root_bytes,
    );
    let members = json!({
        "rows": rows,
        "locations": locations,
        "runs": runs.len(),
        "bare_sort_of_each_run_s": rounded(cost.bare_sort),
        "runs_sorted_and_written_s": rounded(cost.made),
        "merged_and_built_s": rounded(merged),
        "merged_and_built_wall_s": rounded(passed),
        "of_bare_sort": rounded(total / cost.bare_sort),
        "peak_memory_kib": cost.peak,
        "cap_kib": CAP >> 10,
        "bits_per_row": rounded(report.bits_per_row()),
        "keys_bits_for_maintenance": rounded(report.keys_bytes as f64 * 8.0 / rows as f64),
        "segments": report.segments,
        "root_bytes": report.root_bytes,
    });
    let unfinished = folder.join("unfinished-record");
    fs::write(&unfinished, members.to_string()).unwrap();
    fs::rename(&unfinished, record).unwrap();
    members
}

/// Looks up rows of the first file, each with one ranged read.
fn check(folder: &Path, mut index: Index<u64>, rows: u64, locations: u32) {
    let mut lookups = File::open(folder.join("lookups")).unwrap();
    for (key, location) in rows_of(0, rows, locations).take(CHECKED) {
        if let Lookup::Need(needs) = index.lookup(&Query::Point(key)) {
            assert_eq!(needs.len(), 1);
            let mut bytes = vec![0; usize::try_from(needs[0].extent.len).unwrap()];
            lookups.seek(SeekFrom::Start(needs[0].extent.offset)).unwrap();
            lookups.read_exact(&mut bytes).unwrap();
            index.load(needs[0].segment, &bytes).unwrap();
        }
        let answer = index.answer(&Query::Point(key));
        assert!(matches!(&answer, Answer::Only(some) if some.contains(&location)), "a location was lost");
    }
}
