//! Avro rows of any layout. Decoded columns have an entry for each row.

use parsieve::avro::{Columns, Layout};

/// Decodes `data`: the number of codes, the codes of a layout, the number of rows, and a block of rows.
pub fn run(data: &[u8]) {
    let Some((&num_codes, rest)) = data.split_first() else { return };
    let Some((codes, rest)) = rest.split_at_checked(usize::from(num_codes)) else { return };
    let Some((&count, block)) = rest.split_first() else { return };
    let codes: Vec<u32> = codes.iter().map(|&code| u32::from(code)).collect();
    let Ok(layout) = Layout::parse(&codes) else { return };
    let num_columns = layout.columns().len();
    let mut columns = Columns::new(layout);
    // The second block follows rows that are already in the columns.
    if (0..2).all(|_| columns.push(block, u64::from(count)).is_ok()) {
        let columns = columns.finish();
        assert_eq!(columns.len(), num_columns);
        for column in columns {
            assert_eq!(column.len(), 2 * usize::from(count));
            column.to_data().validate_full().unwrap();
        }
    }
}

/// Returns two rows with columns of all types, and a row with fields that are not columns.
pub fn seeds() -> Vec<Vec<u8>> {
    let columns = [4, 6, 16, 3, 0, 17, 2, 18, 3, 2, 19, 5, 0, 20, 6, 0, 0, 21, 3, 6, 0, 3, 2];
    let rows =
        [2, 80, 4, b'a', b'b', 0, 2, 6, 0, 2, 2, 4, 0, 0, 0, 0, 2, 2, b'c', 0, 3, 6, 9, 8, 0, 2, 3, 8, 2, 0, 0, 0];
    let skipped = [4, 6, 16, 0, 1, 3, 3, 2, 5, 2, 6, 2, 0, 4, 2, 0, 0];
    let row = [8, 1, 2, 3, 2, 2, b'x', 2, 2, b'y', 0, 2, 2, b'z', 4, 0, 2, 4];
    [(&columns[..], 2, &rows[..]), (&skipped[..], 1, &row[..])]
        .map(|(codes, count, block)| [&[codes.len() as u8], codes, &[count], block].concat())
        .to_vec()
}
