//! The files that the commits of a log add.

use std::sync::Arc;

use arrow_array::builder::{Int64Builder, MapBuilder, MapFieldNames, StringBuilder};
use arrow_array::{ArrayRef, StructArray};
use arrow_buffer::NullBuffer;
use arrow_schema::{DataType, Field, Fields};

use crate::json::{Scalar, Scanner, Text};

/// The most partition values of a file.
const MAX_VALUES: usize = 64;

/// Columns with an entry for each `add` action that was read.
#[derive(Debug)]
pub struct Adds {
    path: StringBuilder,
    partition_values: MapBuilder<StringBuilder, StringBuilder>,
    size: Int64Builder,
    modified: Int64Builder,
    stats: StringBuilder,
    vector: Vectors,
}

/// A line with another action, or with an `add` action that was not read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Other {
    /// The number of files in front of the line.
    pub num_adds: usize,
    /// The position of its first byte.
    pub start: usize,
    /// The position after its last byte.
    pub end: usize,
}

impl Adds {
    /// Reads the lines of commits. Returns the files and the other lines.
    pub fn read(log: &[u8]) -> (Self, Vec<Other>) {
        let names = MapFieldNames { entry: "entries".to_owned(), key: "key".to_owned(), value: "value".to_owned() };
        let mut adds = Self {
            path: StringBuilder::new(),
            partition_values: MapBuilder::new(Some(names), StringBuilder::new(), StringBuilder::new()),
            size: Int64Builder::new(),
            modified: Int64Builder::new(),
            stats: StringBuilder::new(),
            vector: Vectors::default(),
        };
        // Strings never get longer, so the offsets of their columns fit if the log's do.
        let fits = i32::try_from(log.len()).is_ok();
        let (mut others, mut buffer) = (Vec::new(), String::new());
        let (mut start, mut num_adds) = (0, 0);
        for line in log.split(|&byte| byte == b'\n' || byte == b'\r') {
            let end = start + line.len();
            let add = std::str::from_utf8(line).ok().filter(|_| fits).and_then(Add::read);
            if add.is_some_and(|add| adds.append(add, &mut buffer).is_some()) {
                num_adds += 1;
            } else if !line.iter().all(|&byte| byte == b' ' || (b'\t'..=b'\r').contains(&byte)) {
                others.push(Other { num_adds, start, end });
            }
            start = end + 1;
        }
        (adds, others)
    }

    fn append(&mut self, add: Add<'_>, buffer: &mut String) -> Option<()> {
        for (name, value) in add.partition_values {
            self.partition_values.keys().append_value(name.decode(buffer));
            append(self.partition_values.values(), value, buffer);
        }
        // Fails only if there are more keys than values.
        self.partition_values.append(true).ok()?;
        self.path.append_value(add.path.decode(buffer));
        self.size.append_value(add.size);
        self.modified.append_value(add.modified);
        append(&mut self.stats, add.stats, buffer);
        self.vector.append(add.vector, buffer);
        Some(())
    }

    /// Returns the paths, partition values, sizes, times, statistics and deletion vectors.
    pub fn finish(mut self) -> [ArrayRef; 6] {
        [
            Arc::new(self.path.finish()),
            Arc::new(self.partition_values.finish()),
            Arc::new(self.size.finish()),
            Arc::new(self.modified.finish()),
            Arc::new(self.stats.finish()),
            Arc::new(self.vector.finish()),
        ]
    }
}

fn append(column: &mut StringBuilder, text: Option<Text<'_>>, buffer: &mut String) {
    match text {
        Some(text) => column.append_value(text.decode(buffer)),
        None => column.append_null(),
    }
}

/// An `add` action.
#[derive(Debug)]
struct Add<'a> {
    path: Text<'a>,
    partition_values: Vec<(Text<'a>, Option<Text<'a>>)>,
    size: i64,
    modified: i64,
    stats: Option<Text<'a>>,
    vector: Option<Vector<'a>>,
}

impl<'a> Add<'a> {
    /// Reads a line that consists of one `add` action. Refuses other lines, and members of a type that Delta's protocol
    /// does not allow.
    fn read(line: &'a str) -> Option<Self> {
        let (mut input, mut add) = (Scanner::new(line), None);
        input.object(|input, key| {
            if add.is_some() || key.plain()? != "add" {
                return None;
            }
            add = Some(Self::members(input)?);
            Some(())
        })?;
        if input.is_at_end() { add } else { None }
    }

    fn members(input: &mut Scanner<'a>) -> Option<Self> {
        let (mut path, mut partition_values, mut size, mut modified) = (None, None, None, None);
        let (mut stats, mut vector) = (None, None);
        input.object(|input, key| match key.plain()? {
            "path" => once(&mut path, text(input)??),
            "partitionValues" => once(&mut partition_values, values(input)?),
            "size" => once(&mut size, integer(input)??),
            "modificationTime" => once(&mut modified, integer(input)??),
            "stats" => once(&mut stats, text(input)?),
            "deletionVector" => once(&mut vector, Vector::read(input)?),
            _ => input.skip(),
        })?;
        Some(Self {
            path: path?,
            partition_values: partition_values?,
            size: size?,
            modified: modified?,
            stats: stats.flatten(),
            vector: vector.flatten(),
        })
    }
}

/// Stores the value of a member. Refuses a second value, because parsers disagree on which counts.
fn once<T>(member: &mut Option<T>, value: T) -> Option<()> {
    member.replace(value).is_none().then_some(())
}

/// Reads a string, or `Some(None)` for null.
fn text<'a>(input: &mut Scanner<'a>) -> Option<Option<Text<'a>>> {
    match input.scalar()? {
        Scalar::Null => Some(None),
        Scalar::Text(text) => Some(Some(text)),
        _ => None,
    }
}

/// Reads an integer, or `Some(None)` for null.
fn integer(input: &mut Scanner<'_>) -> Option<Option<i64>> {
    match input.scalar()? {
        Scalar::Null => Some(None),
        Scalar::Number(number) if number.is_integer => number.text.parse().ok().map(Some),
        _ => None,
    }
}

fn values<'a>(input: &mut Scanner<'a>) -> Option<Vec<(Text<'a>, Option<Text<'a>>)>> {
    let mut values: Vec<(Text<'a>, Option<Text<'a>>)> = Vec::new();
    if input.null() {
        return Some(values);
    }
    input.object(|input, name| {
        let plain = name.plain()?;
        if values.len() == MAX_VALUES || values.iter().any(|(other, _)| other.plain() == Some(plain)) {
            return None;
        }
        values.push((name, text(input)?));
        Some(())
    })?;
    Some(values)
}

/// A deletion vector.
#[derive(Debug)]
struct Vector<'a> {
    kind: Text<'a>,
    place: Text<'a>,
    offset: Option<i64>,
    size: Option<i64>,
    cardinality: Option<i64>,
}

impl<'a> Vector<'a> {
    /// Reads a deletion vector, or `Some(None)` for null.
    fn read(input: &mut Scanner<'a>) -> Option<Option<Self>> {
        if input.null() {
            return Some(None);
        }
        let (mut kind, mut place, mut offset, mut size, mut cardinality) = (None, None, None, None, None);
        input.object(|input, key| match key.plain()? {
            "storageType" => once(&mut kind, text(input)??),
            "pathOrInlineDv" => once(&mut place, text(input)??),
            "offset" => once(&mut offset, integer(input)?),
            "sizeInBytes" => once(&mut size, integer(input)?),
            "cardinality" => once(&mut cardinality, integer(input)?),
            _ => input.skip(),
        })?;
        let (offset, size, cardinality) = (offset.flatten(), size.flatten(), cardinality.flatten());
        Some(Some(Self { kind: kind?, place: place?, offset, size, cardinality }))
    }
}

/// A column of deletion vectors.
#[derive(Debug, Default)]
struct Vectors {
    kind: StringBuilder,
    place: StringBuilder,
    offset: Int64Builder,
    size: Int64Builder,
    cardinality: Int64Builder,
    is_valid: Vec<bool>,
}

impl Vectors {
    fn append(&mut self, vector: Option<Vector<'_>>, buffer: &mut String) {
        self.is_valid.push(vector.is_some());
        append(&mut self.kind, vector.as_ref().map(|vector| vector.kind), buffer);
        append(&mut self.place, vector.as_ref().map(|vector| vector.place), buffer);
        self.offset.append_option(vector.as_ref().and_then(|vector| vector.offset));
        self.size.append_option(vector.as_ref().and_then(|vector| vector.size));
        self.cardinality.append_option(vector.as_ref().and_then(|vector| vector.cardinality));
    }

    fn finish(&mut self) -> StructArray {
        let field = |name, kind| Field::new(name, kind, true);
        let fields = Fields::from(vec![
            field("storageType", DataType::Utf8),
            field("pathOrInlineDv", DataType::Utf8),
            field("offset", DataType::Int64),
            field("sizeInBytes", DataType::Int64),
            field("cardinality", DataType::Int64),
        ]);
        let columns: Vec<ArrayRef> = vec![
            Arc::new(self.kind.finish()),
            Arc::new(self.place.finish()),
            Arc::new(self.offset.finish()),
            Arc::new(self.size.finish()),
            Arc::new(self.cardinality.finish()),
        ];
        StructArray::new(fields, columns, Some(NullBuffer::from(std::mem::take(&mut self.is_valid))))
    }
}
