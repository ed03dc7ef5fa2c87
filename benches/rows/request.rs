//! Requests and answers, one JSON object per line.

use arrow_array::RecordBatch;
use arrow_array::cast::AsArray;
use arrow_array::types::{Int64Type, TimestampMicrosecondType};
use serde_json::{Value, json};

/// Which rows to read.
#[derive(Clone)]
pub(crate) enum Rows {
    /// All rows of the files.
    All,
    /// The rows with the given numbers in each file, in ascending order.
    Exact,
    /// The rows for which a predicate is true. The files are known, but not the rows.
    Filtered(Predicate),
}

/// One of the three kinds of questions.
#[derive(Clone)]
pub(crate) enum Predicate {
    /// The request has this id.
    Request(String),
    /// The request was made by this user.
    User(i64),
    /// The request has a time in microseconds, from the first, and before the second.
    Time(i64, i64),
}

impl Predicate {
    /// Returns the name of the only column that the predicate reads.
    pub(crate) fn column(&self) -> &'static str {
        match self {
            Self::Request(_) => "request",
            Self::User(_) => "user",
            Self::Time(..) => "ts",
        }
    }
}

/// A file, and the numbers of the rows to read.
pub(crate) struct KnownFile {
    pub(crate) path: String,
    pub(crate) rows: Vec<usize>,
}

/// A request: rows of files.
///
/// `{"files": [{"path": "...", "rows": [7]}], "rows": "exact", "threads": 1, "footers": "held"}`
pub(crate) struct Request {
    pub(crate) files: Vec<KnownFile>,
    pub(crate) rows: Rows,
    pub(crate) threads: usize,
    /// Whether the footers and page indexes are in memory when the clock starts.
    pub(crate) footers_are_held: bool,
}

impl Request {
    pub(crate) fn parse(line: &str) -> Self {
        let value: Value = serde_json::from_str(line).expect("a request is a JSON object");
        let rows = match &value["rows"] {
            Value::String(name) if name == "all" => Rows::All,
            Value::String(name) if name == "exact" => Rows::Exact,
            predicate => Rows::Filtered(parse_predicate(predicate)),
        };
        let files = value["files"].as_array().expect("`files` is a list");
        Self {
            files: files.iter().map(parse_file).collect(),
            rows,
            threads: value["threads"].as_u64().map_or(1, |threads| usize::try_from(threads).expect("a small number")),
            footers_are_held: value["footers"] == "held",
        }
    }
}

fn parse_file(value: &Value) -> KnownFile {
    let number = |row: &Value| usize::try_from(row.as_u64().expect("a row is a number")).expect("64 bits");
    KnownFile {
        path: value["path"].as_str().expect("`path` is text").to_owned(),
        rows: value["rows"].as_array().map_or(vec![], |rows| rows.iter().map(number).collect()),
    }
}

fn parse_predicate(value: &Value) -> Predicate {
    let integer = |value: &Value| value.as_i64().expect("a bound is an integer");
    match (&value["request"], &value["user"], &value["ts"]) {
        (Value::String(id), _, _) => Predicate::Request(id.clone()),
        (_, Value::Number(_), _) => Predicate::User(integer(&value["user"])),
        (_, _, Value::Array(bounds)) => Predicate::Time(integer(&bounds[0]), integer(&bounds[1])),
        _ => panic!("`rows` is \"all\", \"exact\" or a predicate, not {value}"),
    }
}

/// The time of a request, and sums that identify its rows, to compare them with the rows of other contenders.
pub(crate) struct Answer {
    seconds: f64,
    rows: usize,
    /// The bytes of the rows in memory.
    bytes: usize,
    /// The sum of the first 16 digits of each request id, of each user, and of each time, all modulo 2⁶⁴.
    sums: [u64; 3],
}

impl Answer {
    pub(crate) fn new(seconds: f64, batches: &[RecordBatch]) -> Self {
        let mut answer = Self { seconds, rows: 0, bytes: 0, sums: [0; 3] };
        for batch in batches {
            answer.add(batch);
        }
        answer
    }

    fn add(&mut self, batch: &RecordBatch) {
        self.rows += batch.num_rows();
        self.bytes += batch.get_array_memory_size();
        let column = |name| batch.column_by_name(name).expect("the lake has the column");
        let [requests, users, times] = &mut self.sums;
        for id in column("request").as_string::<i32>().iter().flatten() {
            *requests = requests.wrapping_add(u64::from_str_radix(&id[..16], 16).expect("an id has 32 hex digits"));
        }
        for &user in column("user").as_primitive::<Int64Type>().values() {
            *users = users.wrapping_add(user.cast_unsigned());
        }
        for &time in column("ts").as_primitive::<TimestampMicrosecondType>().values() {
            *times = times.wrapping_add(time.cast_unsigned());
        }
    }

    pub(crate) fn to_json(&self) -> Value {
        json!({ "seconds": self.seconds, "rows": self.rows, "bytes": self.bytes, "sums": self.sums })
    }
}
