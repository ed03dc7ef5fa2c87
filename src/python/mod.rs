//! The Python module `parsieve._core`. Each function converts its arguments, releases the GIL, calls the core, and
//! converts the result.

mod bloom;
mod bloom_index;
mod column;
mod error;
mod file;
mod functions;
mod import;
mod keys;
mod lake;
mod literal;
mod pages;
mod rewrite;
mod sieve;
mod value_set;

use pyo3::prelude::*;

#[pymodule]
fn _core(module: &Bound<'_, PyModule>) -> PyResult<()> {
    error::register(module)?;
    module.add_class::<lake::AvroColumns>()?;
    module.add_function(wrap_pyfunction!(lake::delta_adds, module)?)?;
    module.add_function(wrap_pyfunction!(lake::delta_statistics, module)?)?;
    module.add_function(wrap_pyfunction!(lake::index_bindings, module)?)?;
    module.add_class::<bloom::BloomFilter>()?;
    module.add_class::<keys::FileKeys>()?;
    module.add_class::<file::Fetched>()?;
    module.add_class::<file::FileReader>()?;
    module.add_class::<file::Probe>()?;
    sieve::register(module)?;
    module.add_class::<rewrite::ChunkBuild>()?;
    module.add_class::<rewrite::ChunkCheck>()?;
    module.add_class::<rewrite::Rewriter>()?;
    module.add_function(wrap_pyfunction!(functions::hash_column, module)?)?;
    module.add_function(wrap_pyfunction!(functions::optimal_num_bytes, module)?)?;
    module.add_function(wrap_pyfunction!(functions::false_positive_rate, module)?)?;
    module.add_function(wrap_pyfunction!(functions::instruction_sets, module)?)?;
    module.add_class::<bloom_index::Shelf>()?;
    module.add_class::<bloom_index::ShelfArrangement>()?;
    module.add_function(wrap_pyfunction!(bloom_index::shelf_num_bytes, module)?)?;
    module.add_function(wrap_pyfunction!(bloom_index::insert_trigrams, module)?)?;
    module.add_function(wrap_pyfunction!(bloom_index::contains_trigrams, module)?)?;
    module.add_class::<value_set::ValueSet>()?;
    module.add_function(wrap_pyfunction!(bloom_index::insert_words, module)?)?;
    module.add_function(wrap_pyfunction!(bloom_index::contains_words, module)?)?;
    pages::register(module)?;
    module.add_function(wrap_pyfunction!(file::coalesce, module)?)?;
    module.add_function(wrap_pyfunction!(file::has_wrong_statistics, module)?)?;
    module.add_function(wrap_pyfunction!(keys::unwrap_key, module)?)?;
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    Ok(())
}
