//! Imported arrays with their slices pushed down: every structure begins at its own first row.
//!
//! A producer may export a slice as an offset of the parent alone, and nest such slices. arrow-rs applies an offset once when it
//! cuts a structure and again when it makes the array, which ends in a panic; so offsets are settled before it sees them.

use arrow_data::{ArrayData, ArrayDataBuilder};
use arrow_schema::DataType;

/// The same rows, with no structure below that has an offset.
pub fn settle(data: &ArrayData) -> ArrayData {
    rows(data, 0, data.len())
}

/// Rows `start` to `start + len` of `data`, counted from its own offset.
fn rows(data: &ArrayData, start: usize, len: usize) -> ArrayData {
    let first = data.offset() + start;
    let children = data.child_data();
    match data.data_type() {
        // Children of these have no offset of their parent in them: row by row, or so many for each row.
        DataType::Struct(_) => {
            with_children(data, start, len, children.iter().map(|child| rows(child, first, len)).collect())
        }
        DataType::FixedSizeList(_, width) => {
            let width = usize::try_from(*width).unwrap_or(0);
            let child = children.iter().map(|child| rows(child, first * width, len * width)).collect();
            with_children(data, start, len, child)
        }
        // Children of the others are reached through offsets, sizes, keys or run ends, which stay.
        _ if children.is_empty() => data.slice(start, len),
        _ => {
            let settled = children.iter().map(settle).collect();
            let builder = data.slice(start, len).into_builder().child_data(settled);
            // SAFETY: only the children changed, and each holds the same rows as before.
            unsafe { builder.build_unchecked() }
        }
    }
}

fn with_children(data: &ArrayData, start: usize, len: usize, children: Vec<ArrayData>) -> ArrayData {
    let nulls = data.nulls().map(|nulls| nulls.slice(start, len));
    let builder = ArrayDataBuilder::new(data.data_type().clone()).len(len).nulls(nulls).child_data(children);
    // SAFETY: the type is unchanged, and children and nulls were cut to the very rows that the new length counts.
    unsafe { builder.build_unchecked() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::cast::AsArray;
    use arrow_array::types::Int32Type;
    use arrow_array::{Array, Int32Array, make_array};
    use arrow_buffer::NullBuffer;
    use arrow_schema::{Field, Fields};
    use std::sync::Arc;

    /// A structure as the C data interface brings a slice: an offset above, children whole.
    fn sliced(child: ArrayData, offset: usize, len: usize, nulls: Option<NullBuffer>) -> ArrayData {
        let fields = Fields::from(vec![Field::new("a", child.data_type().clone(), true)]);
        let builder = ArrayDataBuilder::new(DataType::Struct(fields)).offset(offset).len(len);
        // SAFETY: a test's own data.
        unsafe { builder.nulls(nulls).child_data(vec![child]).build_unchecked() }
    }

    fn numbers() -> ArrayData {
        Int32Array::from_iter_values(0..10).to_data()
    }

    #[test]
    fn slices_of_slices() {
        let inner = sliced(numbers(), 3, 6, Some(NullBuffer::from(vec![true, true, false, true, true, true])));
        let outer = sliced(inner, 1, 4, None);
        let array = make_array(settle(&outer));
        let inner = array.as_struct().column(0).as_struct().clone();
        assert_eq!(inner.column(0).as_primitive::<Int32Type>().values(), &[4, 5, 6, 7]);
        assert_eq!((0..4).map(|row| inner.is_valid(row)).collect::<Vec<_>>(), [true, false, true, true]);
    }

    #[test]
    fn a_slice_inside_a_sliced_fixed_size_list() {
        let inner = sliced(numbers(), 1, 8, None);
        let item = Arc::new(Field::new("item", inner.data_type().clone(), true));
        let builder = ArrayDataBuilder::new(DataType::FixedSizeList(item, 2)).offset(1).len(3);
        // SAFETY: a test's own data.
        let list = unsafe { builder.child_data(vec![inner]).build_unchecked() };
        let array = make_array(settle(&list));
        let values = array.as_fixed_size_list().values().as_struct().clone();
        assert_eq!(values.column(0).as_primitive::<Int32Type>().values(), &[3, 4, 5, 6, 7, 8]);
    }
}
