//! Filters of the trigrams or the words of texts. This file reads the texts of a column as bytes, whatever its layout.

pub mod trigrams;
pub mod words;

use crate::arrow::Leaf;
use crate::error::{Error, ErrorKind, Result};
use crate::hash::column::values_in_use;
use arrow_array::cast::AsArray;
use arrow_array::types::{ByteArrayType, LargeUtf8Type, StringViewType, Utf8Type};
use arrow_array::{Array, ArrayRef, GenericByteArray};
use arrow_buffer::{ArrowNativeType, NullBuffer};
use arrow_schema::DataType;

/// Calls `take` with each text of a column that is not null. The bytes may not be valid UTF-8.
pub(super) fn for_each_text(array: &ArrayRef, mut take: impl FnMut(&[u8])) -> Result<()> {
    visit_leaf(&Leaf::find(array, None)?, &mut take)
}

fn visit_leaf(leaf: &Leaf, take: &mut dyn FnMut(&[u8])) -> Result<()> {
    if let Some(values) = values_in_use(leaf)? {
        return visit_leaf(&values, take);
    }
    let array = leaf.array.as_ref();
    let nulls = NullBuffer::union(leaf.nulls.as_ref(), array.nulls());
    let nulls = nulls.as_ref();
    match array.data_type() {
        DataType::Null => {}
        DataType::Utf8 => visit_texts(array.as_bytes::<Utf8Type>(), nulls, take),
        DataType::LargeUtf8 => visit_texts(array.as_bytes::<LargeUtf8Type>(), nulls, take),
        DataType::Utf8View => {
            // Read the values as bytes, because they may not be valid UTF-8.
            let views = array.as_byte_view::<StringViewType>().clone().to_binary_view();
            for slot in (0..views.len()).filter(|slot| nulls.is_none_or(|nulls| nulls.is_valid(*slot))) {
                take(views.value(slot));
            }
        }
        other => {
            let reason = "only texts have trigrams and words";
            return Err(Error::new(ErrorKind::ArrowType { arrow: other.to_string(), reason }));
        }
    }
    Ok(())
}

fn visit_texts<T: ByteArrayType>(array: &GenericByteArray<T>, nulls: Option<&NullBuffer>, take: &mut dyn FnMut(&[u8])) {
    // Read the values as bytes, because they may not be valid UTF-8.
    let (offsets, data) = (array.value_offsets(), array.value_data());
    for (slot, ends) in offsets.windows(2).enumerate() {
        if nulls.is_none_or(|nulls| nulls.is_valid(slot)) {
            take(data.get(ends[0].as_usize()..ends[1].as_usize()).unwrap_or_default());
        }
    }
}
