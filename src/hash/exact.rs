//! Converts numbers to another unit, scale or width exactly, or refuses.

use super::slots::ShortBytes;
use crate::arrow::Meaning;
use arrow_buffer::i256;
use arrow_schema::{DataType, TimeUnit};

/// A conversion factor: `times / over`, where either is 1, or a power of ten that does not fit into 128 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ratio {
    times: i128,
    over: i128,
    /// The exponent of a power of ten that does not fit into 128 bits, otherwise 0.
    big_exponent: i32,
}

const MILLIS_OF_DAY: i128 = 86_400_000;

impl Ratio {
    pub(super) const ONE: Self = Self::of(1, 1);

    const fn of(times: i128, over: i128) -> Self {
        Self { times, over, big_exponent: 0 }
    }

    /// Returns the factor from integers of an Arrow type to those of a column, or `None` if they are not comparable.
    pub(super) fn between(from: &DataType, to: Meaning) -> Option<Self> {
        use DataType as A;
        match (from, to) {
            (from, Meaning::Integer { .. }) if from.is_integer() => Some(Self::ONE),
            (from, Meaning::Decimal { scale }) if from.is_integer() => Some(Self::power(i32::from(scale))),
            (A::Date32, Meaning::Date) => Some(Self::ONE),
            (A::Date64, Meaning::Date) => Some(Self::of(1, MILLIS_OF_DAY)),
            (A::Date64, Meaning::Timestamp { unit, zoned: false }) => Self::ticks(TimeUnit::Millisecond, unit),
            (A::Time32(from) | A::Time64(from), Meaning::Time(to)) => Self::ticks(*from, to),
            (A::Duration(from), Meaning::Duration(to)) => Self::ticks(*from, to),
            // A local time cannot be compared with an instant without a time zone.
            (A::Timestamp(from, zone), Meaning::Timestamp { unit, zoned }) if zone.is_some() == zoned => {
                Self::ticks(*from, unit)
            }
            (
                A::Decimal32(_, from) | A::Decimal64(_, from) | A::Decimal128(_, from) | A::Decimal256(_, from),
                Meaning::Decimal { .. } | Meaning::Integer { .. },
            ) => {
                let scale = if let Meaning::Decimal { scale } = to { scale } else { 0 };
                Some(Self::power(i32::from(scale) - i32::from(*from)))
            }
            _ => None,
        }
    }

    fn power(exponent: i32) -> Self {
        match 10i128.checked_pow(exponent.unsigned_abs()) {
            Some(power) if exponent < 0 => Self::of(1, power),
            Some(power) => Self::of(power, 1),
            None => Self { times: 1, over: 1, big_exponent: exponent },
        }
    }

    fn ticks(from: TimeUnit, to: TimeUnit) -> Option<Self> {
        let exponent = |unit| match unit {
            TimeUnit::Second => 0,
            TimeUnit::Millisecond => 3,
            TimeUnit::Microsecond => 6,
            TimeUnit::Nanosecond => 9,
        };
        Some(Self::power(exponent(to) - exponent(from)))
    }

    /// Converts a value, or returns `None` if the result is not an integer of 128 bits.
    #[inline(always)]
    pub(super) fn apply(self, value: i128) -> Option<i128> {
        if self == Self::ONE {
            return Some(value);
        }
        if self.big_exponent != 0 {
            // Only zero stays within 128 bits or is a multiple of such a power.
            return (value == 0).then_some(0);
        }
        (value % self.over == 0).then(|| (value / self.over).checked_mul(self.times))?
    }

    /// Converts a value, or returns `None` if the result is not an integer of 256 bits.
    pub(super) fn apply_wide(self, value: i256) -> Option<i256> {
        if value == i256::ZERO {
            return Some(value);
        }
        let (times, over) = self.wide()?;
        let exact = value.checked_rem(over)? == i256::ZERO;
        exact.then(|| value.checked_div(over)?.checked_mul(times))?
    }

    /// Returns `times` and `over` in 256 bits, or `None` if they do not fit.
    fn wide(self) -> Option<(i256, i256)> {
        let one = i256::from_i128(1);
        match self.big_exponent {
            0 => Some((i256::from_i128(self.times), i256::from_i128(self.over))),
            big_exponent => {
                let power = i256::from_i128(10).checked_pow(big_exponent.unsigned_abs())?;
                Some(if big_exponent < 0 { (one, power) } else { (power, one) })
            }
        }
    }
}

/// Returns the bits of `value` as a 32-bit integer, or `None` if it is out of range.
#[inline(always)]
pub(super) fn to_32(value: i128, signed: bool) -> Option<u32> {
    if signed { i32::try_from(value).ok().map(i32::cast_unsigned) } else { u32::try_from(value).ok() }
}

/// Returns the bits of `value` as a 64-bit integer, or `None` if it is out of range.
#[inline(always)]
pub(super) fn to_64(value: i128, signed: bool) -> Option<u64> {
    if signed { i64::try_from(value).ok().map(i64::cast_unsigned) } else { u64::try_from(value).ok() }
}

/// Returns big-endian two's complement in exactly `width` bytes, or `None` if they do not suffice.
pub(super) fn to_fixed(value: i256, width: usize) -> Option<ShortBytes> {
    (bytes_needed(value) <= width && width <= ShortBytes::MAX).then(|| ShortBytes::last(value.to_be_bytes(), width))
}

/// Returns big-endian two's complement in the fewest bytes, but at least `min_bytes`. The format recommends the fewest
/// bytes for decimals in a BYTE_ARRAY.
pub(super) fn to_shortest(value: i256, min_bytes: usize) -> ShortBytes {
    ShortBytes::last(value.to_be_bytes(), bytes_needed(value).max(min_bytes))
}

/// Returns the number of bytes without redundant sign bytes.
fn bytes_needed(value: i256) -> usize {
    let bytes = value.to_be_bytes();
    let sign = if bytes[0] & 0x80 == 0 { 0x00 } else { 0xff };
    let repeated = bytes.iter().take_while(|byte| **byte == sign).count();
    // The first remaining byte must still show the sign.
    let shows_sign = bytes.get(repeated).is_some_and(|byte| byte & 0x80 == sign & 0x80);
    ShortBytes::MAX - repeated + usize::from(!shows_sign)
}

const NANOS_OF_DAY: i128 = 86_400_000_000_000;
const JULIAN_DAY_OF_1970: i128 = 2_440_588;

/// Returns an INT96: the nanoseconds of the day in eight bytes, then the Julian day in four, both little-endian.
/// If `truncated`, days are rounded towards zero.
pub(super) fn to_int96(nanoseconds: i128, truncated: bool) -> Option<ShortBytes> {
    let (days, of_day) = match truncated {
        true => (nanoseconds / NANOS_OF_DAY, nanoseconds % NANOS_OF_DAY),
        false => (nanoseconds.div_euclid(NANOS_OF_DAY), nanoseconds.rem_euclid(NANOS_OF_DAY)),
    };
    let day = u32::try_from(days + JULIAN_DAY_OF_1970).ok()?;
    let of_day = i64::try_from(of_day).ok()?;
    let mut bytes = [0; ShortBytes::MAX];
    bytes[20..28].copy_from_slice(&of_day.to_le_bytes());
    bytes[28..].copy_from_slice(&day.to_le_bytes());
    Some(ShortBytes::last(bytes, 12))
}

/// Returns the bytes of a half-precision float.
pub(super) fn to_half(bits: u16) -> ShortBytes {
    let mut bytes = [0; ShortBytes::MAX];
    bytes[30..].copy_from_slice(&bits.to_le_bytes());
    ShortBytes::last(bytes, 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_become_the_shortest_or_a_fixed_number_of_bytes() {
        let check = |value: i128, shortest: &[u8]| {
            let value = i256::from_i128(value);
            assert_eq!(to_shortest(value, 1).as_slice(), shortest);
            assert_eq!(to_shortest(value, 20), to_fixed(value, 20).unwrap());
            assert_eq!(to_shortest(value, shortest.len() - 1).as_slice(), shortest);
            assert_eq!(to_fixed(value, shortest.len()).unwrap().as_slice(), shortest);
            assert_eq!(to_fixed(value, shortest.len() - 1), None);
            let wide = to_fixed(value, 32).unwrap();
            assert_eq!(i256::from_be_bytes(wide.as_slice().try_into().unwrap()), value);
        };
        check(0, &[0]);
        check(-1, &[0xff]);
        check(127, &[0x7f]);
        check(128, &[0x00, 0x80]);
        check(-128, &[0x80]);
        check(-129, &[0xff, 0x7f]);
        check(0x0102_0304, &[1, 2, 3, 4]);
        assert_eq!(to_shortest(i256::MIN, 1).as_slice().len(), 32);
        assert_eq!(to_shortest(i256::MAX, 32).as_slice().len(), 32);
    }

    #[test]
    fn ratios_convert_exactly_or_return_none() {
        let check = |from: DataType, to: Meaning, value: i128, expected: Option<i128>| {
            let ratio = Ratio::between(&from, to);
            assert_eq!(ratio.and_then(|ratio| ratio.apply(value)), expected, "{from} to {to}: {value}");
            let wide = ratio.and_then(|ratio| ratio.apply_wide(i256::from_i128(value)));
            if expected.is_some() {
                assert_eq!(wide, expected.map(i256::from_i128));
            }
        };
        let stamp = |unit, zoned| Meaning::Timestamp { unit, zoned };
        check(DataType::Int8, Meaning::Integer { signed: true }, -5, Some(-5));
        check(DataType::Date64, Meaning::Date, -86_400_000, Some(-1));
        check(DataType::Date64, Meaning::Date, 1, None);
        check(DataType::Date32, Meaning::Date, 7, Some(7));
        check(DataType::Date64, stamp(TimeUnit::Microsecond, false), 5, Some(5000));
        check(DataType::Date64, stamp(TimeUnit::Microsecond, true), 5, None);
        check(DataType::Time32(TimeUnit::Second), Meaning::Time(TimeUnit::Millisecond), 3, Some(3000));
        check(DataType::Time64(TimeUnit::Nanosecond), Meaning::Time(TimeUnit::Microsecond), 3000, Some(3));
        check(DataType::Duration(TimeUnit::Second), Meaning::Duration(TimeUnit::Nanosecond), 3, Some(3_000_000_000));
        check(DataType::Duration(TimeUnit::Second), Meaning::Time(TimeUnit::Second), 3, None);
        check(DataType::Timestamp(TimeUnit::Second, Some("UTC".into())), stamp(TimeUnit::Second, true), 1, Some(1));
        check(DataType::Timestamp(TimeUnit::Nanosecond, None), stamp(TimeUnit::Microsecond, false), 5000, Some(5));
        check(DataType::Timestamp(TimeUnit::Nanosecond, None), stamp(TimeUnit::Microsecond, false), 5001, None);
        check(DataType::Timestamp(TimeUnit::Second, None), stamp(TimeUnit::Second, true), 1, None);
        check(DataType::Decimal128(9, 2), Meaning::Decimal { scale: 4 }, 125, Some(12_500));
        check(DataType::Decimal128(9, 2), Meaning::Decimal { scale: 1 }, 125, None);
        check(DataType::Decimal128(9, 2), Meaning::Integer { signed: true }, 500, Some(5));
        check(DataType::Decimal32(9, 2), Meaning::Decimal { scale: 3 }, 125, Some(1250));
        check(DataType::Decimal64(9, 2), Meaning::Integer { signed: false }, 125, None);
        check(DataType::Int32, Meaning::Decimal { scale: 2 }, 5, Some(500));
        check(DataType::Int32, Meaning::Decimal { scale: -2 }, 500, Some(5));
        check(DataType::Decimal128(38, 0), Meaning::Decimal { scale: 30 }, i128::MAX / 10, None);
        check(DataType::Decimal128(38, 0), Meaning::Decimal { scale: 49 }, 0, Some(0));
        check(DataType::Decimal128(38, 0), Meaning::Decimal { scale: 49 }, 1, None);
        check(DataType::Decimal256(76, 49), Meaning::Decimal { scale: 2 }, 0, Some(0));
        check(DataType::Decimal256(76, 70), Meaning::Decimal { scale: -50 }, 0, Some(0));
        check(DataType::Utf8, Meaning::Integer { signed: true }, 1, None);
    }

    #[test]
    fn distant_scales_are_converted_exactly_in_256_bits() {
        let wide = |from, to, value| Ratio::between(&from, Meaning::Decimal { scale: to }).unwrap().apply_wide(value);
        let ten = |exponent| i256::from_i128(10).checked_pow(exponent).unwrap();
        assert_eq!(wide(DataType::Decimal128(1, 0), 49, i256::from_i128(-3)), ten(49).checked_mul(i256::from_i128(-3)));
        assert_eq!(wide(DataType::Int32, 76, i256::from_i128(1)), Some(ten(76)));
        assert_eq!(wide(DataType::Int32, 76, i256::from_i128(100)), None, "more than 256 bits");
        assert_eq!(wide(DataType::Decimal256(76, 49), 0, ten(49)), Some(i256::from_i128(1)));
        assert_eq!(wide(DataType::Decimal256(76, 49), 0, ten(48)), None);
        assert_eq!(wide(DataType::Decimal256(76, 70), -50, ten(70)), None, "a power beyond 256 bits");
    }

    #[test]
    fn int96_is_correct_before_and_after_1970() {
        let check = |nanoseconds: i128, of_day: u64, day: u32| {
            let mut expected = of_day.to_le_bytes().to_vec();
            expected.extend(day.to_le_bytes());
            assert_eq!(to_int96(nanoseconds, false).unwrap().as_slice(), expected);
        };
        check(0, 0, 2_440_588);
        check(-1, 86_399_999_999_999, 2_440_587);
        check(NANOS_OF_DAY + 5, 5, 2_440_589);
        assert_eq!(to_int96(i128::MAX, false), None);
        assert_eq!(to_int96(-NANOS_OF_DAY * 3_000_000, true), None);
        let truncated = |nanoseconds| to_int96(nanoseconds, true).unwrap();
        assert_eq!(truncated(5), to_int96(5, false).unwrap());
        assert_eq!(truncated(-NANOS_OF_DAY), to_int96(-NANOS_OF_DAY, false).unwrap());
        assert_eq!(truncated(-1).as_slice(), [&(-1i64).to_le_bytes()[..], &2_440_588u32.to_le_bytes()].concat());
    }
}
