//! Pushes the offsets of imported arrays down to their leaves, so that every struct array has offset 0.
//!
//! A producer may export a slice as an offset of the parent only, and nest such slices. arrow-rs applies that offset
//! twice, once when it slices the struct and again when it builds the array, and then panics. Normalizing the offsets
//! first avoids this.

use arrow_data::{ArrayData, ArrayDataBuilder};
use arrow_schema::DataType;

/// Returns the same rows, where no struct or fixed-size list has an offset.
pub fn normalize_offsets(data: &ArrayData) -> ArrayData {
    rows(data, 0, data.len())
}

/// Returns rows `start` to `start + len` of `data`, relative to its offset.
fn rows(data: &ArrayData, start: usize, len: usize) -> ArrayData {
    let first = data.offset() + start;
    let children = data.child_data();
    match data.data_type() {
        // The children of these types do not include the parent's offset, so it is applied to them here.
        DataType::Struct(_) => {
            with_children(data, start, len, children.iter().map(|child| rows(child, first, len)).collect())
        }
        DataType::FixedSizeList(_, width) => {
            let width = usize::try_from(*width).unwrap_or(0);
            let child = children.iter().map(|child| rows(child, first * width, len * width)).collect();
            with_children(data, start, len, child)
        }
        // Other types refer to their children by offsets, sizes, keys or run ends, which do not change.
        _ if children.is_empty() => data.slice(start, len),
        _ => {
            let children = children.iter().map(normalize_offsets).collect();
            let builder = data.slice(start, len).into_builder().child_data(children);
            // SAFETY: only the children changed, and each of them holds the same rows as before.
            unsafe { builder.build_unchecked() }
        }
    }
}

fn with_children(data: &ArrayData, start: usize, len: usize, children: Vec<ArrayData>) -> ArrayData {
    let nulls = data.nulls().map(|nulls| nulls.slice(start, len));
    let builder = ArrayDataBuilder::new(data.data_type().clone()).len(len).nulls(nulls).child_data(children);
    // SAFETY: the type is unchanged, and the children and nulls were cut to the rows that `len` counts.
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

    /// Builds a struct as the C data interface imports a slice: the offset on the parent, with unsliced children.
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
    fn nested_slices_of_structs_keep_their_rows() {
        let inner = sliced(numbers(), 3, 6, Some(NullBuffer::from(vec![true, true, false, true, true, true])));
        let outer = sliced(inner, 1, 4, None);
        let array = make_array(normalize_offsets(&outer));
        let inner = array.as_struct().column(0).as_struct().clone();
        assert_eq!(inner.column(0).as_primitive::<Int32Type>().values(), &[4, 5, 6, 7]);
        assert_eq!((0..4).map(|row| inner.is_valid(row)).collect::<Vec<_>>(), [true, false, true, true]);
    }

    #[test]
    fn sliced_structs_in_sliced_fixed_size_lists_keep_their_rows() {
        let inner = sliced(numbers(), 1, 8, None);
        let item = Arc::new(Field::new("item", inner.data_type().clone(), true));
        let builder = ArrayDataBuilder::new(DataType::FixedSizeList(item, 2)).offset(1).len(3);
        // SAFETY: the child has 8 rows, and the list needs 2 * (1 + 3).
        let list = unsafe { builder.child_data(vec![inner]).build_unchecked() };
        let array = make_array(normalize_offsets(&list));
        let values = array.as_fixed_size_list().values().as_struct().clone();
        assert_eq!(values.column(0).as_primitive::<Int32Type>().values(), &[3, 4, 5, 6, 7, 8]);
    }
}
