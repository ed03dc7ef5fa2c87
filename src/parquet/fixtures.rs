//! Real files by other writers, for tests. They lie beside the checkout; where they do not, the tests say so and pass.

use std::fs;
use std::path::{Path, PathBuf};

use super::{Footer, Tail};
use crate::int::to_u64;

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../shared/data/parquet-testing");

/// Every Parquet file of the folder and of its folder `no-bloom`, by name.
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
        println!("skipped: the data files of apache/parquet-testing are not beside the checkout");
    }
    files
}

/// The file whose name starts with `name`, if it is there.
pub(crate) fn file(name: &str) -> Option<Vec<u8>> {
    files().into_iter().find(|(found, _)| found.starts_with(name)).map(|(_, bytes)| bytes)
}

/// A file of the folder that is no Parquet file, if it is there.
#[expect(clippy::disallowed_methods, reason = "tests may read files")]
pub(crate) fn bare(name: &str) -> Option<Vec<u8>> {
    fs::read(Path::new(FOLDER).join(name)).ok()
}

/// The tail of a whole file, and the bytes between its data and its tail.
pub(crate) fn footer(file: &[u8]) -> (Tail, Vec<u8>) {
    let tail = Tail::decode(file, to_u64(file.len())).unwrap();
    let metadata = file[usize::try_from(tail.metadata.start).unwrap()..file.len() - 8].to_vec();
    (tail, metadata)
}

/// Every file with a plaintext footer: its name and the footer's bytes.
pub(crate) fn plain_footers() -> Vec<(String, Vec<u8>)> {
    let footers = files().into_iter().map(|(name, file)| (name, footer(&file)));
    footers.filter(|(_, (tail, _))| !tail.encrypted).map(|(name, (_, bytes))| (name, bytes)).collect()
}

/// A whole file as opened without any key.
pub(crate) fn open(file: &[u8]) -> crate::error::Result<super::ParquetFile> {
    let (tail, bytes) = footer(file);
    super::ParquetFile::open(Footer { tail, bytes, file_len: to_u64(file.len()) })
}
