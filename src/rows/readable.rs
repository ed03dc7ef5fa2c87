//! Which columns the `parquet` crate reads exactly as pyarrow does.

use arrow_schema::{DataType, Field};
use parquet::basic::{ConvertedType, LogicalType, Type as Physical};
use parquet::schema::types::Type;

/// The longest values of a FIXED_LEN_BYTE_ARRAY. The decoder allocates them for a whole batch.
const MAX_FIXED_LEN: i32 = 64 * 1024;

/// Returns why a column cannot be read exactly as pyarrow would. `plain` and `hinted` are the fields that the `parquet`
/// crate infers without and with the file's own Arrow schema, and `hint` is the field of that schema.
///
/// A type is allowed only if a test has compared its values with pyarrow's. Everything else is refused:
///
/// - INT96: pyarrow reads it as nanoseconds that wrap around, or in another unit that its caller chooses.
/// - Timestamps that only have a converted type: pyarrow gives them no time zone, the crate gives them UTC.
/// - UUID, JSON, BSON, geometries, variants, intervals and annotations that are not known: the type that pyarrow returns
///   depends on its version and on registered extension types.
/// - Types that only the file's Arrow schema has, such as dictionaries, views, durations, Date64, seconds, narrow
///   decimals and extension types: the crate and pyarrow follow the schema by different rules.
/// - Decimals whose precision does not fit the length of their values: the crate chooses the width by the length,
///   pyarrow by the precision.
pub(super) fn why_unreadable(node: &Type, plain: &Field, hinted: &Field, hint: Option<&Field>) -> Option<String> {
    if plain.name() != hinted.name() || plain.is_nullable() != hinted.is_nullable() {
        return Some("the file's Arrow schema contradicts its columns".to_owned());
    }
    if let Some(name) = hint.and_then(|hint| hint.metadata().get("ARROW:extension:name")) {
        return Some(format!("it has the extension type {name}"));
    }
    if !node.is_primitive() || is_repeated(node) {
        return Some("it is nested".to_owned());
    }
    leaf(node, plain.data_type(), hinted.data_type(), hint.map(Field::data_type))
}

fn is_repeated(node: &Type) -> bool {
    node.get_basic_info().repetition() == parquet::basic::Repetition::REPEATED
}

fn leaf(node: &Type, plain: &DataType, hinted: &DataType, hint: Option<&DataType>) -> Option<String> {
    if let Some(reason) = annotation(node) {
        return Some(reason.to_owned());
    }
    if let DataType::Decimal128(precision, _) | DataType::Decimal256(precision, _) = plain
        && (*precision <= 38) != matches!(plain, DataType::Decimal128(_, _))
    {
        return Some("the length of its values does not fit their precision".to_owned());
    }
    // The crate must have followed the file's Arrow schema, and only where pyarrow follows it, too.
    match hint {
        Some(hint) if hint != hinted => return Some(format!("the file's Arrow schema has the type {hint}")),
        _ if plain == hinted => {}
        _ if follows(plain, hinted) => {}
        _ => return Some(format!("the file's Arrow schema has the type {hinted}")),
    }
    None
}

/// Returns true if pyarrow, too, reads values of the type `plain` as the type `hinted` of the file's Arrow schema.
fn follows(plain: &DataType, hinted: &DataType) -> bool {
    use DataType as D;
    match (plain, hinted) {
        (D::Utf8, D::LargeUtf8) | (D::Binary, D::LargeBinary) => true,
        (D::Timestamp(unit, Some(utc)), D::Timestamp(same, Some(_))) => unit == same && &**utc == "UTC",
        (D::Decimal128(precision, scale), D::Decimal256(p, s)) => (precision, scale) == (p, s),
        _ => false,
    }
}

/// Returns why the physical type and the annotation of a leaf prevent reading it.
fn annotation(node: &Type) -> Option<&'static str> {
    use LogicalType as L;
    let info = node.get_basic_info();
    let (logical, converted) = (info.logical_type_ref(), info.converted_type());
    let Type::PrimitiveType { physical_type, type_length, .. } = node else { return Some("it is nested") };
    if *physical_type == Physical::INT96 {
        return Some("it has the type INT96");
    }
    if *physical_type == Physical::FIXED_LEN_BYTE_ARRAY && !(1..=MAX_FIXED_LEN).contains(type_length) {
        return Some("the length of its values");
    }
    let annotated = logical.is_some() || converted != ConvertedType::NONE;
    if annotated && matches!(physical_type, Physical::BOOLEAN | Physical::FLOAT | Physical::DOUBLE) {
        return Some("its logical type");
    }
    let fits_fixed_len = matches!(logical, None | Some(L::Decimal(_) | L::Float16))
        && matches!(converted, ConvertedType::NONE | ConvertedType::DECIMAL);
    if *physical_type == Physical::FIXED_LEN_BYTE_ARRAY && !fits_fixed_len {
        return Some("its logical type");
    }
    match logical {
        Some(L::String | L::Decimal(_) | L::Date | L::Time(_) | L::Timestamp(_) | L::Integer(_) | L::Float16) => None,
        Some(_) => Some("its logical type"),
        None => match converted {
            ConvertedType::NONE
            | ConvertedType::UTF8
            | ConvertedType::DECIMAL
            | ConvertedType::DATE
            | ConvertedType::TIME_MILLIS
            | ConvertedType::TIME_MICROS
            | ConvertedType::UINT_8
            | ConvertedType::UINT_16
            | ConvertedType::UINT_32
            | ConvertedType::UINT_64
            | ConvertedType::INT_8
            | ConvertedType::INT_16
            | ConvertedType::INT_32
            | ConvertedType::INT_64 => None,
            ConvertedType::TIMESTAMP_MILLIS | ConvertedType::TIMESTAMP_MICROS => {
                Some("its timestamps have no logical type")
            }
            _ => Some("its converted type"),
        },
    }
}
