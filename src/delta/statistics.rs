//! The statistics of one column in many files.

use std::sync::Arc;

use arrow_array::builder::{BooleanBuilder, Float64Builder, Int64Builder, StringBuilder};
use arrow_array::{Array, ArrayRef, StringArray};

use crate::json::{Number, Scalar, Scanner};

/// The most digits of a number that is read as text, on each side of its point.
const MAX_DIGITS: usize = 38;

/// How the minima and maxima of a column are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bound {
    /// `true` and `false`.
    Bool,
    /// Integers of 64 bits.
    Int64,
    /// Numbers that are finite as doubles.
    Float64,
    /// Strings.
    Utf8,
    /// Numbers without an exponent, which become strings.
    Decimal,
}

/// The statistics of one column, with an entry for each file.
#[derive(Debug)]
pub struct Statistics {
    rows: Int64Builder,
    tight: BooleanBuilder,
    nulls: Int64Builder,
    lower: Column,
    upper: Column,
    is_read: BooleanBuilder,
}

/// The statistics of one file.
#[derive(Debug, Default)]
struct Entry<'a> {
    rows: Option<i64>,
    tight: Option<bool>,
    nulls: Option<i64>,
    lower: Option<Value<'a>>,
    upper: Option<Value<'a>>,
}

impl Statistics {
    /// Reads the statistics of a column, which `names` leads to. Without a `bound`, reads only the numbers of rows.
    ///
    /// All columns are null for files whose statistics are not read.
    pub fn read(texts: &StringArray, names: &[String], bound: Option<Bound>) -> Self {
        let count = texts.len();
        let column = || Column::new(bound.unwrap_or(Bound::Int64), count);
        let mut statistics = Self {
            rows: Int64Builder::with_capacity(count),
            tight: BooleanBuilder::with_capacity(count),
            nulls: Int64Builder::with_capacity(count),
            lower: column(),
            upper: column(),
            is_read: BooleanBuilder::with_capacity(count),
        };
        let mut buffer = String::new();
        for text in texts {
            // A file without statistics has an empty text or none.
            let entry = match text {
                None | Some("") => Some(Entry::default()),
                Some(text) => Entry::read(text, names, bound),
            };
            statistics.is_read.append_value(entry.is_some());
            let entry = entry.unwrap_or_default();
            statistics.rows.append_option(entry.rows);
            statistics.tight.append_option(entry.tight);
            statistics.nulls.append_option(entry.nulls);
            statistics.lower.append(entry.lower, &mut buffer);
            statistics.upper.append(entry.upper, &mut buffer);
        }
        statistics
    }

    /// Returns the numbers of rows, whether the bounds are tight, the numbers of nulls, the minima, the maxima, and
    /// whether the statistics of each file were read.
    pub fn finish(mut self) -> [ArrayRef; 6] {
        [
            Arc::new(self.rows.finish()),
            Arc::new(self.tight.finish()),
            Arc::new(self.nulls.finish()),
            self.lower.finish(),
            self.upper.finish(),
            Arc::new(self.is_read.finish()),
        ]
    }
}

impl<'a> Entry<'a> {
    fn read(text: &'a str, names: &[String], bound: Option<Bound>) -> Option<Self> {
        let mut entry = Self::default();
        let mut seen = [false; 5];
        let mut input = Scanner::new(text);
        input.object(|input, key| {
            let member = match key.plain()? {
                "numRecords" => 0,
                "tightBounds" => 1,
                "nullCount" if bound.is_some() => 2,
                "minValues" if bound.is_some() => 3,
                "maxValues" if bound.is_some() => 4,
                _ => return input.skip(),
            };
            // Parsers disagree on which of two members counts.
            if std::mem::replace(&mut seen[member], true) {
                return None;
            }
            match (member, bound) {
                (0, _) => entry.rows = integer(input.scalar()?)?,
                (1, _) => entry.tight = boolean(input.scalar()?)?,
                (2, _) => entry.nulls = integer(find(input, names)?)?,
                (3, Some(bound)) => entry.lower = Value::of(find(input, names)?, bound)?,
                (_, Some(bound)) => entry.upper = Value::of(find(input, names)?, bound)?,
                (_, None) => {}
            }
            Some(())
        })?;
        input.is_at_end().then_some(entry)
    }
}

/// Reads a value, and returns the value inside it that `names` leads to.
fn find<'a>(input: &mut Scanner<'a>, names: &[String]) -> Option<Scalar<'a>> {
    let Some((name, names)) = names.split_first() else { return input.scalar() };
    if input.null() {
        return Some(Scalar::Null);
    }
    let mut found = None;
    input.object(|input, key| {
        if key.plain()? != name {
            return input.skip();
        }
        if found.is_some() {
            return None;
        }
        found = Some(find(input, names)?);
        Some(())
    })?;
    Some(found.unwrap_or(Scalar::Null))
}

/// Returns an integer, or `Some(None)` for null. Refuses other values.
fn integer(value: Scalar<'_>) -> Option<Option<i64>> {
    match value {
        Scalar::Null => Some(None),
        Scalar::Number(number) if number.is_integer => number.text.parse().ok().map(Some),
        _ => None,
    }
}

/// Returns a truth value, or `Some(None)` for null. Refuses other values.
fn boolean(value: Scalar<'_>) -> Option<Option<bool>> {
    match value {
        Scalar::Null => Some(None),
        Scalar::Bool(value) => Some(Some(value)),
        _ => None,
    }
}

/// A minimum or maximum.
#[derive(Debug)]
enum Value<'a> {
    Bool(bool),
    Int64(i64),
    Float64(f64),
    Utf8(crate::json::Text<'a>),
    Decimal(&'a str),
}

impl<'a> Value<'a> {
    /// Returns the value, or `Some(None)` for null. Refuses values of another kind.
    fn of(value: Scalar<'a>, bound: Bound) -> Option<Option<Self>> {
        let value = match (bound, value) {
            (_, Scalar::Null) => return Some(None),
            (Bound::Bool, Scalar::Bool(value)) => Self::Bool(value),
            (Bound::Int64, value) => Self::Int64(integer(value)??),
            (Bound::Float64, Scalar::Number(number)) => {
                Self::Float64(number.text.parse().ok().filter(|number: &f64| number.is_finite())?)
            }
            (Bound::Utf8, Scalar::Text(text)) => Self::Utf8(text),
            (Bound::Decimal, Scalar::Number(number)) => Self::Decimal(decimal(number)?),
            _ => return None,
        };
        Some(Some(value))
    }
}

fn decimal(number: Number<'_>) -> Option<&str> {
    let (whole, fraction) = number.text.split_once('.').unwrap_or((number.text, ""));
    let is_short = whole.trim_start_matches('-').len() <= MAX_DIGITS && fraction.len() <= MAX_DIGITS;
    (is_short && !number.text.contains(['e', 'E'])).then_some(number.text)
}

/// A column of minima or maxima.
#[derive(Debug)]
enum Column {
    Bool(BooleanBuilder),
    Int64(Int64Builder),
    Float64(Float64Builder),
    /// For strings and decimals. They are shorter than the texts that they come from, so their offsets fit.
    Utf8(StringBuilder),
}

impl Column {
    fn new(bound: Bound, count: usize) -> Self {
        match bound {
            Bound::Bool => Self::Bool(BooleanBuilder::with_capacity(count)),
            Bound::Int64 => Self::Int64(Int64Builder::with_capacity(count)),
            Bound::Float64 => Self::Float64(Float64Builder::with_capacity(count)),
            Bound::Utf8 | Bound::Decimal => Self::Utf8(StringBuilder::with_capacity(count, 0)),
        }
    }

    /// Appends a value. Values of another kind than the column's do not occur.
    fn append(&mut self, value: Option<Value<'_>>, buffer: &mut String) {
        match (self, value) {
            (Self::Bool(column), Some(Value::Bool(value))) => column.append_value(value),
            (Self::Int64(column), Some(Value::Int64(value))) => column.append_value(value),
            (Self::Float64(column), Some(Value::Float64(value))) => column.append_value(value),
            (Self::Utf8(column), Some(Value::Utf8(text))) => column.append_value(text.decode(buffer)),
            (Self::Utf8(column), Some(Value::Decimal(digits))) => column.append_value(digits),
            (Self::Bool(column), _) => column.append_null(),
            (Self::Int64(column), _) => column.append_null(),
            (Self::Float64(column), _) => column.append_null(),
            (Self::Utf8(column), _) => column.append_null(),
        }
    }

    fn finish(&mut self) -> ArrayRef {
        match self {
            Self::Bool(column) => Arc::new(column.finish()),
            Self::Int64(column) => Arc::new(column.finish()),
            Self::Float64(column) => Arc::new(column.finish()),
            Self::Utf8(column) => Arc::new(column.finish()),
        }
    }
}
