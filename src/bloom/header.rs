//! `BloomFilterHeader`: the Thrift struct before a bitset (specification, section 5).

use super::sbbf::Sbbf;
use crate::error::{Error, ErrorKind, Result};
use crate::int::to_u64;
use crate::thrift::{Field, Reader, Type, Writer};

/// A filter header. The algorithm, hash and compression unions have one known member each; any other member is
/// rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// Number of blocks of the bitset that follows.
    pub num_blocks: u64,
    /// Size of the header itself in bytes.
    pub len: usize,
}

/// Upper bound for the size of a usual header. Known writers need at most 19 bytes; unknown fields may add to that.
pub const USUAL_MAX_LEN: usize = 32;

/// Encodes a header.
pub fn encode(num_blocks: u64) -> Result<Vec<u8>> {
    let num_bytes = i32::try_from(num_blocks.saturating_mul(32)).ok().filter(|bytes| *bytes > 0);
    let num_bytes = num_bytes.ok_or_else(|| Error::new(ErrorKind::NumBlocks(num_blocks)))?;
    let mut writer = Writer::new();
    writer.field(Type::I32, 1, 0);
    writer.integer(i64::from(num_bytes));
    for id in 2..=4 {
        // A union whose first member is set to an empty struct.
        writer.field(Type::Struct, id, id - 1);
        writer.field(Type::Struct, 1, 0);
        writer.stop();
        writer.stop();
    }
    writer.stop();
    Ok(writer.into_bytes())
}

/// Decodes a header from the start of `bytes`, which begin at offset `base` of their file. Ignores any bytes after the
/// header.
pub fn decode(bytes: &[u8], base: u64) -> Result<Header> {
    let mut reader = Reader::new(bytes, base);
    let (mut num_bytes, mut unions) = (None, [false; 3]);
    let mut last = 0;
    while let Some(field) = reader.field(last)? {
        last = field.id;
        let at = reader.offset();
        match field.id {
            // Readers disagree about which of two values counts.
            1 if num_bytes.is_some() => return Err(repeated("BloomFilterHeader.numBytes", at)),
            1 => {
                expect(field, Type::I32, "BloomFilterHeader.numBytes", at)?;
                num_bytes = Some((reader.i32()?, at));
            }
            2..=4 => {
                let union = UNIONS[usize::from(field.id.unsigned_abs()) - 2];
                if unions[usize::from(field.id.unsigned_abs()) - 2] {
                    return Err(repeated(union.0, at));
                }
                expect(field, Type::Struct, union.0, at)?;
                first_member(&mut reader, union.1)?;
                unions[usize::from(field.id.unsigned_abs()) - 2] = true;
            }
            _ => reader.skip(field.kind)?,
        }
    }
    let end = reader.offset();
    let missing = |field| Error::at(ErrorKind::MissingField { field }, end);
    if let Some(missing_union) = unions.iter().position(|seen| !seen) {
        return Err(missing(UNIONS[missing_union].0));
    }
    let (num_bytes, at) = num_bytes.ok_or_else(|| missing("BloomFilterHeader.numBytes"))?;
    let bad_size = || Error::at(ErrorKind::BitsetSize(i64::from(num_bytes)), at);
    let num_blocks = Sbbf::blocks_of(u64::try_from(num_bytes).map_err(|_| bad_size())?).map_err(|_| bad_size())?;
    Ok(Header { num_blocks, len: reader.position() })
}

/// Field names and union names of fields 2 to 4.
const UNIONS: [(&str, &str); 3] = [
    ("BloomFilterHeader.algorithm", "BloomFilterAlgorithm"),
    ("BloomFilterHeader.hash", "BloomFilterHash"),
    ("BloomFilterHeader.compression", "BloomFilterCompression"),
];

fn repeated(field: &'static str, at: u64) -> Error {
    Error::at(ErrorKind::RepeatedField { field }, at)
}

fn expect(field: Field, kind: Type, name: &'static str, at: u64) -> Result<()> {
    if field.kind == kind { Ok(()) } else { Err(Error::at(ErrorKind::FieldType { field: name }, at)) }
}

/// Requires the first member of a union: split block, XXH64 or uncompressed.
fn first_member(reader: &mut Reader<'_>, union: &'static str) -> Result<()> {
    let at = reader.offset();
    let unknown = |member| Error::at(ErrorKind::UnknownUnionMember { union, member }, at);
    let field = reader.field(0)?.ok_or_else(|| unknown(None))?;
    if field.id != 1 || field.kind != Type::Struct {
        return Err(unknown(Some(field.id)));
    }
    reader.skip(field.kind)?;
    // A union has exactly one member, so a second one is ambiguous.
    match reader.field(field.id)? {
        None => Ok(()),
        Some(second) => Err(unknown(Some(second.id))),
    }
}

impl Sbbf {
    /// Returns the header and the bitset as they are stored in a file.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        let mut bytes = encode(self.num_blocks())?;
        bytes.extend_from_slice(self.bitset());
        Ok(bytes)
    }

    /// Reads a header and a bitset, which must end at the end of the input.
    pub fn from_bytes(bytes: &[u8], base: u64) -> Result<Self> {
        let header = decode(bytes, base)?;
        let bitset = &bytes[header.len..];
        let (claimed, available) = (header.num_blocks * 32, to_u64(bitset.len()));
        let at = base + to_u64(header.len);
        if available < claimed {
            return Err(Error::at(ErrorKind::BitsetBeyondInput { claimed, available }, at));
        }
        if available > claimed {
            return Err(Error::at(ErrorKind::TrailingBytes(available - claimed), at + claimed));
        }
        Self::from_bitset(bitset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALLEST: [u8; 15] =
        [0x15, 0x40, 0x1c, 0x1c, 0x00, 0x00, 0x1c, 0x1c, 0x00, 0x00, 0x1c, 0x1c, 0x00, 0x00, 0x00];

    #[test]
    fn headers_are_encoded_byte_for_byte() {
        assert_eq!(encode(1).unwrap(), SMALLEST);
        for (num_blocks, len) in [(32, 16), (1 << 15, 18), (1 << 22, 19), (Sbbf::MAX_BLOCKS, 19)] {
            let bytes = encode(num_blocks).unwrap();
            assert_eq!(bytes.len(), len, "{num_blocks} blocks");
            assert_eq!(decode(&bytes, 0), Ok(Header { num_blocks, len }));
        }
        assert!(encode(0).is_err() && encode(Sbbf::MAX_BLOCKS + 1).is_err());
    }

    #[test]
    fn every_truncated_header_is_an_error() {
        for end in 0..SMALLEST.len() {
            let error = decode(&SMALLEST[..end], 4096).unwrap_err();
            assert!(error.offset().unwrap() >= 4096, "{error}");
        }
    }

    #[test]
    fn unknown_fields_are_skipped() {
        let mut bytes = SMALLEST[..14].to_vec();
        bytes.extend_from_slice(&[0x18, 3, b'n', b'e', b'w', 0x1c, 0x15, 2, 0, 0]);
        assert_eq!(decode(&bytes, 0), Ok(Header { num_blocks: 1, len: bytes.len() }));
    }

    #[test]
    fn repeated_fields_are_rejected() {
        let twice = |first: &[u8], id: u8| {
            // The long form of the field header allows smaller ids than before.
            let mut bytes = SMALLEST[..14].to_vec();
            bytes.extend_from_slice(&[if id == 1 { 0x05 } else { 0x0c }, id * 2]);
            bytes.extend_from_slice(first);
            bytes.push(0);
            bytes
        };
        for bytes in [twice(&[0x40], 1), twice(&[0x80, 0x01], 1), twice(&[0x1c, 0, 0], 2), twice(&[0x1c, 0, 0], 4)] {
            let error = decode(&bytes, 0).unwrap_err();
            assert!(matches!(error.kind(), ErrorKind::RepeatedField { .. }), "{bytes:x?}: {error}");
        }
    }

    #[test]
    fn unknown_algorithms_and_invalid_sizes_are_rejected() {
        let check = |edit: &[(usize, u8)], expected: fn(&ErrorKind) -> bool| {
            let mut bytes = SMALLEST;
            for (at, byte) in edit {
                bytes[*at] = *byte;
            }
            let error = decode(&bytes, 0).unwrap_err();
            assert!(expected(error.kind()), "{edit:?}: {error}");
        };
        let unknown = |kind: &ErrorKind| matches!(kind, ErrorKind::UnknownUnionMember { .. });
        check(&[(3, 0x2c)], unknown); // another algorithm
        check(&[(7, 0x2c)], unknown); // another hash
        check(&[(11, 0x2c)], unknown); // compressed
        check(&[(0, 0x16)], |kind| matches!(kind, ErrorKind::FieldType { .. }));
        for size in [0x00, 0x01, 0x3e, 0x42, 0x3f] {
            check(&[(1, size)], |kind| matches!(kind, ErrorKind::BitsetSize(_)));
        }
        assert!(matches!(decode(&[0], 0).unwrap_err().kind(), ErrorKind::MissingField { .. }));
    }

    #[test]
    fn filters_round_trip_and_wrong_sizes_are_errors() {
        let mut filter = Sbbf::new(3).unwrap();
        filter.insert_hash(0xdead_beef_0bad_cafe);
        let bytes = filter.to_bytes().unwrap();
        assert_eq!(Sbbf::from_bytes(&bytes, 0).unwrap(), filter);
        for end in 0..bytes.len() {
            assert!(Sbbf::from_bytes(&bytes[..end], 0).is_err());
        }
        let mut longer = bytes.clone();
        longer.push(0);
        assert_eq!(Sbbf::from_bytes(&longer, 0).unwrap_err().kind(), &ErrorKind::TrailingBytes(1));
        // A claim of 2 GiB must not allocate anything.
        let mut oversized = encode(Sbbf::MAX_BLOCKS).unwrap();
        oversized.extend_from_slice(&[0; 64]);
        assert!(matches!(Sbbf::from_bytes(&oversized, 0).unwrap_err().kind(), ErrorKind::BitsetBeyondInput { .. }));
    }
}
