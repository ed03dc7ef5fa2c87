//! Decompression of page bodies, with output bounded by what the page header claims and grown only as it comes.

use std::io::Read;

use crate::error::{Error, ErrorKind, FileKind, Result};
use crate::int::to_usize;

/// The codec of a column chunk; the numbers are the format's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::parquet) enum Codec {
    Uncompressed,
    Snappy,
    Gzip,
    Brotli,
    /// Blocks in a frame of Hadoop's own, or none, or an LZ4 frame: three writers, one number.
    Lz4Hadoop,
    Zstd,
    Lz4Raw,
}

impl Codec {
    pub(in crate::parquet) fn from_code(code: i32) -> Result<Self> {
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

    /// The `len` bytes that `body` stands for. They lie in `scratch`, unless they are the body itself; a vector that is used
    /// again is cleared and mapped once, not for each page.
    pub(in crate::parquet) fn decompress<'a>(
        self,
        body: &'a [u8],
        len: u64,
        scratch: &'a mut Vec<u8>,
    ) -> Result<&'a [u8]> {
        let damaged = || Error::new(ErrorKind::File(FileKind::CompressedPage));
        let whole = to_usize(len).ok_or_else(damaged)?;
        // Some writers compress nothing into nothing, which is no valid stream of any codec.
        if body.is_empty() && whole == 0 {
            return Ok(body);
        }
        let written = match self {
            Self::Uncompressed => return if body.len() == whole { Ok(body) } else { Err(damaged()) },
            Self::Snappy => {
                // No element of Snappy stands for more than 64 bytes, and none is shorter than 2.
                let claimed = snap::raw::decompress_len(body).ok().filter(|claimed| *claimed == whole);
                let possible = claimed.filter(|claimed| *claimed <= body.len().saturating_mul(32) + 64);
                let plain = room(scratch, possible.ok_or_else(damaged)?);
                snap::raw::Decoder::new().decompress(body, plain).ok()
            }
            Self::Gzip => read(flate2::read::MultiGzDecoder::new(body), len, scratch),
            Self::Brotli => read(brotli::Decompressor::new(body, 4096), len, scratch),
            // At once where the claim is believable; it may stand for thousands of times its bytes, and then it must prove it.
            Self::Zstd if whole <= body.len().saturating_mul(64) => {
                zstd::bulk::decompress_to_buffer(body, room(scratch, whole)).ok()
            }
            Self::Zstd => zstd::Decoder::with_buffer(body).ok().and_then(|decoder| read(decoder, len, scratch)),
            Self::Lz4Raw => lz4_block(body, whole, scratch),
            Self::Lz4Hadoop => lz4_hadoop(body, whole, scratch)
                .or_else(|| read(lz4_flex::frame::FrameDecoder::new(body), len, scratch))
                .or_else(|| lz4_block(body, whole, scratch)),
        };
        written.filter(|written| *written == whole).and_then(|whole| scratch.get(..whole)).ok_or_else(damaged)
    }
}

/// The first `len` bytes of a vector that grows where it must.
fn room(scratch: &mut Vec<u8>, len: usize) -> &mut [u8] {
    if scratch.len() < len {
        // Nothing of it is worth copying.
        *scratch = vec![0; len];
    }
    &mut scratch[..len]
}

/// All that comes, and one byte more than is right so that too much is noticed; how much it was.
fn read(decoder: impl Read, len: u64, scratch: &mut Vec<u8>) -> Option<usize> {
    scratch.clear();
    decoder.take(len + 1).read_to_end(scratch).ok()
}

fn lz4_block(body: &[u8], len: usize, scratch: &mut Vec<u8>) -> Option<usize> {
    // A length byte of LZ4 stands for 255 bytes at most.
    if len > body.len().saturating_mul(255) + 64 {
        return None;
    }
    lz4_flex::block::decompress_into(body, room(scratch, len)).ok()
}

/// Frames of Hadoop: plain length and stored length, both big-endian, then one block.
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
        // What an earlier page left there must not be told as this one's.
        codec.decompress(body, len, &mut vec![0xAA; 5000]).map(<[u8]>::to_vec)
    }

    const ALL: [Codec; 7] =
        [Codec::Uncompressed, Codec::Snappy, Codec::Gzip, Codec::Brotli, Codec::Lz4Hadoop, Codec::Zstd, Codec::Lz4Raw];

    #[test]
    fn a_claim_that_the_bytes_do_not_keep_costs_no_memory() {
        for codec in ALL {
            for body in [&b"\x01"[..], b"not compressed by anybody", &[0xff; 100], &[0; 100]] {
                for len in [1, 99, 1 << 31, 1 << 62, u64::MAX - 1] {
                    let result = codec.decompress(body, len, &mut Vec::new()).map(<[u8]>::to_vec);
                    assert!(result.is_err() || len == 1, "{codec:?} {len}");
                }
            }
            assert_eq!(decompress(codec, &[], 0), Ok(vec![]), "{codec:?}");
        }
    }

    #[test]
    fn every_prefix_of_a_body_is_refused() {
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
    fn lz4_of_hadoop_has_frames_of_its_own() {
        let (first, second) = (vec![7; 500], vec![9; 20]);
        let frame = |plain: &[u8]| {
            let block = lz4_flex::block::compress(plain);
            let lens = [plain.len() as u32, block.len() as u32].map(u32::to_be_bytes).concat();
            [lens, block].concat()
        };
        let body = [frame(&first), frame(&second)].concat();
        assert_eq!(decompress(Codec::Lz4Hadoop, &body, 520).unwrap(), [first.clone(), second].concat());
        // Older writers put a bare block under the same number.
        assert_eq!(decompress(Codec::Lz4Hadoop, &lz4_flex::block::compress(&first), 500).unwrap(), first);
        assert!(Codec::from_code(3).is_err(), "LZO");
    }
}
