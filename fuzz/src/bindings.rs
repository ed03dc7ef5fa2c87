//! The bindings of an index. Either reading fails, or the columns have a row for each group of the document.

use arrow_array::Array;
use parsieve::json::{Bindings, Scanner};

/// Reads `data` as a document, with and without numbers.
pub fn run(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    for has_numbers in [false, true] {
        let Some((bindings, place)) = Bindings::read(&text, has_numbers) else { continue };
        let columns = bindings.finish();
        let num_rows = columns[0].len();
        let numbers = if has_numbers { num_rows } else { 0 };
        assert_eq!(columns.each_ref().map(|column| column.len()), [num_rows, num_rows, num_rows, numbers]);
        for column in &columns {
            assert_eq!(column.null_count(), 0);
            column.to_data().validate_full().unwrap();
        }
        assert_eq!(count_groups(text[place].trim()), Some(num_rows));
    }
}

/// Counts the groups of all partitions.
fn count_groups(partitions: &str) -> Option<usize> {
    let (mut count, mut input) = (0, Scanner::new(partitions));
    input.array(|input| {
        input.object(|input, key| match key.plain()? {
            "groups" => input.array(|input| {
                count += 1;
                input.skip()
            }),
            _ => input.skip(),
        })
    })?;
    input.is_at_end().then_some(count)
}

/// Returns documents with and without numbers.
pub fn seeds() -> Vec<Vec<u8>> {
    let numbered = r#"{"bound":[{"groups":[["a","t1",0],["b\"\u00fc","",7]],"partition":"x=1"},
        {"partition":"","groups":[]}],"full":true,"gone":[["x",1.5]],"next_id":9}"#;
    let plain = r#"{"instant":-5,"bound":[{"partition":"day=\ud83d\ude00","groups":[["a.parquet","12-x"],["b",""]]}]}"#;
    [numbered, plain].map(|text| text.as_bytes().to_vec()).to_vec()
}
