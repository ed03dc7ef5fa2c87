//! Parquet modular encryption, as far as filters and metadata need it: AES-GCM modules, their AADs, and keys.
//!
//! Whatever fails to authenticate is one error without a reason, since a
//! reason would help only an attacker.

//! What needs no cipher is always there; the ciphers and keys come with the feature `crypto`.

mod aad;
#[cfg(feature = "crypto")]
mod ctr;
mod frame;
#[cfg(feature = "crypto")]
mod gcm;
#[cfg(feature = "crypto")]
mod key;

pub use aad::{FileAad, Module};
#[cfg(feature = "crypto")]
pub use ctr::decrypt_ctr;
pub use frame::{MODULE_OVERHEAD, SIGNATURE_LEN, module_len, split_module};
#[cfg(feature = "crypto")]
pub use gcm::{open, seal, sign, verify};
#[cfg(feature = "crypto")]
pub use key::{Key, KeyRing};
