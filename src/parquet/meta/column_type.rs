//! How the values of a file's column become the bytes that its filters hash, by its physical type and annotation.

use arrow_schema::TimeUnit as Tick;

use crate::arrow::{ColumnType, Meaning, PhysicalType};
use crate::parquet::meta::schema::{Leaf, Logical, Physical, TimeUnit};

impl Leaf {
    /// The type to hash values in; `None` where no filter may exclude anything: BOOLEAN and INTERVAL, whose hashes the
    /// format leaves open, annotations newer than this code, and those that do not belong to their physical type.
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
            // Old timestamps say no zone: readers take them as they are.
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

    /// Bytes of a value of fixed length.
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

    /// The `parquet` crate writes a column of each Arrow type; what we read of it hashes as Arrow values of that type do.
    #[test]
    fn columns_of_the_peer_have_the_type_that_their_arrow_type_says() {
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

    /// A schema of one leaf as Thrift, for there is no other way to a `Leaf`.
    fn leaf(physical: u8, type_length: Option<u8>, annotation: &[u8]) -> Leaf {
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
        let found = leaf(physical, type_length, annotation).column_type().map(|column| column.to_string());
        assert_eq!(found.as_deref(), expect, "physical {physical}, annotation {annotation:x?}");
    }

    /// `converted_type`, and where it is a decimal's, scale and precision.
    fn converted(code: u8) -> Vec<u8> {
        vec![0x25, code * 2]
    }

    fn decimal(scale: u8, precision: u8) -> Vec<u8> {
        vec![0x25, 10, 0x15, scale * 2, 0x15, precision * 2]
    }

    /// The union `logicalType` with an empty member.
    fn logical(member: u8) -> Vec<u8> {
        vec![0x6c, member << 4 | 0x0c, 0, 0]
    }

    #[test]
    fn physical_types_alone() {
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
    fn converted_types() {
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
    fn decimals_of_four_physical_types() {
        check(1, None, &decimal(2, 9), Some("INT32 decimal[2]"));
        check(2, None, &decimal(0, 18), Some("INT64 decimal[0]"));
        check(6, None, &decimal(2, 9), Some("BYTE_ARRAY decimal[2]"));
        check(7, Some(5), &decimal(2, 9), Some("FIXED_LEN_BYTE_ARRAY(5) decimal[2]"));
        check(5, None, &decimal(2, 9), None);
        check(1, None, &converted(5), None);
        // A scale that is below zero.
        check(1, None, &[0x25, 10, 0x15, 1, 0x15, 8], None);
    }

    #[test]
    fn logical_types() {
        check(7, Some(16), &logical(14), Some("FIXED_LEN_BYTE_ARRAY(16) bytes"));
        check(7, Some(15), &logical(14), None);
        check(7, Some(2), &logical(15), Some("FIXED_LEN_BYTE_ARRAY(2) real"));
        check(4, None, &logical(15), None);
        check(1, None, &logical(11), None);
        check(6, None, &logical(12), Some("BYTE_ARRAY bytes"));
        // Not there when this was written.
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
    fn a_type_that_is_not_certain_excludes_nothing() {
        let check = |physical, type_length, logical, certain: bool| {
            let leaf = Leaf::for_test(physical, type_length, logical);
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
    fn real_files() {
        let check = |name: &str, column: usize, expect: Option<&str>| {
            let Some(file) = fixtures::file(name) else { return };
            let opened = fixtures::open(&file).unwrap();
            let found = opened.metadata.leaves()[column].column_type().map(|column| column.to_string());
            assert_eq!(found.as_deref(), expect, "{name}");
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
