//! Decompression of page bodies, with output bounded by what the page header claims and grown only as it comes.

use std::borrow::Cow;
use std::io::Read;

use crate::error::{Error, ErrorKind, FileKind, Result};
use crate::int::{to_u64, to_usize};

/// The codec of a column chunk; the numbers are the format's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Codec {
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
    pub(super) fn from_code(code: i32) -> Result<Self> {
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

    /// The `len` bytes that `body` stands for.
    pub(super) fn decompress(self, body: &[u8], len: u64) -> Result<Cow<'_, [u8]>> {
        let damaged = || Error::new(ErrorKind::File(FileKind::CompressedPage));
        let whole = to_usize(len).ok_or_else(damaged)?;
        // Some writers compress nothing into nothing, which is no valid stream of any codec.
        if body.is_empty() && whole == 0 {
            return Ok(Cow::Borrowed(body));
        }
        let plain = match self {
            Self::Uncompressed => return if body.len() == whole { Ok(Cow::Borrowed(body)) } else { Err(damaged()) },
            Self::Snappy => {
                // No element of Snappy stands for more than 64 bytes, and none is shorter than 2.
                let claimed = snap::raw::decompress_len(body).ok().filter(|claimed| *claimed == whole);
                let possible = claimed.filter(|claimed| *claimed <= body.len().saturating_mul(32) + 64);
                let mut plain = vec![0; possible.ok_or_else(damaged)?];
                snap::raw::Decoder::new().decompress(body, &mut plain).ok().map(|_| plain)
            }
            Self::Gzip => read(flate2::read::MultiGzDecoder::new(body), len),
            Self::Brotli => read(brotli::Decompressor::new(body, 4096), len),
            Self::Zstd => zstd::Decoder::with_buffer(body).ok().and_then(|decoder| read(decoder, len)),
            Self::Lz4Raw => lz4_block(body, whole),
            Self::Lz4Hadoop => lz4_hadoop(body, whole)
                .or_else(|| read(lz4_flex::frame::FrameDecoder::new(body), len))
                .or_else(|| lz4_block(body, whole)),
        };
        plain.filter(|plain| plain.len() == whole).map(Cow::Owned).ok_or_else(damaged)
    }
}

/// All that comes, and one byte more than is right so that too much is noticed.
fn read(decoder: impl Read, len: u64) -> Option<Vec<u8>> {
    let mut plain = Vec::new();
    decoder.take(len + 1).read_to_end(&mut plain).ok()?;
    Some(plain)
}

fn lz4_block(body: &[u8], len: usize) -> Option<Vec<u8>> {
    // A length byte of LZ4 stands for 255 bytes at most.
    if len > body.len().saturating_mul(255) + 64 {
        return None;
    }
    let mut plain = vec![0; len];
    let written = lz4_flex::block::decompress_into(body, &mut plain).ok()?;
    (written == len).then_some(plain)
}

/// Frames of Hadoop: plain length and stored length, both big-endian, then one block.
fn lz4_hadoop(mut body: &[u8], len: usize) -> Option<Vec<u8>> {
    let mut plain = Vec::new();
    while !body.is_empty() {
        let (plain_len, rest) = body.split_first_chunk::<4>()?;
        let (stored_len, rest) = rest.split_first_chunk::<4>()?;
        let (plain_len, stored_len) = (u32::from_be_bytes(*plain_len), u32::from_be_bytes(*stored_len));
        let (block, rest) = rest.split_at_checked(to_usize(stored_len.into())?)?;
        let plain_len = to_usize(plain_len.into()).filter(|more| *more <= len - plain.len())?;
        plain.extend(lz4_block(block, plain_len)?);
        body = rest;
    }
    (to_u64(plain.len()) == to_u64(len)).then_some(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Codec; 7] =
        [Codec::Uncompressed, Codec::Snappy, Codec::Gzip, Codec::Brotli, Codec::Lz4Hadoop, Codec::Zstd, Codec::Lz4Raw];

    #[test]
    fn a_claim_that_the_bytes_do_not_keep_costs_no_memory() {
        for codec in ALL {
            for body in [&b"\x01"[..], b"not compressed by anybody", &[0xff; 100], &[0; 100]] {
                for len in [1, 99, 1 << 31, 1 << 62, u64::MAX - 1] {
                    let result = codec.decompress(body, len);
                    assert!(result.is_err() || len == 1, "{codec:?} {len}");
                }
            }
            assert_eq!(codec.decompress(&[], 0).as_deref(), Ok(&[][..]), "{codec:?}");
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
            assert_eq!(codec.decompress(&body, 3000).unwrap(), plain, "{codec:?}");
            for len in [0, 2999, 3001] {
                assert!(codec.decompress(&body, len).is_err(), "{codec:?} {len}");
            }
            for cut in 0..body.len() {
                assert!(codec.decompress(&body[..cut], 3000).is_err(), "{codec:?} cut at {cut}");
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
        assert_eq!(Codec::Lz4Hadoop.decompress(&body, 520).unwrap(), [first.clone(), second].concat());
        // Older writers put a bare block under the same number.
        assert_eq!(Codec::Lz4Hadoop.decompress(&lz4_flex::block::compress(&first), 500).unwrap(), first);
        assert!(Codec::from_code(3).is_err(), "LZO");
    }
}
