//! The pages of files: the map of a table's pages, and rows decoded from few pages.

mod page_map;
mod rows;

use pyo3::prelude::*;

pub(super) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    crate::rows::silence_contained_panics();
    module.add_class::<page_map::FileMap>()?;
    module.add_class::<page_map::PageMap>()?;
    module.add_class::<page_map::PageMapBuilder>()?;
    module.add_class::<rows::RowSet>()?;
    module.add_class::<rows::RowFile>()?;
    module.add_class::<rows::RowScan>()
}
