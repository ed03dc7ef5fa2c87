//! Parquet modular encryption, as far as filters and metadata need it: AES-GCM modules, their AADs, and keys.
//!
//! Page bodies of AES_GCM_CTR_V1 are not read here. Whatever fails to authenticate is one error without a reason, since a
//! reason would help only an attacker.

mod aad;
mod gcm;
mod key;

pub use aad::{FileAad, Module};
pub use gcm::{MODULE_OVERHEAD, SIGNATURE_LEN, module_len, open, seal, sign, split_module, verify};
pub use key::{Key, KeyRing};
