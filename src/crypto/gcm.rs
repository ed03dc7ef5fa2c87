//! Modules encrypted with AES-GCM: a length, a nonce, the ciphertext and a tag.

use aes_gcm::aead::AeadInOut;
use aes_gcm::aes::cipher::consts::U12;
use aes_gcm::{Aes128Gcm, Aes256Gcm, AesGcm, KeyInit, aes::Aes192};

use super::Key;
use super::frame::{LENGTH_LEN, MODULE_OVERHEAD, NONCE_LEN, SIGNATURE_LEN, TAG_LEN, split_module};
use crate::cursor::Cursor;
use crate::error::{Error, ErrorKind, FileKind, Result};
use crate::int::to_u64;

type Aes192Gcm = AesGcm<Aes192, U12>;

/// Encrypts `plain` as a module with a new random nonce.
pub fn seal(key: &Key, aad: &[u8], plain: &[u8]) -> Result<Vec<u8>> {
    let length = to_u64(plain.len()) + MODULE_OVERHEAD - 4;
    let length = i32::try_from(length).map_err(|_| Error::new(ErrorKind::File(FileKind::ModuleLength(length))))?;
    let nonce = fresh_nonce()?;
    let mut module = Vec::with_capacity(plain.len() + LENGTH_LEN + NONCE_LEN + TAG_LEN);
    module.extend_from_slice(&length.to_le_bytes());
    module.extend_from_slice(&nonce);
    module.extend_from_slice(plain);
    let tag = encrypt(key, &nonce, aad, &mut module[LENGTH_LEN + NONCE_LEN..])?;
    module.extend_from_slice(&tag);
    Ok(module)
}

/// Decrypts a complete module.
pub fn open(key: &Key, aad: &[u8], module: &[u8]) -> Result<Vec<u8>> {
    let (module, rest) = split_module(module)?;
    if !rest.is_empty() {
        return Err(Error::new(ErrorKind::TrailingBytes(to_u64(rest.len()))));
    }
    let mut cursor = Cursor::new(module, 0);
    cursor.take(LENGTH_LEN)?;
    let nonce = cursor.take_array()?;
    let mut plain = cursor.take(cursor.remaining() - TAG_LEN)?.to_vec();
    let tag = cursor.take_array()?;
    decrypt(key, &nonce, aad, &mut plain, &tag)?;
    Ok(plain)
}

/// Signs a plaintext footer. The footer is encrypted, but only the nonce and the tag are stored.
pub fn sign(key: &Key, aad: &[u8], footer: &[u8]) -> Result<[u8; SIGNATURE_LEN]> {
    let nonce = fresh_nonce()?;
    let tag = encrypt(key, &nonce, aad, &mut footer.to_vec())?;
    let mut signature = [0; SIGNATURE_LEN];
    signature[..NONCE_LEN].copy_from_slice(&nonce);
    signature[NONCE_LEN..].copy_from_slice(&tag);
    Ok(signature)
}

/// Checks the signature of a plaintext footer.
pub fn verify(key: &Key, aad: &[u8], footer: &[u8], signature: &[u8]) -> Result<()> {
    let (nonce, tag) =
        signature.split_at_checked(NONCE_LEN).ok_or(Error::new(ErrorKind::File(FileKind::Decryption)))?;
    let nonce = nonce.try_into().map_err(|_| Error::new(ErrorKind::File(FileKind::Decryption)))?;
    let expected = encrypt(key, &nonce, aad, &mut footer.to_vec())?;
    // Compare all bytes, so that the timing reveals nothing.
    let same_len = tag.len() == expected.len();
    let difference = tag.iter().zip(expected).fold(0, |difference, (ours, theirs)| difference | (ours ^ theirs));
    match same_len && std::hint::black_box(difference) == 0 {
        true => Ok(()),
        false => Err(Error::new(ErrorKind::File(FileKind::Decryption))),
    }
}

/// Returns a random nonce. This is the only function in `src/` whose result does not depend on its arguments alone.
fn fresh_nonce() -> Result<[u8; NONCE_LEN]> {
    let mut nonce = [0; NONCE_LEN];
    getrandom::fill(&mut nonce).map_err(|_| Error::new(ErrorKind::File(FileKind::NoRandomness)))?;
    Ok(nonce)
}

fn encrypt(key: &Key, nonce: &[u8; NONCE_LEN], aad: &[u8], buffer: &mut [u8]) -> Result<[u8; TAG_LEN]> {
    fn with<C: KeyInit + AeadInOut<NonceSize = U12>>(
        key: &Key,
        nonce: &[u8; NONCE_LEN],
        aad: &[u8],
        buffer: &mut [u8],
    ) -> Option<[u8; TAG_LEN]> {
        let cipher = C::new_from_slice(key.bytes()).ok()?;
        let tag = cipher.encrypt_inout_detached(&(*nonce).into(), aad, buffer.into()).ok()?;
        tag.as_slice().try_into().ok()
    }
    let tag = match key.bytes().len() {
        16 => with::<Aes128Gcm>(key, nonce, aad, buffer),
        24 => with::<Aes192Gcm>(key, nonce, aad, buffer),
        _ => with::<Aes256Gcm>(key, nonce, aad, buffer),
    };
    // Fails only for more than 64 GiB of plaintext.
    tag.ok_or_else(|| Error::new(ErrorKind::File(FileKind::ModuleLength(to_u64(buffer.len())))))
}

fn decrypt(key: &Key, nonce: &[u8; NONCE_LEN], aad: &[u8], buffer: &mut [u8], tag: &[u8; TAG_LEN]) -> Result<()> {
    fn with<C: KeyInit + AeadInOut<NonceSize = U12>>(
        key: &Key,
        nonce: &[u8; NONCE_LEN],
        aad: &[u8],
        buffer: &mut [u8],
        tag: &[u8; TAG_LEN],
    ) -> Option<()> {
        let tag = tag.as_slice().try_into().ok()?;
        let cipher = C::new_from_slice(key.bytes()).ok()?;
        cipher.decrypt_inout_detached(&(*nonce).into(), aad, buffer.into(), tag).ok()
    }
    let decrypted = match key.bytes().len() {
        16 => with::<Aes128Gcm>(key, nonce, aad, buffer, tag),
        24 => with::<Aes192Gcm>(key, nonce, aad, buffer, tag),
        _ => with::<Aes256Gcm>(key, nonce, aad, buffer, tag),
    };
    decrypted.ok_or_else(|| Error::new(ErrorKind::File(FileKind::Decryption)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(len: usize, byte: u8) -> Key {
        Key::new(&vec![byte; len]).unwrap()
    }

    #[test]
    fn modules_decrypt_only_with_their_key_aad_and_bytes() {
        for len in [16, 24, 32] {
            for plain in [&b""[..], b"a bitset", &[7; 5000]] {
                let module = seal(&key(len, 1), b"aad", plain).unwrap();
                assert_eq!(to_u64(module.len()), to_u64(plain.len()) + MODULE_OVERHEAD);
                assert_eq!(open(&key(len, 1), b"aad", &module).unwrap(), plain);
                let failed = |result: Result<Vec<u8>>| {
                    assert_eq!(result, Err(Error::new(ErrorKind::File(FileKind::Decryption))))
                };
                failed(open(&key(len, 2), b"aad", &module));
                failed(open(&key(len, 1), b"aae", &module));
                for at in (LENGTH_LEN..module.len()).step_by(97).chain([module.len() - 1]) {
                    let mut damaged = module.clone();
                    damaged[at] ^= 1;
                    failed(open(&key(len, 1), b"aad", &damaged));
                }
            }
        }
    }

    #[test]
    fn invalid_lengths_are_errors() {
        let check = |module: &[u8], expect: ErrorKind| {
            assert_eq!(open(&key(16, 1), b"", module).unwrap_err().kind(), &expect, "{module:?}");
        };
        check(&[1, 0], ErrorKind::Truncated { needed: 4, available: 2 });
        check(&[0; 32], ErrorKind::File(FileKind::ModuleLength(0)));
        check(&[27, 0, 0, 0], ErrorKind::File(FileKind::ModuleLength(27)));
        check(&[0xff; 40], ErrorKind::File(FileKind::ModuleLength(0xffff_ffff)));
        check(&[0xff, 0xff, 0xff, 0x7f, 0], ErrorKind::Truncated { needed: 0x8000_0003, available: 5 });
        check(&[&[28, 0, 0, 0][..], &[0; 29]].concat(), ErrorKind::TrailingBytes(1));
        check(&[&[28, 0, 0, 0][..], &[0; 28]].concat(), ErrorKind::File(FileKind::Decryption));
    }

    #[test]
    fn signatures_verify_only_their_footer_key_and_aad() {
        let signature = sign(&key(16, 1), b"aad", b"footer").unwrap();
        assert_eq!(verify(&key(16, 1), b"aad", b"footer", &signature), Ok(()));
        let failed = Err(Error::new(ErrorKind::File(FileKind::Decryption)));
        assert_eq!(verify(&key(16, 2), b"aad", b"footer", &signature), failed);
        assert_eq!(verify(&key(16, 1), b"aad", b"footer!", &signature), failed);
        assert_eq!(verify(&key(16, 1), b"", b"footer", &signature), failed);
        for cut in 0..SIGNATURE_LEN {
            assert_eq!(verify(&key(16, 1), b"aad", b"footer", &signature[..cut]), failed, "{cut} bytes");
        }
        let mut damaged = signature;
        damaged[27] ^= 0x80;
        assert_eq!(verify(&key(16, 1), b"aad", b"footer", &damaged), failed);
    }

    #[test]
    fn every_module_has_a_new_nonce() {
        let modules = [0; 2].map(|_| seal(&key(32, 1), b"", b"same").unwrap());
        assert_ne!(modules[0], modules[1]);
    }
}
