//! How the values of a leaf are hashed, where that is certain: the other way round to `arrow/types.rs`, for columns that exist.

use super::schema::{Leaf, Logical, Physical, TimeUnit};
use crate::arrow::{ColumnType, Meaning, PhysicalType};

impl Leaf {
    /// The type by which a literal is hashed for this column's filter. `None` where two writers may have stored one value as
    /// different bytes, or where we do not know what the bytes mean: such a filter must not exclude anything.
    pub fn column_type(&self) -> Option<ColumnType> {
        use Logical as L;
        use Physical as P;
        let integer = |bits: i8| match self.logical {
            None => Some(Meaning::Integer { signed: true }),
            Some(L::Integer { bit_width: 1.., signed }) if self.fits(bits) => Some(Meaning::Integer { signed }),
            _ => None,
        };
        let (physical, meaning) = match (self.physical, self.logical) {
            (P::Int32, Some(L::Date)) => (PhysicalType::Int32, Meaning::Date),
            (P::Int32, Some(L::Time { unit: TimeUnit::Millis, .. })) => {
                (PhysicalType::Int32, Meaning::Time(unit(TimeUnit::Millis)?))
            }
            (P::Int32, Some(L::Decimal { scale, .. })) => (PhysicalType::Int32, decimal(scale)?),
            (P::Int32, _) => (PhysicalType::Int32, integer(32)?),
            (P::Int64, Some(L::Time { unit: tick @ (TimeUnit::Micros | TimeUnit::Nanos), .. })) => {
                (PhysicalType::Int64, Meaning::Time(unit(tick)?))
            }
            (P::Int64, Some(L::Timestamp { unit: tick, utc })) => {
                (PhysicalType::Int64, Meaning::Timestamp { unit: unit(tick)?, zoned: utc })
            }
            (P::Int64, Some(L::Decimal { scale, .. })) => (PhysicalType::Int64, decimal(scale)?),
            (P::Int64, _) => (PhysicalType::Int64, integer(64)?),
            // Spark stores instants and Hive local times, and the file does not say which; Arrow reads both as local.
            (P::Int96, None) => {
                (PhysicalType::Int96, Meaning::Timestamp { unit: unit(TimeUnit::Nanos)?, zoned: false })
            }
            (P::Float, None) => (PhysicalType::Float, Meaning::Real),
            (P::Double, None) => (PhysicalType::Double, Meaning::Real),
            // A decimal of variable length is absent here: nothing forbids leading zeros, so its bytes are not unique.
            (P::ByteArray, None | Some(L::String | L::Enum | L::Json | L::Bson)) => {
                (PhysicalType::ByteArray, Meaning::Bytes)
            }
            (P::FixedLenByteArray, logical) => {
                let len = u32::try_from(self.type_length?).ok().filter(|len| *len > 0)?;
                let meaning = match logical {
                    None => Meaning::Bytes,
                    Some(L::Uuid) if len == 16 => Meaning::Bytes,
                    Some(L::Float16) if len == 2 => Meaning::Real,
                    Some(L::Decimal { scale, .. }) => decimal(scale)?,
                    Some(_) => return None,
                };
                (PhysicalType::FixedLenByteArray(len), meaning)
            }
            (P::Boolean | P::Int96 | P::Float | P::Double | P::ByteArray | P::Unknown(_), _) => return None,
        };
        Some(ColumnType { physical, meaning })
    }

    /// Whether the logical integer has no more bits than are stored.
    fn fits(&self, bits: i8) -> bool {
        matches!(self.logical, Some(Logical::Integer { bit_width, .. }) if bit_width <= bits)
    }
}

fn decimal(scale: i32) -> Option<Meaning> {
    Some(Meaning::Decimal { scale: i8::try_from(scale).ok()? })
}

fn unit(unit: TimeUnit) -> Option<arrow_schema::TimeUnit> {
    Some(match unit {
        TimeUnit::Millis => arrow_schema::TimeUnit::Millisecond,
        TimeUnit::Micros => arrow_schema::TimeUnit::Microsecond,
        TimeUnit::Nanos => arrow_schema::TimeUnit::Nanosecond,
        TimeUnit::Unknown(_) => return None,
    })
}

#[cfg(test)]
mod tests {
    use arrow_schema::{DataType, Field, Schema};
    use bytes::Bytes;
    use parquet::arrow::ArrowWriter;
    use std::sync::Arc;

    use super::*;
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

    #[test]
    fn a_type_that_is_not_certain_excludes_nothing() {
        let check = |physical, type_length, logical, certain: bool| {
            let leaf = Leaf::for_test(physical, type_length, logical);
            assert_eq!(leaf.column_type().is_some(), certain, "{leaf:?}");
        };
        let decimal = Some(Logical::Decimal { precision: 5, scale: 2 });
        check(Physical::Boolean, None, None, false);
        check(Physical::Unknown(9), None, None, false);
        check(Physical::ByteArray, None, decimal, false);
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
}
