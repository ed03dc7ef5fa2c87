//! Parquet modular encryption for filters and metadata: AES-GCM modules, their AADs, and keys.
//!
//! Every authentication failure gives the same error, because a reason would only help an attacker.
//!
//! AADs and frames are always available. Ciphers and keys require the feature `crypto`.

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
