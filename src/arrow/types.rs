//! The mapping from Arrow types to Parquet physical types and meanings: one table, [`ColumnType::of`].
//!
//! The physical type decides which bytes are hashed. The meaning (unit, scale, sign) decides whether two columns of the
//! same physical type are comparable: 1 second and 1 millisecond are both stored as the INT64 value 1.

use crate::error::{Error, ErrorKind, Result};
use arrow_schema::{DataType, TimeUnit};
use std::fmt;
use std::str::FromStr;

/// Physical types that Parquet can hash. BOOLEAN is missing because its plain encoding is bit-packed, for which the
/// format defines no hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PhysicalType {
    /// Four bytes, little-endian.
    Int32,
    /// Eight bytes, little-endian.
    Int64,
    /// Nanoseconds of the day and the Julian day. A deprecated timestamp type, which parsieve only reads.
    Int96,
    /// Four bytes of IEEE 754.
    Float,
    /// Eight bytes of IEEE 754.
    Double,
    /// The bytes, without a length prefix.
    ByteArray,
    /// Byte strings of equal length.
    FixedLenByteArray(u32),
}

/// The meaning of a column's values. Together with the physical type it determines their hashes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Meaning {
    /// Integers of any width. Unsigned integers are stored as their bit pattern.
    Integer {
        /// True for signed integers.
        signed: bool,
    },
    /// IEEE 754 numbers of the physical type's width.
    Real,
    /// Decimals, stored as unscaled integers.
    Decimal {
        /// Digits after the decimal point.
        scale: i8,
    },
    /// Days since 1970.
    Date,
    /// Ticks since midnight.
    Time(TimeUnit),
    /// Ticks since 1970.
    Timestamp {
        /// The unit of a tick.
        unit: TimeUnit,
        /// True for instants (UTC), false for local times.
        zoned: bool,
    },
    /// A number of ticks.
    Duration(TimeUnit),
    /// Text, binary or UUID: uninterpreted bytes.
    Bytes,
}

/// A column type, which determines the bytes that are hashed for a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ColumnType {
    /// How the values are stored.
    pub physical: PhysicalType,
    /// How the values are interpreted.
    pub meaning: Meaning,
}

impl ColumnType {
    /// Returns the column type that pyarrow's writer uses for an Arrow type.
    pub fn of(arrow: &DataType) -> Result<Self> {
        use DataType as A;
        use PhysicalType as P;
        let (physical, meaning) = match arrow {
            // One row per Arrow type. See "How to add an Arrow type" in ARCHITECTURE.md.
            A::Int8 | A::Int16 | A::Int32 => (P::Int32, Meaning::Integer { signed: true }),
            A::UInt8 | A::UInt16 | A::UInt32 => (P::Int32, Meaning::Integer { signed: false }),
            A::Int64 => (P::Int64, Meaning::Integer { signed: true }),
            A::UInt64 => (P::Int64, Meaning::Integer { signed: false }),
            A::Float16 => (P::FixedLenByteArray(2), Meaning::Real),
            A::Float32 => (P::Float, Meaning::Real),
            A::Float64 => (P::Double, Meaning::Real),
            A::Date32 | A::Date64 => (P::Int32, Meaning::Date),
            // Parquet has no unit for seconds, so writers store milliseconds.
            A::Time32(_) => (P::Int32, Meaning::Time(TimeUnit::Millisecond)),
            A::Time64(unit) => (P::Int64, Meaning::Time(*unit)),
            A::Timestamp(unit, zone) => (P::Int64, Meaning::Timestamp { unit: stored(*unit), zoned: zone.is_some() }),
            A::Duration(unit) => (P::Int64, Meaning::Duration(*unit)),
            A::Decimal32(precision, scale)
            | A::Decimal64(precision, scale)
            | A::Decimal128(precision, scale)
            | A::Decimal256(precision, scale) => {
                (P::FixedLenByteArray(decimal_bytes(*precision)), Meaning::Decimal { scale: *scale })
            }
            A::Utf8 | A::LargeUtf8 | A::Utf8View | A::Binary | A::LargeBinary | A::BinaryView => {
                (P::ByteArray, Meaning::Bytes)
            }
            A::FixedSizeBinary(width) => (P::FixedLenByteArray(width.cast_unsigned()), Meaning::Bytes),
            A::Dictionary(_, values) => return Self::of(values),
            A::RunEndEncoded(_, values) => return Self::of(values.data_type()),
            A::Boolean => return Err(unsupported(arrow, "the format defines no hash for BOOLEAN")),
            A::Interval(_) => return Err(unsupported(arrow, "writers disagree on how Parquet stores intervals")),
            A::Null => return Err(unsupported(arrow, "a column of nulls has no values; give the column's type")),
            _ => return Err(unsupported(arrow, "Parquet has no leaf of this type")),
        };
        Ok(Self { physical, meaning })
    }

    /// Returns the column type that stores an Arrow type as the given physical type, or an error if it cannot.
    pub fn with_physical(arrow: &DataType, physical: RequestedPhysical) -> Result<Self> {
        let default = Self::of(arrow)?;
        let physical = match physical {
            RequestedPhysical::Exactly(physical) => physical,
            // The length that pyarrow chooses.
            RequestedPhysical::FixedOfUsualWidth => match (default.physical, default.meaning) {
                (PhysicalType::FixedLenByteArray(width), _) => PhysicalType::FixedLenByteArray(width),
                (_, _) => return Err(no_form(arrow, "FIXED_LEN_BYTE_ARRAY without a length")),
            },
        };
        use PhysicalType as P;
        let meaning = match (default.meaning, physical) {
            (Meaning::Timestamp { zoned, .. }, P::Int96) => Meaning::Timestamp { unit: TimeUnit::Nanosecond, zoned },
            (Meaning::Bytes, P::Int96) if default.physical == P::FixedLenByteArray(12) => Meaning::Bytes,
            // arrow-rs stores Date64 unchanged, as milliseconds in an INT64.
            (Meaning::Date, P::Int64) if *value_type(arrow) == DataType::Date64 => {
                Meaning::Timestamp { unit: TimeUnit::Millisecond, zoned: false }
            }
            (meaning @ Meaning::Integer { .. }, P::Int32 | P::Int64)
            | (meaning @ Meaning::Decimal { .. }, P::Int32 | P::Int64 | P::ByteArray | P::FixedLenByteArray(_))
            | (meaning @ Meaning::Real, P::Float | P::Double | P::FixedLenByteArray(2))
            | (meaning @ Meaning::Bytes, P::ByteArray | P::FixedLenByteArray(_)) => meaning,
            (meaning, physical) if physical == default.physical => meaning,
            _ => return Err(no_form(arrow, &physical.to_string())),
        };
        Ok(Self { physical, meaning })
    }
}

/// A physical type given by the caller, who may omit the length of a fixed-length type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestedPhysical {
    /// A complete physical type.
    Exactly(PhysicalType),
    /// `FIXED_LEN_BYTE_ARRAY` with the length that pyarrow chooses for the Arrow type.
    FixedOfUsualWidth,
}

fn value_type(arrow: &DataType) -> &DataType {
    match arrow {
        DataType::Dictionary(_, values) => value_type(values),
        DataType::RunEndEncoded(_, values) => value_type(values.data_type()),
        plain => plain,
    }
}

fn stored(unit: TimeUnit) -> TimeUnit {
    if unit == TimeUnit::Second { TimeUnit::Millisecond } else { unit }
}

/// Returns the smallest number of bytes whose signed range contains every unscaled value of `precision` digits.
pub fn decimal_bytes(precision: u8) -> u32 {
    // One sign bit plus log2(10^precision) bits. No power of ten is a power of two, so the ceiling is exact.
    (f64::from(precision) * std::f64::consts::LOG2_10 + 1.0).div_euclid(8.0) as u32 + 1
}

fn unsupported(arrow: &DataType, reason: &'static str) -> Error {
    Error::new(ErrorKind::ArrowType { arrow: arrow.to_string(), reason })
}

fn no_form(arrow: &DataType, target: &str) -> Error {
    Error::new(ErrorKind::NoPhysicalForm { arrow: arrow.to_string(), target: target.to_owned() })
}

impl fmt::Display for PhysicalType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Int32 => "INT32",
            Self::Int64 => "INT64",
            Self::Int96 => "INT96",
            Self::Float => "FLOAT",
            Self::Double => "DOUBLE",
            Self::ByteArray => "BYTE_ARRAY",
            Self::FixedLenByteArray(width) => return write!(f, "FIXED_LEN_BYTE_ARRAY({width})"),
        })
    }
}

impl FromStr for RequestedPhysical {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        let fixed = || {
            let width = name.strip_prefix("FIXED_LEN_BYTE_ARRAY(")?.strip_suffix(')')?;
            // Arrow stores the width as an i32, so a larger number is invalid.
            width.parse().ok().filter(|width| *width <= i32::MAX.cast_unsigned()).map(PhysicalType::FixedLenByteArray)
        };
        let exactly = match name {
            "INT32" => PhysicalType::Int32,
            "INT64" => PhysicalType::Int64,
            "INT96" => PhysicalType::Int96,
            "FLOAT" => PhysicalType::Float,
            "DOUBLE" => PhysicalType::Double,
            "BYTE_ARRAY" => PhysicalType::ByteArray,
            "FIXED_LEN_BYTE_ARRAY" => return Ok(Self::FixedOfUsualWidth),
            _ => fixed().ok_or_else(|| Error::new(ErrorKind::PhysicalName(name.to_owned())))?,
        };
        Ok(Self::Exactly(exactly))
    }
}

/// The units in the text of a meaning, such as `timestamp[us]`. [`Meaning::from_str`] parses them.
const UNITS: [(&str, TimeUnit); 4] = [
    ("s", TimeUnit::Second),
    ("ms", TimeUnit::Millisecond),
    ("us", TimeUnit::Microsecond),
    ("ns", TimeUnit::Nanosecond),
];

fn unit_name(unit: TimeUnit) -> &'static str {
    UNITS.iter().find(|(_, known)| *known == unit).map_or("", |(name, _)| name)
}

impl fmt::Display for Meaning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Integer { signed: true } => f.write_str("integer"),
            Self::Integer { signed: false } => f.write_str("unsigned"),
            Self::Real => f.write_str("real"),
            Self::Decimal { scale } => write!(f, "decimal[{scale}]"),
            Self::Date => f.write_str("date"),
            Self::Time(unit) => write!(f, "time[{}]", unit_name(*unit)),
            Self::Timestamp { unit, zoned: true } => write!(f, "instant[{}]", unit_name(*unit)),
            Self::Timestamp { unit, zoned: false } => write!(f, "timestamp[{}]", unit_name(*unit)),
            Self::Duration(unit) => write!(f, "duration[{}]", unit_name(*unit)),
            Self::Bytes => f.write_str("bytes"),
        }
    }
}

impl FromStr for Meaning {
    type Err = ();

    fn from_str(text: &str) -> std::result::Result<Self, ()> {
        let (name, argument) = match text.strip_suffix(']') {
            Some(open) => open.split_once('[').ok_or(())?,
            None => (text, ""),
        };
        let unit = || UNITS.iter().find(|(known, _)| *known == argument).map(|(_, unit)| *unit).ok_or(());
        Ok(match name {
            "integer" => Self::Integer { signed: true },
            "unsigned" => Self::Integer { signed: false },
            "real" => Self::Real,
            "decimal" => Self::Decimal { scale: argument.parse().map_err(drop)? },
            "date" => Self::Date,
            "time" => Self::Time(unit()?),
            "instant" => Self::Timestamp { unit: unit()?, zoned: true },
            "timestamp" => Self::Timestamp { unit: unit()?, zoned: false },
            "duration" => Self::Duration(unit()?),
            "bytes" => Self::Bytes,
            _ => return Err(()),
        })
    }
}

impl fmt::Display for ColumnType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.physical, self.meaning)
    }
}

impl FromStr for ColumnType {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let parse = || {
            let (physical, meaning) = text.split_once(' ')?;
            let RequestedPhysical::Exactly(physical) = physical.parse().ok()? else { return None };
            Some(Self { physical, meaning: meaning.parse().ok()? })
        };
        parse().ok_or_else(|| Error::new(ErrorKind::PhysicalName(text.to_owned())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_are_stored_in_the_fewest_bytes() {
        for precision in 1..=38u8 {
            let largest = 10i128.checked_pow(u32::from(precision)).unwrap() - 1;
            let fits = |bytes: u32| bytes >= 16 || bytes > 0 && largest < 1i128 << (8 * bytes - 1);
            let bytes = decimal_bytes(precision);
            assert!(fits(bytes) && !fits(bytes - 1), "{precision} digits in {bytes} bytes");
        }
        assert_eq!(decimal_bytes(76), 32);
    }

    #[test]
    fn column_types_round_trip_through_text() {
        let mut meanings = vec![Meaning::Integer { signed: true }, Meaning::Integer { signed: false }, Meaning::Real];
        meanings.extend([Meaning::Date, Meaning::Bytes, Meaning::Decimal { scale: -3 }]);
        for (_, unit) in UNITS {
            meanings.extend([Meaning::Time(unit), Meaning::Duration(unit)]);
            meanings.extend([true, false].map(|zoned| Meaning::Timestamp { unit, zoned }));
        }
        for meaning in meanings {
            for physical in [PhysicalType::Int32, PhysicalType::Int96, PhysicalType::FixedLenByteArray(16)] {
                let column = ColumnType { physical, meaning };
                assert_eq!(column.to_string().parse(), Ok(column));
            }
        }
        for text in ["", "INT32", "INT32 ", "INT32 time", "INT32 time[h]", "INT31 real", "FIXED_LEN_BYTE_ARRAY bytes"] {
            assert!(text.parse::<ColumnType>().is_err(), "{text}");
        }
    }

    #[test]
    fn types_without_a_hash_are_unsupported() {
        for arrow in [
            DataType::Boolean,
            DataType::Null,
            DataType::Interval(arrow_schema::IntervalUnit::MonthDayNano),
            DataType::Dictionary(Box::new(DataType::Int8), Box::new(DataType::Boolean)),
        ] {
            assert!(matches!(ColumnType::of(&arrow).unwrap_err().kind(), ErrorKind::ArrowType { .. }), "{arrow}");
        }
    }

    #[test]
    fn with_physical_accepts_only_suitable_physical_types() {
        let check = |arrow: DataType, physical: &str, expected: Option<&str>| {
            let column = ColumnType::with_physical(&arrow, physical.parse().unwrap()).ok();
            assert_eq!(column.map(|column| column.to_string()).as_deref(), expected, "{arrow} as {physical}");
        };
        check(DataType::Int32, "INT64", Some("INT64 integer"));
        check(DataType::Int32, "DOUBLE", None);
        check(DataType::Timestamp(TimeUnit::Second, None), "INT64", Some("INT64 timestamp[ms]"));
        check(DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())), "INT96", Some("INT96 instant[ns]"));
        check(DataType::Date64, "INT64", Some("INT64 timestamp[ms]"));
        check(DataType::Date32, "INT64", None);
        check(DataType::Decimal128(9, 2), "INT32", Some("INT32 decimal[2]"));
        check(DataType::Decimal128(9, 2), "FIXED_LEN_BYTE_ARRAY", Some("FIXED_LEN_BYTE_ARRAY(4) decimal[2]"));
        check(DataType::Decimal128(9, 2), "FIXED_LEN_BYTE_ARRAY(16)", Some("FIXED_LEN_BYTE_ARRAY(16) decimal[2]"));
        check(DataType::Utf8, "FIXED_LEN_BYTE_ARRAY", None);
        check(DataType::FixedSizeBinary(12), "INT96", Some("INT96 bytes"));
        check(DataType::FixedSizeBinary(11), "INT96", None);
        assert!("FIXED_LEN_BYTE_ARRAY(-1)".parse::<RequestedPhysical>().is_err());
        assert!("int32".parse::<RequestedPhysical>().is_err());
    }
}
