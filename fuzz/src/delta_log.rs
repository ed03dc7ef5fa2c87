//! Lines of Delta's log and statistics of files. Columns have an entry for each file, and no line is lost.

use arrow_array::{Array, BooleanArray, StringArray};
use parsieve::delta::{Adds, Bound, Statistics};

const BOUNDS: [Option<Bound>; 6] =
    [None, Some(Bound::Bool), Some(Bound::Int64), Some(Bound::Float64), Some(Bound::Utf8), Some(Bound::Decimal)];

/// Reads `data` as a log, and each of its lines as statistics.
pub fn run(data: &[u8]) {
    let (adds, others) = Adds::read(data);
    let columns = adds.finish();
    let num_adds = columns[0].len();
    for column in &columns {
        assert_eq!(column.len(), num_adds);
        column.to_data().validate_full().unwrap();
    }
    assert!(others.is_sorted_by_key(|other| (other.num_adds, other.start)));
    for other in &others {
        assert!(other.num_adds <= num_adds && !data[other.start..other.end].contains(&b'\n'));
        // Only an unusual action is left to the caller.
        let (again, rest) = Adds::read(&data[other.start..other.end]);
        assert!(again.finish()[0].is_empty() && rest.len() == 1);
    }
    let texts: StringArray = String::from_utf8_lossy(data).lines().map(|line| Some(line.to_owned())).collect();
    for bound in BOUNDS {
        let columns = Statistics::read(&texts, &["a".to_owned()], bound).finish();
        let is_read = columns[5].as_any().downcast_ref::<BooleanArray>().unwrap();
        for column in &columns {
            assert_eq!(column.len(), texts.len());
            column.to_data().validate_full().unwrap();
        }
        assert!((0..texts.len()).all(|row| is_read.value(row) || columns[0].is_null(row) && columns[3].is_null(row)));
    }
}

/// Returns a log with typical and with unusual lines.
pub fn seeds() -> Vec<Vec<u8>> {
    let adds = r#"{"add":{"path":"a%20b","partitionValues":{"day":"x","n":null},"size":5,"modificationTime":-7,"dataChange":true,"stats":"{\"numRecords\":2,\"minValues\":{\"a\":1},\"maxValues\":{\"a\":2.5},\"nullCount\":{\"a\":0}}"}}
{"remove":{"path":"a","dataChange":true}}

{"add":{"tags":{"x":[1,{}]},"deletionVector":{"storageType":"u","pathOrInlineDv":"ab^-q","offset":1,"sizeInBytes":36,"cardinality":2},"path":"\u00fc\ud83d\ude00","size":1,"partitionValues":null,"modificationTime":0,"stats":null}}
{"commitInfo":{}}"#;
    let stats = r#"{"numRecords":3,"minValues":{"b":{"c":[]},"a":-12.50},"maxValues":{"a":99},"nullCount":{"a":1},"tightBounds":false}
{"minValues":{"a":"x\ty"},"maxValues":{"a":true},"numRecords":null}
{"maxValues":{"a":1e300},"minValues":{"a":null}}"#;
    [adds, stats].map(|text| text.as_bytes().to_vec()).to_vec()
}
