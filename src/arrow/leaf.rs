//! Selects the leaf that a filter covers. Parquet stores each leaf of a nested column separately.
//!
//! ```text
//! list<struct<a, b>>   [ {a: 1, b: 2} ], null, [ {a: 3, b: null} ]      leaf "a" → slots 1, 3     leaf "b" → slots 2, null
//! ```

use crate::error::{Error, ErrorKind, Result};
use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, Int64Array, OffsetSizeTrait};
use arrow_buffer::{BooleanBufferBuilder, NullBuffer};
use arrow_schema::DataType;
use arrow_select::take::{TakeOptions, take};

/// The slots of a leaf, flattened to one slot per element of its innermost list.
#[derive(Debug, Clone)]
pub struct Leaf {
    /// The leaf's array: primitive, byte strings, dictionary or run-end-encoded.
    pub array: ArrayRef,
    /// Null for slots without a value, which are null themselves or have a null parent. Does not include null entries
    /// of a dictionary.
    pub nulls: Option<NullBuffer>,
}

impl Leaf {
    /// Selects the leaf at `path`. Without a path, the column must have exactly one leaf.
    ///
    /// A path needs no step for a list, and `key` or `value` for a map. It may also contain Parquet's own names
    /// (`list.element`, `key_value`).
    pub fn find(array: &ArrayRef, path: Option<&[String]>) -> Result<Self> {
        let root = array.data_type();
        let mut steps = Steps { path: path.unwrap_or_default(), given: path, root };
        let leaf = descend(array.clone(), None, &mut steps)?;
        if steps.path.is_empty() { Ok(leaf) } else { Err(steps.no_such_leaf()) }
    }
}

struct Steps<'a> {
    path: &'a [String],
    given: Option<&'a [String]>,
    root: &'a DataType,
}

impl Steps<'_> {
    fn skip_if(&mut self, names: &[&str]) {
        if self.path.len() >= names.len() && self.path.iter().zip(names).all(|(step, name)| step == name) {
            self.path = &self.path[names.len()..];
        }
    }

    fn no_such_leaf(&self) -> Error {
        let leaf = self.given.unwrap_or_default().join(".");
        Error::new(ErrorKind::NoSuchLeaf { leaf, leaves: leaf_names(self.root) })
    }
}

fn descend(array: ArrayRef, above: Option<NullBuffer>, steps: &mut Steps<'_>) -> Result<Leaf> {
    let nulls = NullBuffer::union(above.as_ref(), array.nulls());
    match array.data_type() {
        DataType::Struct(fields) => {
            let index = match steps.path.split_first() {
                Some((name, rest)) => {
                    let mut named = fields.iter().enumerate().filter(|(_, field)| field.name() == name);
                    steps.path = rest;
                    let (index, _) = named.next().ok_or_else(|| steps.no_such_leaf())?;
                    // Two fields have this name, so the path is ambiguous.
                    if named.next().is_some() {
                        return Err(Error::new(ErrorKind::SeveralLeaves(leaf_names(steps.root))));
                    }
                    index
                }
                None if fields.len() == 1 => 0,
                None => return Err(Error::new(ErrorKind::SeveralLeaves(leaf_names(steps.root)))),
            };
            descend(array.as_struct().column(index).clone(), nulls, steps)
        }
        DataType::List(_) => elements::<i32>(&array, nulls, steps),
        DataType::LargeList(_) => elements::<i64>(&array, nulls, steps),
        DataType::FixedSizeList(_, width) => {
            let width = usize::try_from(*width).unwrap_or(0);
            let ranges = (0..array.len()).map(|slot| (slot * width, (slot + 1) * width));
            let below = spread(nulls.as_ref(), ranges, array.len() * width);
            // `values()` does not include the array's offset, so the slice starts at 0.
            let values = array.as_fixed_size_list().values().clone();
            steps.skip_if(&["list", "element"]);
            descend(values.slice(0, array.len() * width), below, steps)
        }
        DataType::ListView(_) => view_elements::<i32>(&array, nulls.as_ref(), steps),
        DataType::LargeListView(_) => view_elements::<i64>(&array, nulls.as_ref(), steps),
        DataType::Map(_, _) => {
            let map = array.as_map();
            let (first, last) = ends(map.value_offsets());
            let below = spread(nulls.as_ref(), ranges(map.value_offsets(), first), last - first);
            steps.skip_if(&["key_value"]);
            descend(std::sync::Arc::new(map.entries().slice(first, last - first)), below, steps)
        }
        _ => Ok(Leaf { array, nulls }),
    }
}

fn elements<O: OffsetSizeTrait>(array: &ArrayRef, nulls: Option<NullBuffer>, steps: &mut Steps<'_>) -> Result<Leaf> {
    let list = array.as_list::<O>();
    let (first, last) = ends(list.value_offsets());
    let below = spread(nulls.as_ref(), ranges(list.value_offsets(), first), last - first);
    steps.skip_if(&["list", "element"]);
    descend(list.values().slice(first, last - first), below, steps)
}

/// Gathers the elements of a list view, because views may overlap and appear in any order.
fn view_elements<O: OffsetSizeTrait>(
    array: &ArrayRef,
    nulls: Option<&NullBuffer>,
    steps: &mut Steps<'_>,
) -> Result<Leaf> {
    let view = array.as_list_view::<O>();
    let present = (0..view.len()).filter(|slot| nulls.is_none_or(|nulls| nulls.is_valid(*slot)));
    let indices: Int64Array = present
        .flat_map(|slot| {
            let start = view.value_offsets()[slot].as_usize();
            start..start + view.value_sizes()[slot].as_usize()
        })
        .map(|index| index as i64)
        .collect::<Vec<_>>()
        .into();
    let unsupported = |_| {
        let arrow = array.data_type().to_string();
        Error::new(ErrorKind::ArrowType { arrow, reason: "its elements could not be gathered; cast it to list" })
    };
    let values = take(view.values(), &indices, Some(TakeOptions { check_bounds: true })).map_err(unsupported)?;
    steps.skip_if(&["list", "element"]);
    descend(values, None, steps)
}

fn ends<O: OffsetSizeTrait>(offsets: &[O]) -> (usize, usize) {
    let end = |offset: Option<&O>| offset.map_or(0, |offset| offset.as_usize());
    (end(offsets.first()), end(offsets.last()))
}

fn ranges<O: OffsetSizeTrait>(offsets: &[O], first: usize) -> impl Iterator<Item = (usize, usize)> {
    offsets.windows(2).map(move |pair| (pair[0].as_usize() - first, pair[1].as_usize() - first))
}

/// Propagates nulls from parents to children. A null list may still cover elements, and they are not values.
fn spread(
    nulls: Option<&NullBuffer>,
    ranges: impl Iterator<Item = (usize, usize)>,
    num_children: usize,
) -> Option<NullBuffer> {
    let nulls = nulls.filter(|nulls| nulls.null_count() > 0)?;
    let mut valid = BooleanBufferBuilder::new(num_children);
    valid.append_n(num_children, true);
    for (slot, (start, end)) in ranges.enumerate() {
        if nulls.is_null(slot) {
            (start..end).for_each(|child| valid.set_bit(child, false));
        }
    }
    Some(NullBuffer::new(valid.finish())).filter(|nulls| nulls.null_count() > 0)
}

/// Lists the leaves of a type for an error message.
fn leaf_names(root: &DataType) -> String {
    fn collect(data_type: &DataType, path: &mut Vec<String>, names: &mut Vec<String>) {
        match data_type {
            DataType::Struct(fields) => fields.iter().for_each(|field| {
                path.push(field.name().clone());
                collect(field.data_type(), path, names);
                path.pop();
            }),
            DataType::List(item)
            | DataType::LargeList(item)
            | DataType::FixedSizeList(item, _)
            | DataType::ListView(item)
            | DataType::LargeListView(item)
            | DataType::Map(item, _) => collect(item.data_type(), path, names),
            _ => names.push(if path.is_empty() { "(the column itself)".to_owned() } else { path.join(".") }),
        }
    }
    let mut names = Vec::new();
    collect(root, &mut Vec::new(), &mut names);
    names.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::types::Int32Type;
    use arrow_array::{FixedSizeListArray, Int32Array, ListArray, ListViewArray, MapArray, StructArray};
    use arrow_buffer::{OffsetBuffer, ScalarBuffer};
    use arrow_schema::Field;
    use std::sync::Arc;

    fn check(array: impl Array + 'static, path: &[&str], expected: &[Option<i32>]) {
        let path: Vec<String> = path.iter().map(|step| (*step).to_owned()).collect();
        let leaf = Leaf::find(&(Arc::new(array) as ArrayRef), Some(&path)).unwrap();
        let values = leaf.array.as_primitive::<Int32Type>();
        let valid = |slot| leaf.nulls.as_ref().is_none_or(|nulls| nulls.is_valid(slot));
        let actual: Vec<_> = (0..values.len()).map(|slot| valid(slot).then(|| values.value(slot))).collect();
        assert_eq!(actual, expected);
    }

    fn item() -> Arc<Field> {
        Arc::new(Field::new("item", DataType::Int32, true))
    }

    fn numbers() -> ArrayRef {
        Arc::new(Int32Array::from(vec![Some(0), Some(1), None, Some(3), Some(4), Some(5)]))
    }

    #[test]
    fn elements_of_a_null_list_are_null() {
        let offsets = OffsetBuffer::new(ScalarBuffer::from(vec![0, 2, 4, 6]));
        let nulls = NullBuffer::from(vec![true, false, true]);
        let list = ListArray::new(item(), offsets, numbers(), Some(nulls));
        check(list.clone(), &[], &[Some(0), Some(1), None, None, Some(4), Some(5)]);
        check(list.slice(1, 2), &["list", "element"], &[None, None, Some(4), Some(5)]);
        check(list.slice(3, 0), &[], &[]);
    }

    #[test]
    fn fixed_size_lists_keep_slots_of_nulls_and_respect_slices() {
        let nulls = NullBuffer::from(vec![true, false, true]);
        let list = FixedSizeListArray::new(item(), 2, numbers(), Some(nulls));
        check(list.clone(), &[], &[Some(0), Some(1), None, None, Some(4), Some(5)]);
        check(list.slice(1, 2), &[], &[None, None, Some(4), Some(5)]);
    }

    #[test]
    fn list_views_are_read_in_view_order() {
        let (offsets, sizes) = (ScalarBuffer::from(vec![4, 0, 1]), ScalarBuffer::from(vec![2, 1, 2]));
        let nulls = NullBuffer::from(vec![true, false, true]);
        let view = ListViewArray::new(item(), offsets, sizes, numbers(), Some(nulls));
        check(view, &[], &[Some(4), Some(5), Some(1), None]);
    }

    #[test]
    fn structs_and_maps_need_a_path() {
        let field = |name: &str| Arc::new(Field::new(name, DataType::Int32, true));
        let nulls = NullBuffer::from(vec![true, true, true, false, true, true]);
        let both = StructArray::new(
            vec![field("key"), field("value")].into(),
            vec![Arc::new(Int32Array::from_iter_values(10..16)), numbers()],
            Some(nulls),
        );
        check(both.clone(), &["key"], &[Some(10), Some(11), Some(12), None, Some(14), Some(15)]);
        check(both.clone(), &["value"], &[Some(0), Some(1), None, None, Some(4), Some(5)]);
        let error =
            |path: Option<&[String]>| Leaf::find(&(Arc::new(both.clone()) as ArrayRef), path).unwrap_err().to_string();
        assert!(error(None).contains("key, value"));
        assert!(error(Some(&["x".to_owned()])).contains("key, value"));
        assert!(error(Some(&["key".to_owned(), "x".to_owned()])).contains("key, value"));

        let entries = StructArray::new(
            vec![Arc::new(Field::new("key", DataType::Int32, false)), field("value")].into(),
            vec![Arc::new(Int32Array::from_iter_values(10..16)), numbers()],
            None,
        );
        let entries_field = Arc::new(Field::new("entries", entries.data_type().clone(), false));
        let map = MapArray::new(entries_field, OffsetBuffer::new(vec![0, 1, 3, 6].into()), entries, None, false);
        check(map.clone().slice(1, 1), &["key"], &[Some(11), Some(12)]);
        check(map.slice(1, 2), &["key_value", "value"], &[Some(1), None, Some(3), Some(4), Some(5)]);
    }
}
