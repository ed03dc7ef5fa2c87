//! The additional authenticated data (AAD) that binds an encrypted module to its position in the file (section 6 of the
//! Bloom filter specification).

/// The kinds of encrypted modules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
#[expect(missing_docs, reason = "the names are those of the format")]
pub enum Module {
    Footer = 0,
    ColumnMetaData = 1,
    DataPage = 2,
    DictionaryPage = 3,
    DataPageHeader = 4,
    DictionaryPageHeader = 5,
    ColumnIndex = 6,
    OffsetIndex = 7,
    BloomFilterHeader = 8,
    BloomFilterBitset = 9,
}

/// The prefix of every AAD of a file.
#[derive(Debug, Clone)]
pub struct FileAad {
    prefix_and_file_id: Vec<u8>,
}

impl FileAad {
    /// Creates the AAD from the prefix (which may be empty) and the file's random id.
    pub fn new(prefix: &[u8], file_id: &[u8]) -> Self {
        Self { prefix_and_file_id: [prefix, file_id].concat() }
    }

    /// Returns the AAD of the footer, which has no ordinals.
    pub fn footer(&self) -> Vec<u8> {
        [&self.prefix_and_file_id[..], &[Module::Footer as u8]].concat()
    }

    /// Returns the AAD of a module of a column chunk. Data pages and their headers need [`Self::page`].
    pub fn column(&self, module: Module, row_group: i16, column: i16) -> Vec<u8> {
        let ordinals = [row_group.to_le_bytes(), column.to_le_bytes()].concat();
        [&self.prefix_and_file_id[..], &[module as u8], &ordinals].concat()
    }

    /// Returns the AAD of a data page or its header.
    pub fn page(&self, module: Module, row_group: i16, column: i16, page: i16) -> Vec<u8> {
        [&self.column(module, row_group, column)[..], &page.to_le_bytes()].concat()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn aads_end_with_the_module_and_its_ordinals() {
        let aad = FileAad::new(b"pre", &[9, 8]);
        assert_eq!(aad.footer(), b"pre\x09\x08\x00");
        assert_eq!(aad.column(Module::BloomFilterHeader, 0x0102, 3), b"pre\x09\x08\x08\x02\x01\x03\x00");
        assert_eq!(aad.column(Module::BloomFilterBitset, 0, -1), b"pre\x09\x08\x09\x00\x00\xff\xff");
        assert_eq!(aad.page(Module::DataPage, 1, 2, 0x0304), b"pre\x09\x08\x02\x01\x00\x02\x00\x04\x03");
        assert_eq!(FileAad::new(b"", b"x").column(Module::ColumnMetaData, 1, 2), b"x\x01\x01\x00\x02\x00");
    }
}
