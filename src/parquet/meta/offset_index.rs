//! The offset index of a column chunk: the position of each data page, and its first row.

use crate::error::{Error, ErrorKind, Result};
use crate::parquet::meta::record::{Record, required};
use crate::thrift::{Reader, Type};

/// The position of a data page, as claimed by the writer and not validated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageLocation {
    /// Offset of the page header in the file.
    pub offset: i64,
    /// Size in bytes of the page with its header.
    pub compressed_size: i32,
    /// Number of the page's first row in the row group.
    pub first_row: i64,
}

/// Decodes an offset index, which is at offset `base` of its file.
pub fn page_locations(bytes: &[u8], base: u64) -> Result<Vec<PageLocation>> {
    let mut reader = Reader::new(bytes, base);
    let mut record = Record::new(&mut reader, "OffsetIndex");
    let mut pages = None;
    while let Some(id) = record.next()? {
        match id {
            1 => {
                let Some((len, reader)) = record.list(Type::Struct)? else { continue };
                // Do not allocate for a claimed length that may be wrong.
                let mut decoded = Vec::with_capacity(len.min(1024));
                for _ in 0..len {
                    decoded.push(page_location(reader)?);
                }
                pages = Some(decoded);
            }
            _ => record.skip()?,
        }
    }
    required(pages, "OffsetIndex.page_locations", record.offset())
}

fn page_location(reader: &mut Reader<'_>) -> Result<PageLocation> {
    let (mut offset, mut compressed_size, mut first_row) = (None, None, None);
    let mut record = Record::new(reader, "PageLocation");
    while let Some(id) = record.next()? {
        match id {
            1 => offset = record.i64()?,
            2 => compressed_size = record.i32()?,
            3 => first_row = record.i64()?,
            _ => record.skip()?,
        }
    }
    let missing = |field| Error::at(ErrorKind::MissingField { field }, record.offset());
    Ok(PageLocation {
        offset: offset.ok_or_else(|| missing("PageLocation.offset"))?,
        compressed_size: compressed_size.ok_or_else(|| missing("PageLocation.compressed_page_size"))?,
        first_row: first_row.ok_or_else(|| missing("PageLocation.first_row_index"))?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::thrift::Writer;

    fn encode(pages: &[PageLocation]) -> Vec<u8> {
        let mut writer = Writer::new();
        writer.field(Type::List, 1, 0);
        writer.raw(&[0xf0 | Type::Struct as u8]);
        let mut count = Vec::new();
        crate::varint::put_varint(&mut count, pages.len() as u64);
        writer.raw(&count);
        for page in pages {
            writer.field(Type::I64, 1, 0);
            writer.integer(page.offset);
            writer.field(Type::I32, 2, 1);
            writer.integer(page.compressed_size.into());
            writer.field(Type::I64, 3, 2);
            writer.integer(page.first_row);
            writer.stop();
        }
        // The sizes of byte arrays before encoding, which are newer than some readers.
        writer.field(Type::List, 2, 1);
        writer.raw(&[0x16, 4]);
        writer.stop();
        writer.into_bytes()
    }

    #[test]
    fn locations_are_decoded_and_prefixes_are_errors() {
        let pages = [(4, 100, 0), (104, i32::MAX, 20_000), (1 << 40, 7, i64::MAX)];
        let pages =
            pages.map(|(offset, compressed_size, first_row)| PageLocation { offset, compressed_size, first_row });
        let bytes = encode(&pages);
        assert_eq!(page_locations(&bytes, 0).unwrap(), pages);
        for end in 0..bytes.len() {
            assert!(page_locations(&bytes[..end], 0).is_err(), "prefix of {end} bytes");
        }
        assert_eq!(page_locations(&encode(&[]), 0), Ok(vec![]));
    }

    #[test]
    fn claimed_lengths_allocate_nothing() {
        let claimed = [0x19, 0xfc, 0xff, 0xff, 0xff, 0xff, 0x07];
        assert!(matches!(page_locations(&claimed, 0).unwrap_err().kind(), ErrorKind::ThriftContainer { .. }));
        assert!(matches!(page_locations(&[0], 0).unwrap_err().kind(), ErrorKind::MissingField { .. }));
    }
}
