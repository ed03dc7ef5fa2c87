//! Filters as bytes: a header that is read names a size that exists, and a filter that is read is written alike.

use parsieve::bloom::{Sbbf, header};

/// Reads `data` as a filter.
pub fn run(data: &[u8]) {
    if let Ok(found) = header::decode(data, 0) {
        let encoded = header::encode(found.num_blocks).unwrap();
        assert_eq!(header::decode(&encoded, 0).unwrap().num_blocks, found.num_blocks);
    }
    if let Ok(filter) = Sbbf::from_bytes(data, 0) {
        assert_eq!(Sbbf::from_bytes(&filter.to_bytes().unwrap(), 0).unwrap(), filter);
    }
}
