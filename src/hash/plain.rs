//! Converts the values of a leaf to the bytes of Parquet's plain encoding, without a copy if the layouts agree.

use super::exact::{Ratio, to_32, to_64, to_fixed, to_half, to_int96, to_shortest};
use super::form::Form;
use super::slots::{As32, As64, AsBytes, Converted, ShortBytes, Slots, StringAt, Strings, Words32, Words64};
use crate::arrow::{ColumnType, Meaning, PhysicalType};
use crate::error::{Error, ErrorKind, Result};
use arrow_array::cast::AsArray;
use arrow_array::types::{ArrowPrimitiveType, ByteArrayType, ByteViewType, Float16Type};
use arrow_array::types::{BinaryType, BinaryViewType, LargeBinaryType, LargeUtf8Type, StringViewType, Utf8Type};
use arrow_array::{Array, FixedSizeBinaryArray, GenericByteArray, GenericByteViewArray};
use arrow_buffer::{ArrowNativeType, NullBuffer, ScalarBuffer, i256};
use arrow_schema::DataType;

type Half = <Float16Type as ArrowPrimitiveType>::Native;

/// Returns the slots of a flat array as values of a column of type `to`. `nulls` marks null slots, including those with
/// a null parent.
pub(super) fn slots(
    array: &dyn Array,
    nulls: Option<&NullBuffer>,
    to: ColumnType,
    form: Form,
) -> Result<Box<dyn Slots>> {
    use DataType as A;
    let values = Values { array, nulls, to, form };
    match array.data_type() {
        // One arm per layout of an array. See `arrow/types.rs` for the table of types.
        A::Int8 => values.integers::<i8>(),
        A::Int16 => values.integers::<i16>(),
        A::Int32 | A::Date32 | A::Time32(_) | A::Decimal32(_, _) => values.integers::<i32>(),
        A::Int64 | A::Date64 | A::Time64(_) | A::Timestamp(_, _) | A::Duration(_) | A::Decimal64(_, _) => {
            values.integers::<i64>()
        }
        A::UInt8 => values.integers::<u8>(),
        A::UInt16 => values.integers::<u16>(),
        A::UInt32 => values.integers::<u32>(),
        A::UInt64 => values.integers::<u64>(),
        A::Decimal128(_, _) => values.integers::<i128>(),
        A::Decimal256(_, _) => values.wide_integers(),
        A::Float16 => values.reals::<Half>(Half::to_f64),
        A::Float32 => values.reals::<f32>(f64::from),
        A::Float64 => values.reals::<f64>(|value| value),
        A::Utf8 => values.strings(array.as_bytes::<Utf8Type>().clone()),
        A::LargeUtf8 => values.strings(array.as_bytes::<LargeUtf8Type>().clone()),
        A::Binary => values.strings(array.as_bytes::<BinaryType>().clone()),
        A::LargeBinary => values.strings(array.as_bytes::<LargeBinaryType>().clone()),
        A::Utf8View => values.strings(array.as_byte_view::<StringViewType>().clone()),
        A::BinaryView => values.strings(array.as_byte_view::<BinaryViewType>().clone()),
        A::FixedSizeBinary(width) => match to.physical {
            PhysicalType::FixedLenByteArray(stored) if stored != width.cast_unsigned() => Err(values.no_form()),
            _ => values.strings(array.as_fixed_size_binary().clone()),
        },
        _ => Err(values.no_form()),
    }
}

struct Values<'a> {
    array: &'a dyn Array,
    nulls: Option<&'a NullBuffer>,
    to: ColumnType,
    form: Form,
}

impl Values<'_> {
    /// Converts integers, ticks and unscaled decimals of up to 128 bits.
    fn integers<N: ArrowNativeType + Into<i128>>(&self) -> Result<Box<dyn Slots>> {
        let ratio = Ratio::between(self.array.data_type(), self.to.meaning).ok_or_else(|| self.no_form())?;
        let signed = self.to.meaning != Meaning::Integer { signed: false };
        let unchanged = ratio == Ratio::ONE && signed != is_unsigned(self.array.data_type());
        let exact = move |value: N| ratio.apply(value.into());
        // Rescaling may exceed 128 bits, but byte strings can hold the result.
        let wide = move |value: N| {
            exact(value).map(i256::from_i128).or_else(|| ratio.apply_wide(i256::from_i128(value.into())))
        };
        let (truncated, min_bytes) = (self.form.is_truncated(), self.form.min_bytes());
        Ok(match self.to.physical {
            PhysicalType::Int32 if unchanged && size_of::<N>() == 4 => Box::new(Words32(self.raw())),
            PhysicalType::Int64 if unchanged && size_of::<N>() == 8 => Box::new(Words64(self.raw())),
            PhysicalType::Int32 => self.as_32(move |value: N| to_32(exact(value)?, signed)),
            PhysicalType::Int64 => self.as_64(move |value: N| to_64(exact(value)?, signed)),
            PhysicalType::Int96 => self.as_bytes(move |value: N| to_int96(exact(value)?, truncated)),
            PhysicalType::ByteArray => self.as_bytes(move |value: N| Some(to_shortest(wide(value)?, min_bytes))),
            PhysicalType::FixedLenByteArray(width) => {
                let width = self.width(width)?;
                self.as_bytes(move |value: N| to_fixed(wide(value)?, width))
            }
            PhysicalType::Float | PhysicalType::Double => return Err(self.no_form()),
        })
    }

    /// Converts decimals of 256 bits.
    fn wide_integers(&self) -> Result<Box<dyn Slots>> {
        let ratio = Ratio::between(self.array.data_type(), self.to.meaning).ok_or_else(|| self.no_form())?;
        let signed = self.to.meaning != Meaning::Integer { signed: false };
        let narrow = move |value: i256| ratio.apply_wide(value)?.to_i128();
        let min_bytes = self.form.min_bytes();
        Ok(match self.to.physical {
            PhysicalType::Int32 => self.as_32(move |value| to_32(narrow(value)?, signed)),
            PhysicalType::Int64 => self.as_64(move |value| to_64(narrow(value)?, signed)),
            PhysicalType::ByteArray => {
                self.as_bytes(move |value| Some(to_shortest(ratio.apply_wide(value)?, min_bytes)))
            }
            PhysicalType::FixedLenByteArray(width) => {
                let width = self.width(width)?;
                self.as_bytes(move |value| to_fixed(ratio.apply_wide(value)?, width))
            }
            _ => return Err(self.no_form()),
        })
    }

    /// Converts IEEE 754 numbers of any width. A NaN may change its payload, because probes never exclude NaN.
    fn reals<N: ArrowNativeType>(
        &self,
        widen: impl Fn(N) -> f64 + Send + Sync + Copy + 'static,
    ) -> Result<Box<dyn Slots>> {
        if self.to.meaning != Meaning::Real {
            return Err(self.no_form());
        }
        Ok(match self.to.physical {
            PhysicalType::Float if size_of::<N>() == 4 => Box::new(Words32(self.raw())),
            PhysicalType::Double if size_of::<N>() == 8 => Box::new(Words64(self.raw())),
            PhysicalType::FixedLenByteArray(2) if size_of::<N>() == 2 => {
                let raw = Converted { values: self.raw::<u16>(), ..self.converted(|bits| Some(to_half(bits))) };
                Box::new(AsBytes(raw))
            }
            PhysicalType::Double => self.as_64(move |value| Some(widen(value).to_bits())),
            PhysicalType::Float => self.as_32(move |value| {
                let (wide, narrow) = (widen(value), widen(value) as f32);
                (f64::from(narrow) == wide || wide.is_nan()).then(|| narrow.to_bits())
            }),
            PhysicalType::FixedLenByteArray(2) => self.as_bytes(move |value| {
                let (wide, narrow) = (widen(value), Half::from_f64(widen(value)));
                (narrow.to_f64() == wide || wide.is_nan()).then(|| to_half(narrow.to_bits()))
            }),
            _ => return Err(self.no_form()),
        })
    }

    /// Converts byte strings of any layout.
    fn strings<S: ByteStrings + 'static>(&self, strings: S) -> Result<Box<dyn Slots>> {
        if self.to.meaning != Meaning::Bytes {
            return Err(self.no_form());
        }
        let width = match self.to.physical {
            PhysicalType::ByteArray => None,
            PhysicalType::FixedLenByteArray(width) => Some(width as usize),
            PhysicalType::Int96 => Some(12),
            _ => return Err(self.no_form()),
        };
        Ok(Box::new(Strings(StringSlots { strings, nulls: self.nulls.cloned(), width, refuse: self.refuse() })))
    }

    fn as_32<N: ArrowNativeType>(&self, convert: impl Fn(N) -> Option<u32> + Send + Sync + 'static) -> Box<dyn Slots> {
        Box::new(As32(self.converted(convert)))
    }

    fn as_64<N: ArrowNativeType>(&self, convert: impl Fn(N) -> Option<u64> + Send + Sync + 'static) -> Box<dyn Slots> {
        Box::new(As64(self.converted(convert)))
    }

    fn as_bytes<N: ArrowNativeType>(
        &self,
        convert: impl Fn(N) -> Option<ShortBytes> + Send + Sync + 'static,
    ) -> Box<dyn Slots> {
        Box::new(AsBytes(self.converted(convert)))
    }

    fn converted<N: ArrowNativeType, F>(&self, convert: F) -> Converted<N, F, impl Fn(usize) -> Error + use<N, F>> {
        Converted { values: self.raw(), nulls: self.nulls.cloned(), convert, refuse: self.refuse() }
    }

    /// Returns the array's numbers as `N`. Dates, ticks and decimals are stored as integers of the same width.
    fn raw<N: ArrowNativeType>(&self) -> ScalarBuffer<N> {
        let data = self.array.to_data();
        ScalarBuffer::new(data.buffers()[0].clone(), data.offset(), data.len())
    }

    fn width(&self, width: u32) -> Result<usize> {
        Some(width as usize).filter(|width| *width <= ShortBytes::MAX).ok_or_else(|| self.no_form())
    }

    fn refuse(&self) -> impl Fn(usize) -> Error + use<> {
        let (arrow, target) = (self.array.data_type().clone(), self.to);
        move |slot| {
            let kind = ErrorKind::NotExact { arrow: arrow.to_string(), target: target.to_string() };
            Error::at(kind, slot as u64)
        }
    }

    fn no_form(&self) -> Error {
        let (arrow, target) = (self.array.data_type().to_string(), self.to.to_string());
        Error::new(ErrorKind::NoPhysicalForm { arrow, target })
    }
}

fn is_unsigned(arrow: &DataType) -> bool {
    arrow.is_unsigned_integer()
}

/// An array of byte strings of some layout.
trait ByteStrings: Send + Sync {
    /// Returns the string of a slot. The slot must be in range and not null.
    fn string(&self, slot: usize) -> &[u8];
}

impl<T: ByteArrayType> ByteStrings for GenericByteArray<T> {
    #[inline(always)]
    fn string(&self, slot: usize) -> &[u8] {
        self.value(slot).as_ref()
    }
}

impl<T: ByteViewType> ByteStrings for GenericByteViewArray<T> {
    #[inline(always)]
    fn string(&self, slot: usize) -> &[u8] {
        self.value(slot).as_ref()
    }
}

impl ByteStrings for FixedSizeBinaryArray {
    #[inline(always)]
    fn string(&self, slot: usize) -> &[u8] {
        self.value(slot)
    }
}

struct StringSlots<S, E> {
    strings: S,
    nulls: Option<NullBuffer>,
    /// The length that the column requires, if it is fixed.
    width: Option<usize>,
    refuse: E,
}

impl<'a, S: ByteStrings, E: Fn(usize) -> Error + Send + Sync> StringAt<'a> for StringSlots<S, E> {
    fn fill(&'a self, start: usize, strings: &mut [&'a [u8]]) -> Result<()> {
        match &self.nulls {
            None => {
                for (slot, string) in (start..).zip(strings.iter_mut()) {
                    *string = self.strings.string(slot);
                }
            }
            // Producers may leave arbitrary views and offsets in null slots.
            Some(nulls) => {
                for (slot, string) in (start..).zip(strings.iter_mut()) {
                    *string = if nulls.is_valid(slot) { self.strings.string(slot) } else { &[] };
                }
            }
        }
        let Some(width) = self.width else { return Ok(()) };
        let fits =
            |slot, string: &[u8]| string.len() == width || self.nulls.as_ref().is_some_and(|nulls| nulls.is_null(slot));
        match (start..).zip(strings.iter()).find(|(slot, string)| !fits(*slot, string)) {
            Some((slot, _)) => Err((self.refuse)(slot)),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::new_empty_array;
    use arrow_schema::{IntervalUnit, TimeUnit};

    #[test]
    fn every_supported_arrow_type_has_slots() {
        use TimeUnit::{Microsecond, Millisecond, Nanosecond, Second};
        let mut types = vec![DataType::Int8, DataType::Int16, DataType::Int32, DataType::Int64, DataType::Date32];
        types.extend([DataType::UInt8, DataType::UInt16, DataType::UInt32, DataType::UInt64, DataType::Date64]);
        types.extend([DataType::Float16, DataType::Float32, DataType::Float64]);
        types.extend([Second, Millisecond].map(DataType::Time32));
        types.extend([Microsecond, Nanosecond].map(DataType::Time64));
        for unit in [Second, Millisecond, Microsecond, Nanosecond] {
            types.extend([DataType::Duration(unit), DataType::Timestamp(unit, None)]);
            types.push(DataType::Timestamp(unit, Some("UTC".into())));
        }
        types.extend([DataType::Decimal32(9, 2), DataType::Decimal64(18, 2), DataType::Decimal128(38, 2)]);
        types.push(DataType::Decimal256(76, 2));
        types.extend([DataType::Utf8, DataType::LargeUtf8, DataType::Utf8View, DataType::FixedSizeBinary(3)]);
        types.extend([DataType::Binary, DataType::LargeBinary, DataType::BinaryView]);
        for arrow in types {
            let column = ColumnType::of(&arrow).unwrap();
            assert!(slots(&new_empty_array(&arrow), None, column, Form::Usual).is_ok(), "{arrow} as {column}");
        }
        let refused = new_empty_array(&DataType::Interval(IntervalUnit::MonthDayNano));
        let integers = ColumnType::of(&DataType::Int32).unwrap();
        assert!(slots(&refused, None, integers, Form::Usual).is_err());
    }
}
