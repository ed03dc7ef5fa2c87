//! Page bodies encrypted with AES-CTR in AES_GCM_CTR_V1: a length, a nonce and the ciphertext, without authentication.

use aes_gcm::aes::cipher::{KeyIvInit, StreamCipher};
use aes_gcm::aes::{Aes128, Aes192, Aes256};
use ctr::Ctr128BE;

use super::Key;
use super::frame::{LENGTH_LEN, NONCE_LEN};
use crate::cursor::Cursor;
use crate::error::{Error, ErrorKind, FileKind, Result};
use crate::int::to_u64;

/// Decrypts a page body. A wrong key yields garbage, which decompression may detect.
pub fn decrypt_ctr(key: &Key, module: &[u8]) -> Result<Vec<u8>> {
    let mut cursor = Cursor::new(module, 0);
    let claimed = u64::from(cursor.u32()?);
    if claimed != to_u64(cursor.remaining()) || cursor.remaining() < NONCE_LEN {
        return Err(Error::new(ErrorKind::File(FileKind::ModuleLength(claimed))));
    }
    // The counter is the last four bytes of the first block, and starts at 1.
    let mut block = [0; 16];
    block[..NONCE_LEN].copy_from_slice(cursor.take(NONCE_LEN)?);
    block[15] = 1;
    let mut plain = module[LENGTH_LEN + NONCE_LEN..].to_vec();
    let applied = match key.bytes().len() {
        16 => apply::<Ctr128BE<Aes128>>(key, &block, &mut plain),
        24 => apply::<Ctr128BE<Aes192>>(key, &block, &mut plain),
        _ => apply::<Ctr128BE<Aes256>>(key, &block, &mut plain),
    };
    applied.map(|()| plain).ok_or_else(|| Error::new(ErrorKind::File(FileKind::Decryption)))
}

fn apply<C: KeyIvInit + StreamCipher>(key: &Key, block: &[u8; 16], buffer: &mut [u8]) -> Option<()> {
    C::new_from_slices(key.bytes(), block).ok()?.try_apply_keystream(buffer).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crypto::seal;

    /// GCM uses the same counter from 2 on, so the body of a GCM module is a CTR body without its first block.
    #[test]
    fn ctr_decrypts_the_body_of_a_gcm_module() {
        for len in [16, 24, 32] {
            let key = Key::new(&vec![5; len]).unwrap();
            let plain: Vec<u8> = (0..100).collect();
            let module = seal(&key, b"", &plain).unwrap();
            let (nonce, ciphertext) = (&module[4..16], &module[16..116]);
            let length = (12 + 16 + 100u32).to_le_bytes();
            let body = [&length[..], nonce, &[0; 16], ciphertext].concat();
            assert_eq!(decrypt_ctr(&key, &body).unwrap()[16..], plain);
        }
    }

    #[test]
    fn invalid_lengths_are_errors() {
        let key = Key::new(&[5; 16]).unwrap();
        for body in [&[][..], &[1, 0], &[11, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1], &[0xff; 30]] {
            assert!(decrypt_ctr(&key, body).is_err());
        }
        assert_eq!(decrypt_ctr(&key, &[&[12, 0, 0, 0][..], &[0; 12]].concat()), Ok(vec![]));
    }
}
