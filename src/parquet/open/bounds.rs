//! The min/max statistics of column chunks that can be trusted.
//!
//! A bound that is too narrow would skip matching rows, so a bound is ignored in case of doubt: an undefined sort
//! order, writers that compared bytes as signed, NaN, writers that lost values next to NaN, changed calendars, values
//! that do not fit the column, or a minimum above the maximum. So is a number of nulls from a writer that miscounts them.

use std::cmp::Ordering;

use crate::parquet::meta::chunk::{Protection, Statistics};
use crate::parquet::meta::file_metadata::{ColumnOrder, Metadata};
use crate::parquet::meta::schema::{Logical, Physical, SchemaLeaf, TimeUnit};
use crate::parquet::open::file::ParquetFile;
use crate::parquet::open::writer::{has_wrong_bounds, is_wrong_count};

/// A lower or upper bound of the values of a chunk.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Bound<'a> {
    /// Booleans, integers, ticks of dates and times, and unscaled decimals.
    Integer(i128),
    /// Floating-point numbers of any width, never NaN.
    Real(f64),
    /// Text and bytes, compared as unsigned bytes.
    Bytes(&'a [u8]),
}

/// The trusted statistics of a chunk. `None` means unknown.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Bounds<'a> {
    /// Lower bound of all values except NaN.
    pub lower: Option<Bound<'a>>,
    /// Upper bound of all values except NaN.
    pub upper: Option<Bound<'a>>,
    /// Number of nulls, including those of parents.
    pub nulls: Option<u64>,
    /// Number of NaNs.
    pub nans: Option<u64>,
    /// Number of values, including nulls and NaNs.
    pub values: Option<u64>,
}

/// Writers whose old statistics, compared as signed, are correct for signed types.
const KNOWN_WRITERS: [&str; 4] = ["parquet-mr", "parquet-cpp", "impala", "parquet-go"];
/// 15 October 1582, the first day on which the calendars of all writers agree.
const FIRST_GREGORIAN_DAY: i128 = -141_427;
/// 1900. Some writers shifted timestamps of earlier years.
const FIRST_UNAMBIGUOUS_SECOND: i128 = -2_208_988_800;

impl ParquetFile {
    /// Returns the trusted statistics of a column chunk.
    pub fn bounds(&self, row_group: usize, column: usize) -> Bounds<'_> {
        self.metadata.trusted_bounds(row_group, column, self.authenticated).unwrap_or_default()
    }
}

impl Metadata {
    fn trusted_bounds(&self, row_group: usize, column: usize, authenticated: bool) -> Option<Bounds<'_>> {
        let chunk = self.chunk(row_group, column).ok()?;
        // Plaintext statistics of an encrypted column are not authenticated.
        if chunk.in_other_file || (chunk.protection != Protection::Plain && !authenticated) {
            return None;
        }
        let values = u64::try_from(chunk.meta.as_ref()?.num_values).ok();
        let unknown = Bounds { values, ..Bounds::default() };
        let Ok(Some(statistics)) = self.statistics(chunk) else { return Some(unknown) };
        let count =
            |claimed: Option<i64>| u64::try_from(claimed?).ok().filter(|&count| values.is_some_and(|all| count <= all));
        let nulls = count(statistics.null_count).filter(|&nulls| !is_wrong_count(self.created_by(), nulls));
        // A chunk of nulls has no minimum.
        let has_bound = [statistics.min_value, statistics.max_value, statistics.old_min, statistics.old_max]
            .into_iter()
            .flatten()
            .any(|bound| !bound.is_empty());
        let nulls = nulls.filter(|nulls| !has_bound || values != Some(*nulls));
        let (lower, upper) = self.range(column, &statistics).unzip();
        Some(Bounds { lower, upper, nulls, nans: count(statistics.nan_count), values })
    }

    fn range<'a>(&self, column: usize, statistics: &Statistics<'a>) -> Option<(Bound<'a>, Bound<'a>)> {
        let leaf = self.leaves().get(column)?;
        if has_wrong_bounds(self.created_by(), leaf) {
            return None;
        }
        let signed = leaf.has_signed_order();
        let (lower, upper) = match (self.column_order(column), statistics.min_value, statistics.max_value) {
            (Some(ColumnOrder::TypeDefined), Some(min), Some(max)) => (min, max),
            (Some(ColumnOrder::Ieee754), Some(min), Some(max)) if leaf.is_real() => (min, max),
            _ if signed && self.is_from_known_writer() => (statistics.old_min?, statistics.old_max?),
            _ => return None,
        };
        let (lower, upper) = (leaf.bound(lower)?, leaf.bound(upper)?);
        // If a writer compared by another order than the type's, the minimum may exceed the maximum.
        if !matches!(compare(lower, upper)?, Ordering::Less | Ordering::Equal) {
            return None;
        }
        let before_calendars_agree = leaf.first_unambiguous_tick().is_some_and(|first_tick| {
            [lower, upper].iter().any(|bound| matches!(bound, Bound::Integer(tick) if *tick < first_tick))
        });
        (!before_calendars_agree || self.uses_gregorian_calendar()).then_some((lower, upper))
    }

    fn is_from_known_writer(&self) -> bool {
        self.created_by().is_some_and(|writer| KNOWN_WRITERS.iter().any(|known| writer.starts_with(known)))
    }

    /// Returns true if all readers interpret old dates and times as the writer did.
    fn uses_gregorian_calendar(&self) -> bool {
        let value = |name| self.key_values().find(|(key, _)| *key == name).map(|(_, value)| value.unwrap_or_default());
        if value("org.apache.spark.legacyDateTime").is_some() {
            return false;
        }
        // Hive and Spark before 3.0 wrote dates of the Julian calendar through parquet-mr.
        let spark_major =
            value("org.apache.spark.version").and_then(|version| version.split('.').next()?.parse::<u32>().ok());
        spark_major.map_or_else(
            || !self.created_by().is_some_and(|writer| writer.starts_with("parquet-mr")),
            |major| major >= 3,
        )
    }
}

fn compare(left: Bound<'_>, right: Bound<'_>) -> Option<Ordering> {
    match (left, right) {
        (Bound::Integer(left), Bound::Integer(right)) => Some(left.cmp(&right)),
        (Bound::Real(left), Bound::Real(right)) => left.partial_cmp(&right),
        (Bound::Bytes(left), Bound::Bytes(right)) => Some(left.cmp(right)),
        _ => None,
    }
}

impl SchemaLeaf {
    /// Returns true if the signed comparison of old statistics is the order of the type.
    fn has_signed_order(&self) -> bool {
        match self.physical {
            Physical::Boolean => self.logical.is_none(),
            // In these statistics, a page that begins with NaN lost its other values.
            Physical::Float | Physical::Double => false,
            Physical::Int32 | Physical::Int64 => !matches!(self.logical, Some(Logical::Integer { signed: false, .. })),
            _ => false,
        }
    }

    pub(super) fn is_real(&self) -> bool {
        matches!(self.physical, Physical::Float | Physical::Double) || self.logical == Some(Logical::Float16)
    }

    /// Returns the first date or time from which on all calendars agree.
    fn first_unambiguous_tick(&self) -> Option<i128> {
        Some(match self.logical? {
            Logical::Date => FIRST_GREGORIAN_DAY,
            Logical::Timestamp { unit, .. } => {
                FIRST_UNAMBIGUOUS_SECOND
                    * match unit {
                        TimeUnit::Millis => 1_000,
                        TimeUnit::Micros => 1_000_000,
                        TimeUnit::Nanos => 1_000_000_000,
                        TimeUnit::Unknown(_) => return None,
                    }
            }
            _ => return None,
        })
    }

    /// Decodes a stored minimum or maximum. Returns `None` if it is not a valid value of this column.
    fn bound<'a>(&self, stored: &'a [u8]) -> Option<Bound<'a>> {
        use Logical as L;
        Some(match (self.physical, self.logical) {
            (Physical::Boolean, None) => match stored {
                [value @ (0 | 1)] => Bound::Integer(i128::from(*value)),
                _ => return None,
            },
            (Physical::Int32, logical) => integer(i32::from_le_bytes(stored.try_into().ok()?).into(), logical, 32)?,
            (Physical::Int64, logical) => integer(i64::from_le_bytes(stored.try_into().ok()?), logical, 64)?,
            (Physical::Float, None) => real(f32::from_le_bytes(stored.try_into().ok()?).into())?,
            (Physical::Double, None) => real(f64::from_le_bytes(stored.try_into().ok()?))?,
            (Physical::FixedLenByteArray, _) if self.type_length != i32::try_from(stored.len()).ok() => return None,
            (Physical::FixedLenByteArray, Some(L::Float16)) => real(half(stored.try_into().ok()?))?,
            (Physical::FixedLenByteArray, Some(L::Decimal { .. })) => Bound::Integer(big_endian(stored)?),
            (Physical::FixedLenByteArray, None | Some(L::Uuid)) => Bound::Bytes(stored),
            // Some writers store empty bytes for "none". BYTE_ARRAY decimals do not sort as bytes.
            (Physical::ByteArray, None | Some(L::String | L::Enum | L::Json | L::Bson)) if !stored.is_empty() => {
                Bound::Bytes(stored)
            }
            _ => return None,
        })
    }
}

fn integer(value: i64, logical: Option<Logical>, bits: u32) -> Option<Bound<'static>> {
    use Logical as L;
    let value = i128::from(value);
    let fits = |width: i8, signed: bool| {
        let width = u32::try_from(width).ok().filter(|width| (1..=bits).contains(width))?;
        let (lowest, end) = if signed { (-(1 << (width - 1)), 1 << (width - 1)) } else { (0, 1 << width) };
        // Unsigned numbers of the physical type's full width are stored as signed integers.
        let value = if !signed && value < 0 { value + (1i128 << bits) } else { value };
        (lowest..end).contains(&value).then_some(Bound::Integer(value))
    };
    match logical {
        Some(L::Integer { bit_width, signed }) => fits(bit_width, signed),
        None | Some(L::Date | L::Time { .. } | L::Timestamp { .. } | L::Decimal { .. }) => Some(Bound::Integer(value)),
        _ => None,
    }
}

fn real(value: f64) -> Option<Bound<'static>> {
    (!value.is_nan()).then_some(Bound::Real(value))
}

fn half(stored: [u8; 2]) -> f64 {
    let bits = u16::from_le_bytes(stored);
    let sign = if bits >> 15 == 1 { -1.0 } else { 1.0 };
    let (exponent, fraction) = (i32::from((bits >> 10) & 0x1f), f64::from(bits & 0x3ff));
    sign * match exponent {
        0 => fraction * 2f64.powi(-24),
        31 if fraction == 0.0 => f64::INFINITY,
        31 => f64::NAN,
        _ => (1024.0 + fraction) * 2f64.powi(exponent - 25),
    }
}

/// Decodes a decimal in big-endian two's complement.
fn big_endian(stored: &[u8]) -> Option<i128> {
    if stored.is_empty() || stored.len() > 16 {
        return None;
    }
    let start = if stored[0] >= 0x80 { -1i128 } else { 0 };
    Some(stored.iter().fold(start, |value, byte| (value << 8) | i128::from(*byte)))
}

#[cfg(test)]
#[path = "bounds_tests.rs"]
mod tests;
