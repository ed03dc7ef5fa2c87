//! Encodes the map of a file as the metadata of a Parquet file, so that decoders of footers can use it.

use crate::error::{PageMapKind, Result};
use crate::int::to_u64;
use crate::page_map::error;
use crate::page_map::file_map::{Chunk, FileMap, RowGroup};
use crate::parquet::{Physical, SchemaLeaf};
use crate::thrift::{Reader, Type, Writer};
use crate::varint::put_varint;

impl FileMap {
    /// Encodes the FileMetaData of the row groups, without statistics, indexes and filters.
    ///
    /// Sizes before compression, which the map does not have, are those after it.
    pub fn footer(&self) -> Result<Vec<u8>> {
        let leaves = self.schema.leaves();
        if self.row_groups.iter().any(|group| group.chunks.len() != leaves.len()) {
            return Err(error(PageMapKind::PartialColumns));
        }
        let schema = self.schema.bytes();
        let mut writer = Writer::new();
        let mut reader = Reader::new(schema, 0);
        let mut last = 0;
        while let Some(field) = reader.field(last)? {
            let start = reader.position();
            reader.skip(field.kind)?;
            writer.field(field.kind, field.id, last);
            match field.id {
                3 => writer.integer(self.row_groups.iter().map(|group| group.num_rows.cast_signed()).sum()),
                4 => {
                    list(&mut writer, Type::Struct, self.row_groups.len());
                    self.row_groups.iter().for_each(|group| self.row_group(&mut writer, group));
                }
                _ => writer.raw(schema.get(start..reader.position()).unwrap_or_default()),
            }
            last = field.id;
        }
        writer.stop();
        Ok(writer.into_bytes())
    }

    fn row_group(&self, writer: &mut Writer, group: &RowGroup) {
        writer.field(Type::List, 1, 0);
        list(writer, Type::Struct, group.chunks.len());
        for (chunk, leaf) in group.chunks.iter().zip(self.schema.leaves()) {
            // `file_offset`, which readers ignore.
            writer.field(Type::I64, 2, 0);
            writer.integer(0);
            writer.field(Type::Struct, 3, 2);
            column_metadata(writer, chunk, leaf, &self.schema.path(leaf));
            writer.stop();
        }
        let size = group.chunks.iter().fold(0, |size: u64, chunk| size.saturating_add(chunk.len));
        writer.field(Type::I64, 2, 1);
        writer.integer(size.min(i64::MAX.cast_unsigned()).cast_signed());
        writer.field(Type::I64, 3, 2);
        writer.integer(group.num_rows.cast_signed());
        writer.stop();
    }
}

fn column_metadata(writer: &mut Writer, chunk: &Chunk, leaf: &SchemaLeaf, path: &[&str]) {
    writer.field(Type::I32, 1, 0);
    writer.integer(code_of(leaf.physical).into());
    writer.field(Type::List, 2, 1);
    let encodings: Vec<i64> = (0..32).filter(|code| chunk.encodings >> code & 1 == 1).collect();
    list(writer, Type::I32, encodings.len());
    encodings.iter().for_each(|&code| writer.integer(code));
    writer.field(Type::List, 3, 2);
    list(writer, Type::Binary, path.len());
    path.iter().for_each(|name| writer.binary(name.as_bytes()));
    writer.field(Type::I32, 4, 3);
    writer.integer(chunk.codec.into());
    let mut last = 4;
    let mut number = |id: i16, value: u64| {
        writer.field(Type::I64, id, std::mem::replace(&mut last, id));
        writer.integer(value.cast_signed());
    };
    number(5, chunk.num_values);
    number(6, chunk.len);
    number(7, chunk.len);
    number(9, chunk.data_start());
    if chunk.dictionary_len.is_some() {
        number(11, chunk.start);
    }
    writer.stop();
}

fn list(writer: &mut Writer, element: Type, len: usize) {
    let code = element as u8;
    match u8::try_from(len) {
        Ok(short @ 0..15) => writer.raw(&[short << 4 | code]),
        _ => {
            let mut count = vec![0xf0 | code];
            put_varint(&mut count, to_u64(len));
            writer.raw(&count);
        }
    }
}

fn code_of(physical: Physical) -> i32 {
    match physical {
        Physical::Boolean => 0,
        Physical::Int32 => 1,
        Physical::Int64 => 2,
        Physical::Int96 => 3,
        Physical::Float => 4,
        Physical::Double => 5,
        Physical::ByteArray => 6,
        Physical::FixedLenByteArray => 7,
        Physical::Unknown(code) => code,
    }
}
