//! The hash of a key, from which its fingerprint is made.

use crate::hash::{hash_bytes, hash_u64};
use crate::sieve::key::axis::Bytes;

/// A key that can be hashed.
///
/// Keys are canonical: values that compare equal have equal keys, so they have equal hashes. A point is not a substitute,
/// because different byte strings can share a point.
pub trait HashedKey {
    /// Returns the XXH64 hash (seed 0) of the key. Numbers are hashed as little-endian bytes.
    fn key_hash(&self) -> u64;
}

impl HashedKey for u64 {
    #[inline]
    fn key_hash(&self) -> u64 {
        hash_u64(*self)
    }
}

impl HashedKey for u128 {
    #[inline]
    fn key_hash(&self) -> u64 {
        hash_bytes(&self.to_le_bytes())
    }
}

impl HashedKey for Bytes {
    #[inline]
    fn key_hash(&self) -> u64 {
        hash_bytes(self.as_slice())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sieve::key::axis::{double, signed};

    #[test]
    fn values_that_compare_equal_have_equal_hashes() {
        assert_eq!(double(-0.0).unwrap().key_hash(), double(0.0).unwrap().key_hash());
        assert_ne!(signed(0).key_hash(), signed(1).key_hash());
        let long = vec![b'x'; 2000];
        assert_eq!(Bytes::new(&long).key_hash(), Bytes::new(&long[..1024]).key_hash());
        assert_eq!(0x0807_0605_0403_0201u64.key_hash(), hash_bytes(&[1, 2, 3, 4, 5, 6, 7, 8]));
    }
}
