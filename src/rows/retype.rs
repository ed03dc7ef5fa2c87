//! Types that pyarrow infers otherwise than the `parquet` crate, for the same values.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{TimestampMicrosecondType, TimestampMillisecondType};
use arrow_array::{Array, ArrayRef, GenericListArray, MapArray, OffsetSizeTrait, StructArray};
use arrow_schema::{ArrowError, DataType, Field, FieldRef, Fields, TimeUnit};
use parquet::basic::ConvertedType;
use parquet::schema::types::Type;

/// Returns the field that pyarrow infers for a node, given the field that the crate infers:
///
/// - The entries of a map have the name of its outer group.
/// - Timestamps that only have a converted type have no time zone.
pub(super) fn pyarrow_field(node: &Type, field: &Field) -> Field {
    let data_type = match field.data_type() {
        DataType::Struct(fields) => DataType::Struct(pyarrow_fields(node, fields)),
        DataType::List(element) => DataType::List(pyarrow_element(node, element)),
        DataType::LargeList(element) => DataType::LargeList(pyarrow_element(node, element)),
        DataType::Map(entries, sorted) => {
            let fields = match (entries.data_type(), node.get_fields()) {
                (DataType::Struct(fields), [group]) => pyarrow_fields(group, fields),
                _ => return field.clone(),
            };
            let entries = entries.as_ref().clone().with_name(node.name()).with_data_type(DataType::Struct(fields));
            DataType::Map(Arc::new(entries), *sorted)
        }
        DataType::Timestamp(unit, Some(_)) if only_converted(node) => DataType::Timestamp(*unit, None),
        _ => return field.clone(),
    };
    field.clone().with_data_type(data_type)
}

fn only_converted(node: &Type) -> bool {
    let info = node.get_basic_info();
    node.is_primitive()
        && info.logical_type_ref().is_none()
        && matches!(info.converted_type(), ConvertedType::TIMESTAMP_MILLIS | ConvertedType::TIMESTAMP_MICROS)
}

fn pyarrow_fields(node: &Type, fields: &Fields) -> Fields {
    if !node.is_group() || node.get_fields().len() != fields.len() {
        return fields.clone();
    }
    let fields = node.get_fields().iter().zip(fields);
    fields.map(|(node, field)| Arc::new(pyarrow_field(node, field))).collect()
}

/// Returns the element of a list in three levels.
fn pyarrow_element(node: &Type, element: &FieldRef) -> FieldRef {
    let group = if node.is_group() { node.get_fields().first() } else { None };
    match group.filter(|group| group.is_group()).and_then(|group| group.get_fields().first()) {
        Some(inner) => Arc::new(pyarrow_field(inner, element)),
        None => Arc::clone(element),
    }
}

/// Gives an array another type of the same values.
pub(super) fn retype(array: &ArrayRef, data_type: &DataType) -> Result<ArrayRef, ArrowError> {
    if array.data_type() == data_type {
        return Ok(Arc::clone(array));
    }
    match (array.data_type(), data_type) {
        (DataType::Struct(_), DataType::Struct(fields)) => {
            structure(array.as_struct(), fields).map(|array| Arc::new(array) as _)
        }
        (DataType::List(_), DataType::List(element)) => list::<i32>(array, element),
        (DataType::LargeList(_), DataType::LargeList(element)) => list::<i64>(array, element),
        (DataType::Map(_, _), DataType::Map(entries, sorted)) => {
            let DataType::Struct(fields) = entries.data_type() else { return Err(other(array, data_type)) };
            let map = array.as_map();
            let content = structure(map.entries(), fields)?;
            let (offsets, nulls) = (map.offsets().clone(), map.nulls().cloned());
            Ok(Arc::new(MapArray::try_new(Arc::clone(entries), offsets, content, nulls, *sorted)?))
        }
        (DataType::Timestamp(TimeUnit::Millisecond, _), DataType::Timestamp(TimeUnit::Millisecond, zone)) => {
            let times = array.as_primitive::<TimestampMillisecondType>().clone();
            Ok(Arc::new(times.with_timezone_opt(zone.clone())))
        }
        (DataType::Timestamp(TimeUnit::Microsecond, _), DataType::Timestamp(TimeUnit::Microsecond, zone)) => {
            let times = array.as_primitive::<TimestampMicrosecondType>().clone();
            Ok(Arc::new(times.with_timezone_opt(zone.clone())))
        }
        _ => Err(other(array, data_type)),
    }
}

fn structure(array: &StructArray, fields: &Fields) -> Result<StructArray, ArrowError> {
    let columns = array.columns().iter().zip(fields).map(|(column, field)| retype(column, field.data_type()));
    StructArray::try_new(fields.clone(), columns.collect::<Result<_, _>>()?, array.nulls().cloned())
}

fn list<O: OffsetSizeTrait>(array: &ArrayRef, element: &FieldRef) -> Result<ArrayRef, ArrowError> {
    let list = array.as_list::<O>();
    let values = retype(list.values(), element.data_type())?;
    let (offsets, nulls) = (list.offsets().clone(), list.nulls().cloned());
    Ok(Arc::new(GenericListArray::try_new(Arc::clone(element), offsets, values, nulls)?))
}

fn other(array: &ArrayRef, data_type: &DataType) -> ArrowError {
    ArrowError::SchemaError(format!("{} instead of {data_type}", array.data_type()))
}
