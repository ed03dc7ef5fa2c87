//! Filters as bytes. A decoded header contains a valid size, and a decoded filter can be encoded again.

use parsieve::bloom::{Sbbf, header};

/// Decodes `data` as a filter.
pub fn run(data: &[u8]) {
    if let Ok(decoded) = header::decode(data, 0) {
        let encoded = header::encode(decoded.num_blocks).unwrap();
        assert_eq!(header::decode(&encoded, 0).unwrap().num_blocks, decoded.num_blocks);
    }
    if let Ok(filter) = Sbbf::from_bytes(data, 0) {
        assert_eq!(Sbbf::from_bytes(&filter.to_bytes().unwrap(), 0).unwrap(), filter);
    }
}
