//! Test files of other writers, from apache/parquet-testing. If they are missing, the tests print a message and pass.

use std::fs;
use std::path::{Path, PathBuf};

use super::{Footer, Tail};
use crate::int::to_u64;

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../shared/data/parquet-testing");

/// Returns the name and content of every Parquet file in the folder and its subfolder `no-bloom`.
#[expect(clippy::disallowed_methods, clippy::print_stdout, reason = "tests may read files and say that they skip")]
pub(crate) fn files() -> Vec<(String, Vec<u8>)> {
    let folders = [PathBuf::from(FOLDER), Path::new(FOLDER).join("no-bloom")];
    let mut files = Vec::new();
    for entry in folders.iter().filter_map(|folder| fs::read_dir(folder).ok()).flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.contains(".parquet") {
            files.push((name, fs::read(entry.path()).unwrap()));
        }
    }
    files.sort();
    if files.is_empty() {
        println!("skipped: the data files of apache/parquet-testing are not next to the checkout");
    }
    files
}

/// Returns the content of the first file whose name starts with `prefix`, or `None` if the files are missing.
pub(crate) fn file(prefix: &str) -> Option<Vec<u8>> {
    files().into_iter().find(|(name, _)| name.starts_with(prefix)).map(|(_, bytes)| bytes)
}

/// Returns a file of the folder that is not a Parquet file, or `None` if it is missing.
#[expect(clippy::disallowed_methods, reason = "tests may read files")]
pub(crate) fn other_file(name: &str) -> Option<Vec<u8>> {
    fs::read(Path::new(FOLDER).join(name)).ok()
}

/// Returns the tail of a complete file, and the bytes between its data and its tail.
pub(crate) fn footer(file: &[u8]) -> (Tail, Vec<u8>) {
    let tail = Tail::decode(file, to_u64(file.len())).unwrap();
    let metadata = file[usize::try_from(tail.metadata.start).unwrap()..file.len() - 8].to_vec();
    (tail, metadata)
}

/// Returns the name and footer of every file with a plaintext footer.
pub(crate) fn plain_footers() -> Vec<(String, Vec<u8>)> {
    let footers = files().into_iter().map(|(name, file)| (name, footer(&file)));
    footers.filter(|(_, (tail, _))| !tail.encrypted).map(|(name, (_, bytes))| (name, bytes)).collect()
}

/// Opens a complete file without keys.
pub(crate) fn open(file: &[u8]) -> crate::error::Result<super::ParquetFile> {
    let (tail, bytes) = footer(file);
    super::ParquetFile::open(Footer { tail, bytes, file_len: to_u64(file.len()) })
}
