//! The bindings of an index: the token of each slice, and its number. Each has a row in a JSON document.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::ArrayRef;
use arrow_array::builder::{Int64Builder, StringBuilder};

use super::{Scalar, Scanner, Text};

/// Columns with an entry for each slice.
#[derive(Debug, Default)]
pub struct Bindings {
    partition: StringBuilder,
    group: StringBuilder,
    token: StringBuilder,
    number: Int64Builder,
}

impl Bindings {
    /// Reads the member `bound` of a document. Returns the columns, and the position of the member's value.
    ///
    /// Returns `None` for a document with other members, rows or types than parsieve writes.
    pub fn read(text: &str, has_numbers: bool) -> Option<(Self, Range<usize>)> {
        // No string gets longer, but partitions repeat.
        i32::try_from(text.len()).ok()?;
        let (mut bindings, mut place) = (Self::default(), None);
        let mut input = Scanner::new(text);
        input.object(|input, key| {
            if key.plain()? != "bound" {
                return input.skip();
            }
            let start = input.position();
            input.array(|input| bindings.partition(input, has_numbers))?;
            place.replace(start..input.position()).is_none().then_some(())
        })?;
        if input.is_at_end() { Some((bindings, place?)) } else { None }
    }

    /// Reads the rows of one partition, whose name follows them.
    fn partition(&mut self, input: &mut Scanner<'_>, has_numbers: bool) -> Option<()> {
        let (mut partition, mut count) = (None, None);
        input.object(|input, key| match key.plain()? {
            "partition" => partition.replace(text(input)?).is_none().then_some(()),
            "groups" => count.replace(self.rows(input, has_numbers)?).is_none().then_some(()),
            _ => None,
        })?;
        let mut buffer = String::new();
        let partition = partition?.decode(&mut buffer);
        for _ in 0..count? {
            let used = self.partition.values_slice().len().checked_add(partition.len())?;
            i32::try_from(used).ok()?;
            self.partition.append_value(partition);
        }
        Some(())
    }

    fn rows(&mut self, input: &mut Scanner<'_>, has_numbers: bool) -> Option<usize> {
        let (mut count, mut buffer) = (0, String::new());
        input.array(|input| {
            let mut column = 0;
            input.array(|input| {
                match column {
                    0 => self.group.append_value(text(input)?.decode(&mut buffer)),
                    1 => self.token.append_value(text(input)?.decode(&mut buffer)),
                    2 if has_numbers => self.number.append_value(number(input)?),
                    _ => return None,
                }
                column += 1;
                Some(())
            })?;
            count += 1;
            (column == 2 + usize::from(has_numbers)).then_some(())
        })?;
        Some(count)
    }

    /// Returns the partitions, groups and tokens, and the numbers if there are any.
    pub fn finish(mut self) -> [ArrayRef; 4] {
        [
            Arc::new(self.partition.finish()),
            Arc::new(self.group.finish()),
            Arc::new(self.token.finish()),
            Arc::new(self.number.finish()),
        ]
    }
}

fn text<'a>(input: &mut Scanner<'a>) -> Option<Text<'a>> {
    match input.scalar()? {
        Scalar::Text(text) => Some(text),
        _ => None,
    }
}

fn number(input: &mut Scanner<'_>) -> Option<i64> {
    match input.scalar()? {
        Scalar::Number(number) if number.is_integer => number.text.parse().ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::cast::AsArray;
    use arrow_array::types::Int64Type;

    #[test]
    fn rows_become_columns() {
        let text = r#"{"bound":[{"groups":[["a","t1",0],["b\"","",7]],"partition":"x=1"},{"groups":[],"partition":""},
            {"groups":[["c","t",2]],"partition":""}],"full":true,"gone":[],"next_id":9}"#;
        let (bindings, place) = Bindings::read(text, true).unwrap();
        assert!(text[place.clone()].starts_with("[{") && text[place.end..].starts_with(",\"full\""));
        let [partition, group, token, number] = bindings.finish();
        let texts =
            |column: &ArrayRef| column.as_string::<i32>().iter().flatten().map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(texts(&partition), ["x=1", "x=1", ""]);
        assert_eq!(texts(&group), ["a", "b\"", "c"]);
        assert_eq!(texts(&token), ["t1", "", "t"]);
        assert_eq!(number.as_primitive::<Int64Type>().values().to_vec(), [0, 7, 2]);
        assert!(Bindings::read(text, false).is_none());
    }

    #[test]
    fn other_documents_are_refused() {
        for text in [
            "[]",
            "{}",
            r#"{"bound":{}}"#,
            r#"{"bound":[],"bound":[]}"#,
            r#"{"bound":[{"groups":[]}]}"#,
            r#"{"bound":[{"partition":"","groups":[["a","b",null]]}]}"#,
            r#"{"bound":[{"partition":"","groups":[["a","b"]]}]}"#,
            r#"{"bound":[{"partition":"","groups":[["a","b",1,2]]}]}"#,
            r#"{"bound":[{"partition":"","groups":[["a","b",1.0]]}]}"#,
            r#"{"bound":[{"partition":1,"groups":[]}]}"#,
            r#"{"bound":[]} x"#,
        ] {
            assert!(Bindings::read(text, true).is_none(), "{text}");
        }
    }
}
