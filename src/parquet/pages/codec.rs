//! Decompresses page bodies. The size claimed by the page header bounds the output, and is not trusted for allocations.

use std::io::Read;

use crate::error::{Error, ErrorKind, FileKind, Result};
use crate::int::to_usize;

/// The compression codec of a column chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Codec {
    Uncompressed,
    Snappy,
    Gzip,
    Brotli,
    /// LZ4 blocks in Hadoop's frames, a bare block, or an LZ4 frame. Writers use the same code for all three.
    Lz4Hadoop,
    Zstd,
    Lz4Raw,
}

impl Codec {
    pub(crate) fn from_code(code: i32) -> Result<Self> {
        Ok(match code {
            0 => Self::Uncompressed,
            1 => Self::Snappy,
            2 => Self::Gzip,
            4 => Self::Brotli,
            5 => Self::Lz4Hadoop,
            6 => Self::Zstd,
            7 => Self::Lz4Raw,
            other => return Err(Error::new(ErrorKind::File(FileKind::Compression(other)))),
        })
    }

    /// Decompresses `body` into exactly `len` bytes.
    ///
    /// The result is in `scratch`, or is `body` itself if it is not compressed. Reusing `scratch` for all pages saves
    /// allocating and zeroing memory for each.
    pub(crate) fn decompress<'a>(self, body: &'a [u8], len: u64, scratch: &'a mut Vec<u8>) -> Result<&'a [u8]> {
        let damaged = || Error::new(ErrorKind::File(FileKind::CompressedPage));
        let output_len = to_usize(len).ok_or_else(damaged)?;
        // Some writers compress an empty page to an empty body, which is not a valid stream of any codec.
        if body.is_empty() && output_len == 0 {
            return Ok(body);
        }
        let written = match self {
            Self::Uncompressed => return if body.len() == output_len { Ok(body) } else { Err(damaged()) },
            Self::Snappy => {
                // Snappy elements are at least 2 bytes long and produce at most 64 bytes.
                let claimed = snap::raw::decompress_len(body).ok().filter(|claimed| *claimed == output_len);
                let possible = claimed.filter(|claimed| *claimed <= body.len().saturating_mul(32) + 64);
                let plain = zeroed_prefix(scratch, possible.ok_or_else(damaged)?);
                snap::raw::Decoder::new().decompress(body, plain).ok()
            }
            Self::Gzip => read(flate2::read::MultiGzDecoder::new(body), len, scratch),
            Self::Brotli => read(brotli::Decompressor::new(body, 4096), len, scratch),
            // Decompress at once if the claimed size is plausible. A larger ratio is possible, but then memory grows
            // with the output.
            Self::Zstd if output_len <= body.len().saturating_mul(64) => {
                // Unlike `zeroed_prefix`, this does not write the memory twice.
                scratch.clear();
                scratch.reserve(output_len);
                zstd::bulk::Decompressor::new().and_then(|mut zstd| zstd.decompress_to_buffer(body, scratch)).ok()
            }
            Self::Zstd => zstd::Decoder::with_buffer(body).ok().and_then(|decoder| read(decoder, len, scratch)),
            Self::Lz4Raw => lz4_block(body, output_len, scratch),
            Self::Lz4Hadoop => lz4_hadoop(body, output_len, scratch)
                .or_else(|| read(lz4_flex::frame::FrameDecoder::new(body), len, scratch))
                .or_else(|| lz4_block(body, output_len, scratch)),
        };
        written
            .filter(|written| *written == output_len)
            .and_then(|output_len| scratch.get(..output_len))
            .ok_or_else(damaged)
    }
}

/// Returns the first `len` bytes of a vector, which grows if necessary.
fn zeroed_prefix(scratch: &mut Vec<u8>, len: usize) -> &mut [u8] {
    if scratch.len() < len {
        // Replace the vector instead of resizing it, because its content need not be copied.
        *scratch = vec![0; len];
    }
    &mut scratch[..len]
}

/// Reads the output of a decoder, up to one byte more than expected so that excess output is detected. Returns its
/// size.
fn read(decoder: impl Read, len: u64, scratch: &mut Vec<u8>) -> Option<usize> {
    scratch.clear();
    decoder.take(len + 1).read_to_end(scratch).ok()
}

fn lz4_block(body: &[u8], len: usize, scratch: &mut Vec<u8>) -> Option<usize> {
    // A length byte of LZ4 encodes at most 255 bytes.
    if len > body.len().saturating_mul(255) + 64 {
        return None;
    }
    lz4_flex::block::decompress_into(body, zeroed_prefix(scratch, len)).ok()
}

/// Decompresses Hadoop's frames: the plain length and the stored length, both big-endian, then a block.
fn lz4_hadoop(mut body: &[u8], len: usize, scratch: &mut Vec<u8>) -> Option<usize> {
    scratch.clear();
    let mut block_bytes = Vec::new();
    while !body.is_empty() {
        let (plain_len, rest) = body.split_first_chunk::<4>()?;
        let (stored_len, rest) = rest.split_first_chunk::<4>()?;
        let (plain_len, stored_len) = (u32::from_be_bytes(*plain_len), u32::from_be_bytes(*stored_len));
        let (block, rest) = rest.split_at_checked(to_usize(stored_len.into())?)?;
        let plain_len = to_usize(plain_len.into()).filter(|more| *more <= len - scratch.len())?;
        let written = lz4_block(block, plain_len, &mut block_bytes).filter(|written| *written == plain_len)?;
        scratch.extend_from_slice(&block_bytes[..written]);
        body = rest;
    }
    (scratch.len() == len).then_some(len)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decompress(codec: Codec, body: &[u8], len: u64) -> Result<Vec<u8>> {
        // The content of an earlier page must not become part of the result.
        codec.decompress(body, len, &mut vec![0xAA; 5000]).map(<[u8]>::to_vec)
    }

    const ALL: [Codec; 7] =
        [Codec::Uncompressed, Codec::Snappy, Codec::Gzip, Codec::Brotli, Codec::Lz4Hadoop, Codec::Zstd, Codec::Lz4Raw];

    #[test]
    fn wrong_lengths_are_errors_and_allocate_little() {
        for codec in ALL {
            for body in [&b"\x01"[..], b"not compressed by any codec", &[0xff; 100], &[0; 100]] {
                for len in [1, 99, 1 << 31, 1 << 62, u64::MAX - 1] {
                    let result = codec.decompress(body, len, &mut Vec::new()).map(<[u8]>::to_vec);
                    assert!(result.is_err() || len == 1, "{codec:?} {len}");
                }
            }
            assert_eq!(decompress(codec, &[], 0), Ok(vec![]), "{codec:?}");
        }
    }

    #[test]
    fn truncated_bodies_are_errors() {
        let plain: Vec<u8> = (0..3000u32).map(|i| (i % 11) as u8).collect();
        let bodies = [
            (Codec::Snappy, snap::raw::Encoder::new().compress_vec(&plain).unwrap()),
            (Codec::Lz4Raw, lz4_flex::block::compress(&plain)),
            (Codec::Zstd, zstd::encode_all(&plain[..], 3).unwrap()),
        ];
        for (codec, body) in bodies {
            assert_eq!(decompress(codec, &body, 3000).unwrap(), plain, "{codec:?}");
            for len in [0, 2999, 3001] {
                assert!(decompress(codec, &body, len).is_err(), "{codec:?} {len}");
            }
            for cut in 0..body.len() {
                assert!(decompress(codec, &body[..cut], 3000).is_err(), "{codec:?} cut at {cut}");
            }
        }
    }

    #[test]
    fn lz4_in_hadoop_frames_and_bare_blocks_is_decompressed() {
        let (first, second) = (vec![7; 500], vec![9; 20]);
        let frame = |plain: &[u8]| {
            let block = lz4_flex::block::compress(plain);
            let lens = [plain.len() as u32, block.len() as u32].map(u32::to_be_bytes).concat();
            [lens, block].concat()
        };
        let body = [frame(&first), frame(&second)].concat();
        assert_eq!(decompress(Codec::Lz4Hadoop, &body, 520).unwrap(), [first.clone(), second].concat());
        // Older writers use the same code for a bare block.
        assert_eq!(decompress(Codec::Lz4Hadoop, &lz4_flex::block::compress(&first), 500).unwrap(), first);
        assert!(Codec::from_code(3).is_err(), "LZO");
    }
}
