//! Determines how the values of a column are hashed, from its physical type and its annotation.

use arrow_schema::TimeUnit as Tick;

use crate::arrow::{ColumnType, Meaning, PhysicalType};
use crate::parquet::meta::schema::{Logical, Physical, SchemaLeaf, TimeUnit};

impl SchemaLeaf {
    /// Returns the type to hash values in, or `None` if filters of this column must be ignored.
    ///
    /// This is the case for BOOLEAN and INTERVAL, whose hashes the format does not define, for annotations that this
    /// version does not know, and for annotations that do not match the physical type.
    pub fn column_type(&self) -> Option<ColumnType> {
        use Logical as L;
        use PhysicalType as P;
        let physical = match self.physical {
            Physical::Int32 => P::Int32,
            Physical::Int64 => P::Int64,
            Physical::Int96 => P::Int96,
            Physical::Float => P::Float,
            Physical::Double => P::Double,
            Physical::ByteArray => P::ByteArray,
            Physical::FixedLenByteArray => P::FixedLenByteArray(self.width()?),
            Physical::Boolean | Physical::Unknown(_) => return None,
        };
        let meaning = match (physical, self.logical) {
            (P::Int32 | P::Int64, None) => Meaning::Integer { signed: true },
            // INT96 timestamps have no time zone, so readers take them as local times.
            (P::Int96, None) => Meaning::Timestamp { unit: Tick::Nanosecond, zoned: false },
            (P::Float | P::Double, None) | (P::FixedLenByteArray(2), Some(L::Float16)) => Meaning::Real,
            (P::ByteArray | P::FixedLenByteArray(_), None)
            | (P::ByteArray, Some(L::String | L::Enum | L::Json | L::Bson))
            | (P::FixedLenByteArray(16), Some(L::Uuid)) => Meaning::Bytes,
            (P::Int32, Some(L::Integer { bit_width: 1..=32, signed }))
            | (P::Int64, Some(L::Integer { bit_width: 1..=64, signed })) => Meaning::Integer { signed },
            (P::Int32, Some(L::Date)) => Meaning::Date,
            (P::Int32, Some(L::Time { unit: TimeUnit::Millis, .. })) => Meaning::Time(Tick::Millisecond),
            (P::Int64, Some(L::Time { unit, .. })) if unit != TimeUnit::Millis => Meaning::Time(tick(unit)?),
            (P::Int64, Some(L::Timestamp { unit, utc })) => Meaning::Timestamp { unit: tick(unit)?, zoned: utc },
            (
                P::Int32 | P::Int64 | P::ByteArray | P::FixedLenByteArray(_),
                Some(L::Decimal { precision: 1.., scale }),
            ) if scale >= 0 => Meaning::Decimal { scale: i8::try_from(scale).ok()? },
            _ => return None,
        };
        Some(ColumnType { physical, meaning })
    }

    /// Returns the size of a fixed-length value.
    fn width(&self) -> Option<u32> {
        u32::try_from(self.type_length?).ok().filter(|width| *width > 0)
    }
}

fn tick(unit: TimeUnit) -> Option<Tick> {
    match unit {
        TimeUnit::Millis => Some(Tick::Millisecond),
        TimeUnit::Micros => Some(Tick::Microsecond),
        TimeUnit::Nanos => Some(Tick::Nanosecond),
        TimeUnit::Unknown(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_schema::{DataType, Field, Schema};
    use bytes::Bytes;
    use parquet::arrow::ArrowWriter;

    use super::*;
    use crate::parquet::Metadata;
    use crate::parquet::fixtures;

    /// Columns written by the `parquet` crate get the same type as the Arrow type they were written from.
    #[test]
    fn columns_of_the_parquet_crate_have_the_type_of_their_arrow_type() {
        use arrow_schema::TimeUnit::{Microsecond, Millisecond, Nanosecond};
        let types = [
            DataType::Int8,
            DataType::Int32,
            DataType::UInt16,
            DataType::UInt32,
            DataType::Int64,
            DataType::UInt64,
            DataType::Float16,
            DataType::Float32,
            DataType::Float64,
            DataType::Date32,
            DataType::Time32(Millisecond),
            DataType::Time64(Microsecond),
            DataType::Time64(Nanosecond),
            DataType::Timestamp(Millisecond, None),
            DataType::Timestamp(Microsecond, Some("UTC".into())),
            DataType::Timestamp(Nanosecond, None),
            DataType::Decimal128(30, 4),
            DataType::Utf8,
            DataType::LargeBinary,
            DataType::FixedSizeBinary(7),
        ];
        let fields = types.iter().enumerate().map(|(i, kind)| Field::new(i.to_string(), kind.clone(), true));
        let fields: Vec<_> = fields.collect();
        let mut file = Vec::new();
        ArrowWriter::try_new(&mut file, Arc::new(Schema::new(fields)), None).unwrap().close().unwrap();
        let opened = fixtures::open(&Bytes::from(file)).unwrap();
        for (leaf, arrow) in opened.metadata.leaves().iter().zip(&types) {
            assert_eq!(leaf.column_type(), ColumnType::of(arrow).ok(), "{arrow}");
        }
    }

    /// Builds a leaf from a schema in Thrift, because `SchemaLeaf` has no other constructor with all fields.
    fn leaf(physical: u8, type_length: Option<u8>, annotation: &[u8]) -> SchemaLeaf {
        let mut element = vec![0x15, physical * 2];
        let mut last = 1;
        if let Some(length) = type_length {
            element.extend([0x15, length * 2]);
            last = 2;
        }
        // repetition_type (3), name (4), then the annotation's fields from 5 on.
        element.extend([((3 - last) << 4) | 5, 0, 0x18, 1, b'a']);
        element.extend(annotation);
        let file = [&[0x29, 0x2c, 0x48, 1, b'r', 0x15, 2, 0][..], &element, &[0, 0x16, 0, 0x19, 0x0c, 0]].concat();
        Metadata::decode(file, 0).unwrap().leaves()[0].clone()
    }

    fn check(physical: u8, type_length: Option<u8>, annotation: &[u8], expect: Option<&str>) {
        let column_type = leaf(physical, type_length, annotation).column_type().map(|column| column.to_string());
        assert_eq!(column_type.as_deref(), expect, "physical {physical}, annotation {annotation:x?}");
    }

    /// Encodes `converted_type`.
    fn converted(code: u8) -> Vec<u8> {
        vec![0x25, code * 2]
    }

    fn decimal(scale: u8, precision: u8) -> Vec<u8> {
        vec![0x25, 10, 0x15, scale * 2, 0x15, precision * 2]
    }

    /// Encodes the union `logicalType` with an empty member.
    fn logical(member: u8) -> Vec<u8> {
        vec![0x6c, member << 4 | 0x0c, 0, 0]
    }

    #[test]
    fn physical_types_without_annotation_have_a_type() {
        check(0, None, &[], None);
        check(1, None, &[], Some("INT32 integer"));
        check(2, None, &[], Some("INT64 integer"));
        check(3, None, &[], Some("INT96 timestamp[ns]"));
        check(4, None, &[], Some("FLOAT real"));
        check(5, None, &[], Some("DOUBLE real"));
        check(6, None, &[], Some("BYTE_ARRAY bytes"));
        check(7, Some(3), &[], Some("FIXED_LEN_BYTE_ARRAY(3) bytes"));
        check(7, Some(0), &[], None);
        check(7, None, &[], None);
        check(8, None, &[], None);
    }

    #[test]
    fn converted_types_must_match_their_physical_type() {
        check(6, None, &converted(0), Some("BYTE_ARRAY bytes"));
        check(6, None, &converted(4), Some("BYTE_ARRAY bytes"));
        check(6, None, &converted(3), None);
        check(7, Some(3), &converted(0), None);
        check(1, None, &converted(6), Some("INT32 date"));
        check(2, None, &converted(6), None);
        check(1, None, &converted(7), Some("INT32 time[ms]"));
        check(2, None, &converted(7), None);
        check(2, None, &converted(8), Some("INT64 time[us]"));
        check(1, None, &converted(8), None);
        check(2, None, &converted(9), Some("INT64 instant[ms]"));
        check(2, None, &converted(10), Some("INT64 instant[us]"));
        check(1, None, &converted(11), Some("INT32 unsigned"));
        check(2, None, &converted(14), Some("INT64 unsigned"));
        check(1, None, &converted(15), Some("INT32 integer"));
        check(1, None, &converted(18), None);
        check(2, None, &converted(13), Some("INT64 unsigned"));
        check(7, Some(12), &converted(21), None);
        check(6, None, &converted(60), None);
    }

    #[test]
    fn decimals_have_a_type_in_four_physical_types() {
        check(1, None, &decimal(2, 9), Some("INT32 decimal[2]"));
        check(2, None, &decimal(0, 18), Some("INT64 decimal[0]"));
        check(6, None, &decimal(2, 9), Some("BYTE_ARRAY decimal[2]"));
        check(7, Some(5), &decimal(2, 9), Some("FIXED_LEN_BYTE_ARRAY(5) decimal[2]"));
        check(5, None, &decimal(2, 9), None);
        check(1, None, &converted(5), None);
        // A negative scale.
        check(1, None, &[0x25, 10, 0x15, 1, 0x15, 8], None);
    }

    #[test]
    fn logical_types_must_match_their_physical_type() {
        check(7, Some(16), &logical(14), Some("FIXED_LEN_BYTE_ARRAY(16) bytes"));
        check(7, Some(15), &logical(14), None);
        check(7, Some(2), &logical(15), Some("FIXED_LEN_BYTE_ARRAY(2) real"));
        check(4, None, &logical(15), None);
        check(1, None, &logical(11), None);
        check(6, None, &logical(12), Some("BYTE_ARRAY bytes"));
        // A member that this version does not know.
        check(6, None, &[0x6c, 0x0c, 0x80, 1, 0, 0], None);
        // TIMESTAMP and TIME: isAdjustedToUTC (1: true, 2: false), then the unit's member.
        let time = |member: u8, utc: u8, unit: u8| {
            vec![0x6c, member << 4 | 0x0c, 0x10 | utc, 0x1c, unit << 4 | 0x0c, 0, 0, 0, 0]
        };
        check(2, None, &time(8, 1, 3), Some("INT64 instant[ns]"));
        check(2, None, &time(8, 2, 1), Some("INT64 timestamp[ms]"));
        check(2, None, &time(8, 2, 4), None);
        check(1, None, &time(8, 2, 1), None);
        check(2, None, &time(7, 2, 3), Some("INT64 time[ns]"));
        check(2, None, &time(7, 2, 1), None);
    }

    #[test]
    fn unknown_and_contradictory_types_have_no_column_type() {
        let check = |physical, type_length, logical, certain: bool| {
            let leaf = SchemaLeaf::for_test(physical, type_length, logical);
            assert_eq!(leaf.column_type().is_some(), certain, "{leaf:?}");
        };
        let decimal = Some(Logical::Decimal { precision: 5, scale: 2 });
        check(Physical::Boolean, None, None, false);
        check(Physical::Unknown(9), None, None, false);
        check(Physical::ByteArray, None, decimal, true);
        check(Physical::ByteArray, None, Some(Logical::Unknown(17)), false);
        check(Physical::FixedLenByteArray, Some(12), Some(Logical::Interval), false);
        check(Physical::FixedLenByteArray, None, None, false);
        check(Physical::FixedLenByteArray, Some(0), None, false);
        check(Physical::FixedLenByteArray, Some(9), decimal, true);
        check(Physical::Int32, None, Some(Logical::Integer { bit_width: 64, signed: true }), false);
        check(Physical::Int32, None, Some(Logical::Integer { bit_width: 8, signed: false }), true);
        check(Physical::Int64, None, Some(Logical::Null), false);
        let unknown = TimeUnit::Unknown(4);
        check(Physical::Int64, None, Some(Logical::Timestamp { unit: unknown, utc: true }), false);
        check(Physical::Int32, None, Some(Logical::Decimal { precision: 5, scale: 1000 }), false);
        check(Physical::Int96, None, None, true);
        check(Physical::Double, None, Some(Logical::Unknown(20)), false);
    }

    #[test]
    fn columns_of_real_files_have_the_expected_type() {
        let check = |name: &str, column: usize, expect: Option<&str>| {
            let Some(file) = fixtures::file(name) else { return };
            let opened = fixtures::open(&file).unwrap();
            let column_type = opened.metadata.leaves()[column].column_type().map(|column| column.to_string());
            assert_eq!(column_type.as_deref(), expect, "{name}");
        };
        check("int32_decimal", 0, Some("INT32 decimal[2]"));
        check("int64_decimal", 0, Some("INT64 decimal[2]"));
        check("byte_array_decimal", 0, Some("BYTE_ARRAY decimal[2]"));
        check("fixed_length_decimal.", 0, Some("FIXED_LEN_BYTE_ARRAY(11) decimal[2]"));
        check("int96_from_spark", 0, Some("INT96 timestamp[ns]"));
        check("float16_nonzeros", 0, Some("FIXED_LEN_BYTE_ARRAY(2) real"));
        check("unknown-logical-type", 1, None);
    }
}
