//! Which columns the `parquet` crate reads exactly as pyarrow does.

use std::sync::Arc;

use arrow_schema::{DataType, Field, Fields};
use parquet::basic::{ConvertedType, LogicalType, Repetition, Type as Physical};
use parquet::schema::types::Type;

/// The longest values of a FIXED_LEN_BYTE_ARRAY. The decoder allocates them for a whole batch.
const MAX_FIXED_LEN: i32 = 64 * 1024;

/// Returns why a column cannot be read exactly as pyarrow would. `plain` and `hinted` are the fields that the `parquet`
/// crate infers without and with the file's own Arrow schema, and `hint` is the field of that schema.
///
/// A type is allowed only if a test has compared its values with pyarrow's. Everything else is refused:
///
/// - INT96: pyarrow reads it as nanoseconds that wrap around, or in another unit that its caller chooses.
/// - Timestamps that only have a converted type, in a file with an Arrow schema: which time zone pyarrow gives them
///   depends on its version. Without an Arrow schema, they are in UTC, as in the crate. Before that, pyarrow gave them no
///   time zone, and then it reads the file, because the types differ.
/// - UUID, JSON, BSON, geometries, variants, intervals and annotations that are not known: the type that pyarrow returns
///   depends on its version and on registered extension types.
/// - Types that only the file's Arrow schema has, such as dictionaries, views, durations, Date64, seconds, narrow
///   decimals and extension types: the crate and pyarrow follow the schema by different rules.
/// - Lists of fixed size, lists in two levels and maps without values: readers disagree about them.
/// - Decimals whose precision does not fit the length of their values: the crate chooses the width by the length,
///   pyarrow by the precision.
pub(super) fn why_unreadable(node: &Type, plain: &Field, hinted: &Field, hint: Option<&Field>) -> Option<String> {
    if plain.name() != hinted.name() || plain.is_nullable() != hinted.is_nullable() {
        return Some("the file's Arrow schema contradicts its columns".to_owned());
    }
    if let Some(name) = hint.and_then(|hint| hint.metadata().get("ARROW:extension:name")) {
        return Some(format!("it has the extension type {name}"));
    }
    if is_repeated(node) {
        return Some("it is a repeated field outside of a list".to_owned());
    }
    if node.is_primitive() {
        return leaf(node, plain.data_type(), hinted.data_type(), hint.map(Field::data_type));
    }
    match kind(node) {
        Some(Kind::Struct) => structure(node, plain, hinted, hint),
        Some(Kind::List(element)) => list(element, plain, hinted, hint),
        Some(Kind::Map(entries)) => map(entries, plain, hinted, hint),
        None => Some("it is nested in an unusual way".to_owned()),
    }
}

fn is_repeated(node: &Type) -> bool {
    let info = node.get_basic_info();
    info.has_repetition() && info.repetition() == Repetition::REPEATED
}

/// The kinds of groups.
enum Kind<'a> {
    Struct,
    /// A list in three levels, with its element.
    List(&'a Type),
    /// A map, with the group of its key and value.
    Map(&'a Type),
}

/// Returns the kind of a group. Lists in two levels are `None`, because readers disagree on their element.
fn kind(node: &Type) -> Option<Kind<'_>> {
    let info = node.get_basic_info();
    let only_child = || match node.get_fields() {
        [child] if is_repeated(child) && child.is_group() && !is_annotated(child) => Some(child),
        _ => None,
    };
    match (info.logical_type_ref(), info.converted_type()) {
        (None, ConvertedType::NONE) => Some(Kind::Struct),
        (Some(LogicalType::List), _) | (None, ConvertedType::LIST) => {
            let child = only_child()?;
            match child.get_fields() {
                // Groups with these names are elements by the rules for old files.
                [_] if child.name() == "array" || child.name().ends_with("_tuple") => None,
                [element] if !is_repeated(element) => Some(Kind::List(element)),
                _ => None,
            }
        }
        (Some(LogicalType::Map), _) | (None, ConvertedType::MAP) => {
            let child = only_child()?;
            match child.get_fields() {
                [key, _] if key.is_primitive() && is_required(key) => Some(Kind::Map(child)),
                _ => None,
            }
        }
        _ => None,
    }
}

fn is_annotated(node: &Type) -> bool {
    node.get_basic_info().logical_type_ref().is_some() || node.get_basic_info().converted_type() != ConvertedType::NONE
}

fn is_required(node: &Type) -> bool {
    node.get_basic_info().repetition() == Repetition::REQUIRED
}

/// Checks the columns below a group. The crate infers another tree of fields than `nodes` if they differ in number.
fn children(nodes: &[Arc<Type>], plain: &Fields, hinted: &Fields, hint: Option<&Fields>) -> Option<String> {
    let same = |fields: &Fields| fields.len() == nodes.len();
    if nodes.is_empty() || !same(plain) || !same(hinted) || !hint.is_none_or(same) {
        return Some("the file's Arrow schema contradicts its columns".to_owned());
    }
    let mut fields = nodes.iter().zip(plain).zip(hinted).enumerate();
    fields.find_map(|(child, ((node, plain), hinted))| {
        let hint = hint.and_then(|hint| hint.get(child)).map(|field| &**field);
        if hint.is_some_and(|hint| hint.name() != node.name()) {
            return Some("the file's Arrow schema contradicts its columns".to_owned());
        }
        why_unreadable(node, plain, hinted, hint)
    })
}

fn structure(node: &Type, plain: &Field, hinted: &Field, hint: Option<&Field>) -> Option<String> {
    match (plain.data_type(), hinted.data_type(), hint.map(Field::data_type)) {
        (DataType::Struct(plain), DataType::Struct(hinted), None) => children(node.get_fields(), plain, hinted, None),
        (DataType::Struct(plain), DataType::Struct(hinted), Some(DataType::Struct(hint))) => {
            children(node.get_fields(), plain, hinted, Some(hint))
        }
        _ => Some(other_type(hint.unwrap_or(hinted))),
    }
}

fn list(element: &Type, plain: &Field, hinted: &Field, hint: Option<&Field>) -> Option<String> {
    use DataType as D;
    let DataType::List(plain) = plain.data_type() else { return Some(other_type(plain)) };
    match (hinted.data_type(), hint.map(Field::data_type)) {
        (D::List(hinted), None) => why_unreadable(element, plain, hinted, None),
        (D::List(hinted), Some(D::List(hint))) | (D::LargeList(hinted), Some(D::LargeList(hint))) => {
            why_unreadable(element, plain, hinted, Some(hint))
        }
        _ => Some(other_type(hint.unwrap_or(hinted))),
    }
}

fn map(entries: &Type, plain: &Field, hinted: &Field, hint: Option<&Field>) -> Option<String> {
    use DataType as D;
    let fields = |field: &Field| match field.data_type() {
        D::Map(entries, false) => match entries.data_type() {
            D::Struct(fields) => Some(fields.clone()),
            _ => None,
        },
        _ => None,
    };
    match (fields(plain), fields(hinted), hint.map(fields)) {
        (Some(plain), Some(hinted), None) => children(entries.get_fields(), &plain, &hinted, None),
        (Some(plain), Some(hinted), Some(Some(hint))) => children(entries.get_fields(), &plain, &hinted, Some(&hint)),
        _ => Some(other_type(hint.unwrap_or(hinted))),
    }
}

fn other_type(field: &Field) -> String {
    format!("the file's Arrow schema has the type {}", field.data_type())
}

fn leaf(node: &Type, plain: &DataType, hinted: &DataType, hint: Option<&DataType>) -> Option<String> {
    if let Some(reason) = annotation(node, hint.is_some()) {
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
fn annotation(node: &Type, is_hinted: bool) -> Option<&'static str> {
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
                is_hinted.then_some("its timestamps have no logical type")
            }
            _ => Some("its converted type"),
        },
    }
}
