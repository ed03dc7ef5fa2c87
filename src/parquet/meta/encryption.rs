//! What a file says openly about its encryption: the algorithm, the parts of the AAD, and which key the footer has.

use crate::error::Result;
use crate::parquet::meta::record::{Record, required};
use crate::thrift::Reader;

/// Which cipher the pages have. Everything else, filters included, is AES-GCM in both.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cipher {
    /// AES_GCM_V1.
    Gcm,
    /// AES_GCM_CTR_V1: page bodies are not authenticated.
    GcmCtr,
    /// A cipher newer than this code.
    Unknown(i16),
}

/// How a file is encrypted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Algorithm {
    /// The cipher.
    pub cipher: Cipher,
    /// The prefix of every AAD, where the file holds it.
    pub aad_prefix: Option<Vec<u8>>,
    /// Random bytes that tell this file from all others.
    pub aad_file_unique: Vec<u8>,
    /// Whether readers must bring the prefix themselves.
    pub supply_aad_prefix: bool,
}

/// FileCryptoMetaData: what stands in plaintext before an encrypted footer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileCrypto {
    /// How the file is encrypted.
    pub algorithm: Algorithm,
    /// What identifies the footer's key.
    pub key_metadata: Option<Vec<u8>>,
    /// Bytes of the structure; the encrypted footer follows.
    pub len: usize,
}

impl FileCrypto {
    /// Reads the structure at the start of `bytes`, which lie at offset `base` of their file.
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
