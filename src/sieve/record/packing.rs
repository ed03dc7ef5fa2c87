//! Packs short texts into words of 128 bits that sort like the texts, so that a build can sort words.
//!
//! A sample of the texts shows which kind of symbol each position has, such as hexadecimal digits, which take four bits.
//! A text with other symbols is not packed. The packing does not change the bytes of an index.

use crate::int::{index, low_u32, low_u64};
use crate::sieve::key::axis::Bytes;

/// The width of a word.
const WORD_BITS: u32 = 128;

/// A word has no room for more positions, unless most of them are constant.
const MAX_PLACES: usize = 64;

/// Marks a byte that is not a symbol of a position.
const OTHER: u16 = 1 << 15;

/// Ranges of bytes that a kind of text consists of, from few symbols to many.
const KINDS: [&[(u8, u8)]; 9] = [
    &[(b'0', b'9'), (b'a', b'f')],
    &[(b'0', b'9'), (b'A', b'F')],
    &[(b'a', b'z')],
    &[(b'A', b'Z')],
    &[(b'0', b'9'), (b'a', b'z')],
    &[(b'0', b'9'), (b'A', b'Z')],
    // The URL-safe alphabet of Base64.
    &[(b'-', b'-'), (b'0', b'9'), (b'A', b'Z'), (b'_', b'_'), (b'a', b'z')],
    &[(0, 127)],
    &[(0, 255)],
];

/// The symbols of some positions.
#[derive(Debug, PartialEq, Eq)]
struct Alphabet {
    /// In ascending order.
    symbols: Vec<u8>,
    /// The code of each byte, or [`OTHER`].
    codes: [u16; 256],
    bits: u32,
}

impl Alphabet {
    /// Numbers symbols, from `first` up.
    fn new(ranges: &[(u8, u8)], first: u16) -> Self {
        let symbols: Vec<u8> = ranges.iter().flat_map(|&(from, to)| from..=to).collect();
        let mut codes = [OTHER; 256];
        for (code, &symbol) in (first..).zip(&symbols) {
            codes[usize::from(symbol)] = code;
        }
        let most = symbols.len() - 1 + usize::from(first);
        Self { symbols, codes, bits: usize::BITS - most.leading_zeros() }
    }
}

/// A mapping from texts to words that is injective and keeps their order.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::sieve) struct Packing {
    alphabets: Vec<Alphabet>,
    /// The index of the alphabet of each position.
    places: Vec<usize>,
    /// True if texts can be shorter. The code 0 then means that the text has ended.
    varies: bool,
    /// A faster form of the same mapping, if there is one.
    digits: Option<Digits>,
}

impl Packing {
    /// Chooses a mapping for texts like these. Returns `None` if a word cannot hold them.
    pub(in crate::sieve) fn of<T: AsRef<[u8]>>(sample: impl Iterator<Item = T>) -> Option<Self> {
        let (mut occurs, mut lens) = (vec![[false; 256]; MAX_PLACES], [false; MAX_PLACES + 1]);
        for text in sample {
            let text = text.as_ref();
            *lens.get_mut(text.len())? = true;
            text.iter().zip(&mut occurs).for_each(|(&byte, occurs)| occurs[usize::from(byte)] = true);
        }
        let longest = lens.iter().rposition(|&occurs| occurs)?;
        let varies = lens[..longest].contains(&true);
        // The same symbol at the same position in all texts is only sure to be a constant if it is no letter or digit.
        let places = &occurs[..longest];
        let packing = Self::over(places, varies, |byte| !byte.is_ascii_alphanumeric());
        packing.or_else(|| Self::over(places, varies, |_| true))
    }

    fn over(places: &[[bool; 256]], varies: bool, constant: impl Fn(u8) -> bool) -> Option<Self> {
        let mut packing = Self { alphabets: Vec::new(), places: Vec::new(), varies, digits: None };
        let mut bits = 0;
        for occurs in places {
            let symbols: Vec<u8> = (0..=u8::MAX).filter(|&byte| occurs[usize::from(byte)]).collect();
            let alphabet = match symbols[..] {
                [only] if constant(only) => Alphabet::new(&[(only, only)], u16::from(varies)),
                _ => {
                    let holds = |ranges: &[(u8, u8)]| {
                        symbols.iter().all(|byte| ranges.iter().any(|(from, to)| (from..=to).contains(&byte)))
                    };
                    Alphabet::new(KINDS.into_iter().find(|ranges| holds(ranges))?, u16::from(varies))
                }
            };
            bits += alphabet.bits;
            let existing = packing.alphabets.iter().position(|other| *other == alphabet);
            packing.places.push(existing.unwrap_or(packing.alphabets.len()));
            if existing.is_none() {
                packing.alphabets.push(alphabet);
            }
        }
        packing.digits = Digits::of(&packing);
        (bits <= WORD_BITS).then_some(packing)
    }

    /// Packs a text, if its length and symbols allow it.
    #[inline]
    pub(in crate::sieve) fn pack(&self, text: &[u8]) -> Option<u128> {
        if let Some(digits) = &self.digits {
            return digits.pack(text);
        }
        if text.len() > self.places.len() || !self.varies && text.len() < self.places.len() {
            return None;
        }
        let (mut word, mut part, mut part_bits, mut all) = (0u128, 0u64, 0, 0);
        let mut bytes = text.iter();
        for &place in &self.places {
            let alphabet = &self.alphabets[place];
            let code = bytes.next().map_or(0, |&byte| alphabet.codes[usize::from(byte)]);
            all |= code;
            if part_bits + alphabet.bits > u64::BITS {
                word = word << part_bits | u128::from(part);
                (part, part_bits) = (0, 0);
            }
            part = part << alphabet.bits | u64::from(code);
            part_bits += alphabet.bits;
        }
        let word = word << part_bits | u128::from(part);
        (all & OTHER == 0).then_some(word)
    }

    /// Restores a text.
    pub(in crate::sieve) fn unpack(&self, mut word: u128) -> Bytes {
        if let Some(digits) = &self.digits {
            return digits.unpack(word);
        }
        let (mut text, mut len) = ([0; MAX_PLACES], self.places.len());
        for (at, &place) in self.places.iter().enumerate().rev() {
            let alphabet = &self.alphabets[place];
            let code = index(low_u32(low_u64(word) & ((1 << alphabet.bits) - 1)));
            word >>= alphabet.bits;
            match code.checked_sub(usize::from(self.varies)) {
                Some(symbol) => text[at] = alphabet.symbols.get(symbol).copied().unwrap_or_default(),
                None => len = at,
            }
        }
        Bytes::new(&text[..len])
    }
}

/// The most hexadecimal digits of a word.
const MAX_DIGITS: usize = 32;

/// Packs texts of lowercase hexadecimal digits between constants, such as UUIDs, without a loop over positions.
#[derive(Debug, PartialEq, Eq)]
struct Digits {
    /// A text with zeros as digits.
    zeros: Vec<u8>,
    /// The ranges of digits in a text, and the place of each in the digits of a word.
    ranges: Vec<(std::ops::Range<usize>, usize)>,
    /// The positions of constants.
    constants: Vec<usize>,
}

impl Digits {
    fn of(packing: &Packing) -> Option<Self> {
        let hexadecimal = Alphabet::new(KINDS[0], 0);
        let (mut zeros, mut constants, mut starts) = (Vec::new(), Vec::new(), Vec::new());
        for (position, &place) in packing.places.iter().enumerate() {
            let alphabet = &packing.alphabets[place];
            match alphabet.symbols[..] {
                [constant] if !packing.varies => {
                    constants.push(position);
                    zeros.push(constant);
                }
                _ if *alphabet == hexadecimal => {
                    starts.push(position);
                    zeros.push(b'0');
                }
                _ => return None,
            }
        }
        let mut digit = MAX_DIGITS.checked_sub(starts.len())?;
        let mut ranges = Vec::new();
        for range in starts.chunk_by(|a, b| a + 1 == *b) {
            ranges.push((range[0]..range[0] + range.len(), digit));
            digit += range.len();
        }
        Some(Self { zeros, ranges, constants })
    }

    #[inline]
    fn pack(&self, text: &[u8]) -> Option<u128> {
        if text.len() != self.zeros.len() {
            return None;
        }
        let mut digits = [b'0'; MAX_DIGITS];
        match <&[u8; MAX_DIGITS]>::try_from(text) {
            Ok(text) if self.constants.is_empty() => digits = *text,
            _ => {
                for (range, digit) in &self.ranges {
                    digits[*digit..*digit + range.len()].copy_from_slice(&text[range.clone()]);
                }
                if self.constants.iter().any(|&position| text[position] != self.zeros[position]) {
                    return None;
                }
            }
        }
        // No branches, so that the compiler vectorizes these loops.
        let (mut values, mut wrong) = ([0; MAX_DIGITS], 0);
        for (value, &byte) in values.iter_mut().zip(&digits) {
            let (digit, letter) = (byte.wrapping_sub(b'0'), byte.wrapping_sub(b'a'));
            *value = if digit < 10 { digit } else { letter.wrapping_add(10) };
            wrong |= u8::from((digit >= 10) & (letter >= 6));
        }
        let mut word = [0; MAX_DIGITS / 2];
        for (byte, pair) in word.iter_mut().zip(values.chunks_exact(2)) {
            *byte = pair[0] << 4 | pair[1] & 15;
        }
        (wrong == 0).then_some(u128::from_be_bytes(word))
    }

    #[inline]
    fn unpack(&self, word: u128) -> Bytes {
        let mut digits = [0; MAX_DIGITS];
        for (pair, byte) in digits.chunks_exact_mut(2).zip(word.to_be_bytes()) {
            (pair[0], pair[1]) = (byte >> 4, byte & 15);
        }
        for digit in &mut digits {
            *digit += if *digit < 10 { b'0' } else { b'a' - 10 };
        }
        if self.zeros.len() == MAX_DIGITS && self.constants.is_empty() {
            return Bytes::new(&digits);
        }
        let mut text = [0; MAX_PLACES];
        let text = &mut text[..self.zeros.len()];
        text.copy_from_slice(&self.zeros);
        for (range, digit) in &self.ranges {
            text[range.clone()].copy_from_slice(&digits[*digit..*digit + range.len()]);
        }
        Bytes::new(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn text() -> impl Strategy<Value = Vec<u8>> {
        let symbols =
            prop_oneof![2 => Just(&b"0123456789abcdef"[..]), 1 => Just(&b"0Z"[..]), 1 => Just(&b"\0-z\xff"[..])];
        (symbols, proptest::collection::vec(any::<u8>(), 0..20)).prop_map(|(symbols, places)| {
            places.into_iter().map(|place| symbols[usize::from(place) % symbols.len()]).collect()
        })
    }

    proptest! {
        #[test]
        fn words_sort_like_texts_and_unpack_to_them(
            sample in proptest::collection::vec(text(), 1..6),
            others in proptest::collection::vec(text(), 0..20),
        ) {
            let Some(packing) = Packing::of(sample.iter()) else { return Ok(()) };
            prop_assert!(sample.iter().all(|text| packing.pack(text).is_some()));
            let general = Packing { digits: None, ..Packing::of(sample.iter()).unwrap() };
            for text in sample.iter().chain(&others) {
                prop_assert_eq!(packing.pack(text), general.pack(text));
            }
            let mut packed: Vec<(u128, &[u8])> =
                sample.iter().chain(&others).filter_map(|text| Some((packing.pack(text)?, &text[..]))).collect();
            for &(word, text) in &packed {
                prop_assert_eq!(packing.unpack(word), Bytes::new(text));
                prop_assert_eq!(general.unpack(word), Bytes::new(text));
            }
            packed.sort();
            prop_assert!(packed.is_sorted_by(|a, b| (a.0 == b.0) == (a.1 == b.1) && a.1 <= b.1));
        }
    }

    proptest! {
        #[test]
        fn digits_between_constants_pack_like_other_texts(
            digits in proptest::collection::vec("[0-9a-f]{8}", 1..9),
            position in 0usize..18,
            symbol in prop_oneof![Just(b'/'), Just(b':'), Just(b'`'), Just(b'g'), Just(b'A'), any::<u8>()],
        ) {
            for format in [|text: &str| text.to_owned(), |text: &str| format!("{}-{}_{}", &text[..2], &text[2..3], &text[3..])] {
                let texts: Vec<String> = digits.iter().map(|text| format(text)).collect();
                let packing = Packing::of(texts.iter()).unwrap();
                prop_assert!(packing.digits.is_some());
                let general = Packing { digits: None, ..Packing::of(texts.iter()).unwrap() };
                let mut damaged = texts[0].clone().into_bytes();
                let len = damaged.len();
                damaged[position % len] = symbol;
                for text in texts.iter().map(String::as_bytes).chain([&damaged[..], &damaged[1..]]) {
                    let word = packing.pack(text);
                    prop_assert_eq!(word, general.pack(text));
                    prop_assert_eq!(word.map(|word| packing.unpack(word)), word.map(|_| Bytes::new(text)));
                }
            }
        }
    }

    fn of(texts: &[&str]) -> Option<Packing> {
        Packing::of(texts.iter())
    }

    #[test]
    fn a_uuid_and_32_hexadecimal_digits_fit_in_a_word() {
        let uuid = "123e4567-e89b-12d3-a456-426614174000";
        let packing = of(&[uuid]).unwrap();
        assert_eq!(packing.pack(uuid.as_bytes()), Some(0x123e4567_e89b_12d3_a456_426614174000));
        assert_eq!(packing.pack(b"123e4567+e89b-12d3-a456-426614174000"), None);
        assert_eq!(packing.pack(b"123E4567-e89b-12d3-a456-426614174000"), None);
        let digits = of(&["00000000000000000000000000000000"]).unwrap();
        assert_eq!(digits.pack(b"ffffffffffffffffffffffffffffffff"), Some(u128::MAX));
        assert_eq!(digits.pack(b"fffffffffffffffffffffffffffffff"), None);
    }

    #[test]
    fn words_of_three_parts_unpack_to_their_texts() {
        let texts = ["ghijklmnopqrstuvwxyzghijk", "zyxwvutsrqponmlkjihgzyxwv"];
        let packing = of(&texts).unwrap();
        let words = texts.map(|text| packing.pack(text.as_bytes()).unwrap());
        assert_eq!(words.map(|word| packing.unpack(word)), texts.map(|text| Bytes::new(text.as_bytes())));
        assert!(words[0] < words[1]);
    }

    #[test]
    fn a_long_common_prefix_takes_no_bits() {
        let texts = ["urn:uuid:123e4567-e89b-12d3-a456-426614174000", "urn:uuid:01234567-89ab-cdef-0123-456789abcdef"];
        let packing = of(&texts).unwrap();
        assert!(packing.pack(b"urn:uuid:023e4567-e89b-12d3-a456-426614174000").is_some());
        assert!(packing.pack(b"url:uuid:023e4567-e89b-12d3-a456-426614174000").is_none());
    }

    #[test]
    fn texts_that_need_more_bits_are_not_packed() {
        assert!(of(&["The quick brown fox jumps over a", "lazy dog, which does not wake up"]).is_none());
        assert!(of(&["a", "ü"]).is_some());
    }
}
