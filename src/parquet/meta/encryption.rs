//! The encryption parameters that a file stores in plaintext: the algorithm, the AAD, and the key metadata of the
//! footer.

use crate::error::Result;
use crate::parquet::meta::record::{Record, required};
use crate::thrift::Reader;

/// The cipher of page bodies. All other modules, including filters, use AES-GCM in both cases.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cipher {
    /// AES_GCM_V1.
    Gcm,
    /// AES_GCM_CTR_V1, which does not authenticate page bodies.
    GcmCtr,
    /// A cipher that this version does not know.
    Unknown(i16),
}

/// The encryption algorithm of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Algorithm {
    /// The cipher.
    pub cipher: Cipher,
    /// The prefix of every AAD, if the file stores it.
    pub aad_prefix: Option<Vec<u8>>,
    /// Random bytes that identify the file.
    pub aad_file_unique: Vec<u8>,
    /// True if readers must supply the prefix.
    pub supply_aad_prefix: bool,
}

/// FileCryptoMetaData, which precedes an encrypted footer in plaintext.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileCrypto {
    /// The encryption algorithm.
    pub algorithm: Algorithm,
    /// Metadata that identifies the footer key.
    pub key_metadata: Option<Vec<u8>>,
    /// Size of the struct in bytes. The encrypted footer follows it.
    pub len: usize,
}

impl FileCrypto {
    /// Decodes the struct at the start of `bytes`, which begin at offset `base` of their file.
    pub fn decode(bytes: &[u8], base: u64) -> Result<Self> {
        let mut reader = Reader::new(bytes, base);
        let mut record = Record::new(&mut reader, "FileCryptoMetaData");
        let (mut algorithm, mut key_metadata) = (None, None);
        while let Some(id) = record.next()? {
            match id {
                1 => algorithm = Some(Algorithm::decode_field(&mut record)?),
                2 => key_metadata = record.binary()?.map(<[u8]>::to_vec),
                _ => record.skip()?,
            }
        }
        let algorithm = required(algorithm, "FileCryptoMetaData.encryption_algorithm", record.offset())?;
        Ok(Self { algorithm, key_metadata, len: record.position() })
    }
}

impl Algorithm {
    pub(in crate::parquet) fn decode_field(record: &mut Record<'_, '_>) -> Result<Self> {
        let mut algorithm = Self {
            cipher: Cipher::Unknown(0),
            aad_prefix: None,
            aad_file_unique: Vec::new(),
            supply_aad_prefix: false,
        };
        let Some(mut union) = record.record("EncryptionAlgorithm")? else { return Ok(algorithm) };
        while let Some(member) = union.next()? {
            algorithm.cipher = match member {
                1 => Cipher::Gcm,
                2 => Cipher::GcmCtr,
                other => Cipher::Unknown(other),
            };
            if !matches!(member, 1 | 2) {
                union.skip()?;
                continue;
            }
            let Some(mut fields) = union.record("AesGcmV1")? else { continue };
            while let Some(id) = fields.next()? {
                match id {
                    1 => algorithm.aad_prefix = fields.binary()?.map(<[u8]>::to_vec),
                    2 => algorithm.aad_file_unique = fields.binary()?.unwrap_or_default().to_vec(),
                    3 => algorithm.supply_aad_prefix = fields.bool()?.unwrap_or(false),
                    _ => fields.skip()?,
                }
            }
        }
        Ok(algorithm)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parquet::{Metadata, fixtures};
    use crate::thrift::{Type, Writer};

    #[test]
    fn an_algorithm_says_whether_readers_supply_its_prefix() {
        for (kind, supply_aad_prefix) in [(Type::True, true), (Type::False, false)] {
            let mut writer = Writer::new();
            // FileCryptoMetaData.encryption_algorithm, a union with AES_GCM_CTR_V1.
            writer.field(Type::Struct, 1, 0);
            writer.field(Type::Struct, 2, 0);
            writer.field(Type::Binary, 1, 0);
            writer.binary(b"prefix");
            writer.field(Type::Binary, 2, 1);
            writer.binary(b"unique");
            writer.field(kind, 3, 2);
            (0..3).for_each(|_| writer.stop());
            let bytes = writer.into_bytes();
            let algorithm = FileCrypto::decode(&bytes, 0).unwrap().algorithm;
            assert!(matches!(algorithm.cipher, Cipher::GcmCtr));
            assert_eq!(algorithm.aad_prefix.as_deref(), Some(&b"prefix"[..]));
            assert_eq!(algorithm.aad_file_unique, b"unique");
            assert_eq!(algorithm.supply_aad_prefix, supply_aad_prefix);
        }
    }

    #[test]
    fn a_signed_footer_has_the_metadata_of_its_key() {
        let Some(file) = fixtures::file("encrypt_columns_plaintext_footer") else { return };
        let metadata = Metadata::decode(fixtures::footer(&file).1, 0).unwrap();
        assert_eq!(metadata.signing_key_metadata(), Some(&b"kf"[..]));
    }
}
