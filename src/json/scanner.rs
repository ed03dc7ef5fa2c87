//! The scanner: a position in JSON text.

use super::text::{Text, is_high, is_low};

/// Containers may be nested this deeply.
const MAX_DEPTH: usize = 64;

/// Numbers may have this many characters. Python refuses integers with thousands of digits.
const MAX_DIGITS: usize = 1000;

/// A position in JSON text. The methods return `None` for text that is not JSON, and for text beyond the limits.
#[derive(Debug, Clone)]
pub struct Scanner<'a> {
    text: &'a str,
    at: usize,
}

/// A value that is neither an object nor an array.
#[derive(Debug, Clone, Copy)]
pub enum Scalar<'a> {
    /// `null`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A number.
    Number(Number<'a>),
    /// A string that is valid Unicode.
    Text(Text<'a>),
}

/// A number as it is written.
#[derive(Debug, Clone, Copy)]
pub struct Number<'a> {
    /// The characters of the number.
    pub text: &'a str,
    /// Whether it has neither a fraction nor an exponent.
    pub is_integer: bool,
}

impl<'a> Scanner<'a> {
    /// Creates a scanner at the start of a text.
    pub fn new(text: &'a str) -> Self {
        Self { text, at: 0 }
    }

    /// Returns the next byte that is not whitespace.
    pub fn peek(&mut self) -> Option<u8> {
        loop {
            match self.byte()? {
                b' ' | b'\t' | b'\n' | b'\r' => self.at += 1,
                byte => return Some(byte),
            }
        }
    }

    /// Returns the number of bytes read.
    pub fn position(&self) -> usize {
        self.at
    }

    /// Returns whether only whitespace remains.
    pub fn is_at_end(&mut self) -> bool {
        self.peek().is_none()
    }

    /// Reads an object. Calls `member` with each key, at the value that `member` must read.
    pub fn object(&mut self, mut member: impl FnMut(&mut Self, Text<'a>) -> Option<()>) -> Option<()> {
        self.expect(b'{')?;
        if self.accept(b'}') {
            return Some(());
        }
        loop {
            let key = self.string()?;
            self.expect(b':')?;
            member(self, key)?;
            if !self.accept(b',') {
                return self.expect(b'}');
            }
        }
    }

    /// Reads an array. Calls `element` at each element, which `element` must read.
    pub fn array(&mut self, mut element: impl FnMut(&mut Self) -> Option<()>) -> Option<()> {
        self.expect(b'[')?;
        if self.accept(b']') {
            return Some(());
        }
        loop {
            element(self)?;
            if !self.accept(b',') {
                return self.expect(b']');
            }
        }
    }

    /// Reads a value that is neither an object nor an array.
    pub fn scalar(&mut self) -> Option<Scalar<'a>> {
        match self.peek()? {
            b'"' => self.string().map(Scalar::Text),
            b'-' | b'0'..=b'9' => self.number().map(Scalar::Number),
            b't' => self.word("true").map(|()| Scalar::Bool(true)),
            b'f' => self.word("false").map(|()| Scalar::Bool(false)),
            b'n' => self.word("null").map(|()| Scalar::Null),
            _ => None,
        }
    }

    /// Reads `null` if it is next.
    pub fn null(&mut self) -> bool {
        self.peek() == Some(b'n') && self.word("null").is_some()
    }

    /// Reads a value of any kind.
    pub fn skip(&mut self) -> Option<()> {
        self.skip_nested(0)
    }

    fn skip_nested(&mut self, depth: usize) -> Option<()> {
        if depth > MAX_DEPTH {
            return None;
        }
        match self.peek()? {
            b'{' => self.object(|input, _| input.skip_nested(depth + 1)),
            b'[' => self.array(|input| input.skip_nested(depth + 1)),
            _ => self.scalar().map(drop),
        }
    }

    fn byte(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn rest(&self) -> &'a [u8] {
        self.text.as_bytes().get(self.at..).unwrap_or_default()
    }

    fn accept(&mut self, byte: u8) -> bool {
        let is_next = self.peek() == Some(byte);
        self.at += usize::from(is_next);
        is_next
    }

    fn expect(&mut self, byte: u8) -> Option<()> {
        self.accept(byte).then_some(())
    }

    fn word(&mut self, word: &str) -> Option<()> {
        let is_next = self.rest().starts_with(word.as_bytes());
        self.at += word.len();
        is_next.then_some(())
    }

    /// Reads a string. Refuses halves of surrogate pairs, which are not Unicode.
    fn string(&mut self) -> Option<Text<'a>> {
        self.expect(b'"')?;
        let (start, mut has_escapes) = (self.at, false);
        loop {
            self.at += plain_len(self.rest());
            match self.byte()? {
                b'"' => break,
                b'\\' => has_escapes = true,
                // Control characters must be escaped.
                _ => return None,
            }
            self.at += 1;
            self.escape()?;
        }
        let raw = self.text.get(start..self.at)?;
        self.at += 1;
        Some(Text { raw, has_escapes })
    }

    /// Reads an escape after its backslash.
    fn escape(&mut self) -> Option<()> {
        let byte = self.byte()?;
        self.at += 1;
        match byte {
            b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => Some(()),
            b'u' => {
                let unit = self.unit()?;
                if is_high(unit) {
                    self.word("\\u")?;
                    return is_low(self.unit()?).then_some(());
                }
                (!is_low(unit)).then_some(())
            }
            _ => None,
        }
    }

    fn unit(&mut self) -> Option<u16> {
        let digits = self.text.get(self.at..self.at + 4)?;
        self.at += 4;
        // `from_str_radix` would accept a sign.
        if digits.bytes().all(|byte| byte.is_ascii_hexdigit()) { u16::from_str_radix(digits, 16).ok() } else { None }
    }

    fn number(&mut self) -> Option<Number<'a>> {
        let start = self.at;
        self.at += usize::from(self.byte() == Some(b'-'));
        let leading = self.byte();
        let digits = self.digits();
        if digits == 0 || (digits > 1 && leading == Some(b'0')) {
            return None;
        }
        let mut is_integer = true;
        if self.byte() == Some(b'.') {
            (self.at, is_integer) = (self.at + 1, false);
            if self.digits() == 0 {
                return None;
            }
        }
        if let Some(b'e' | b'E') = self.byte() {
            (self.at, is_integer) = (self.at + 1, false);
            self.at += usize::from(matches!(self.byte(), Some(b'+' | b'-')));
            if self.digits() == 0 {
                return None;
            }
        }
        let text = self.text.get(start..self.at)?;
        (text.len() <= MAX_DIGITS).then_some(Number { text, is_integer })
    }

    fn digits(&mut self) -> usize {
        let count = self.rest().iter().take_while(|byte| byte.is_ascii_digit()).count();
        self.at += count;
        count
    }
}

/// Returns the number of bytes before the first quote, backslash or control character. Reads eight bytes at a time.
fn plain_len(bytes: &[u8]) -> usize {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x8080_8080_8080_8080;
    let below = |word: u64, limit: u8| word.wrapping_sub(ONES * u64::from(limit)) & !word & HIGH;
    let (words, rest) = bytes.as_chunks::<8>();
    for (number, &word) in words.iter().enumerate() {
        let word = u64::from_le_bytes(word);
        // A bit above the lowest may be wrong, because of a borrow, but the lowest is right.
        let special =
            below(word ^ (ONES * u64::from(b'"')), 1) | below(word ^ (ONES * u64::from(b'\\')), 1) | below(word, 0x20);
        if special != 0 {
            return number * 8 + special.trailing_zeros() as usize / 8;
        }
    }
    let is_special = |&byte: &u8| byte == b'"' || byte == b'\\' || byte < 0x20;
    words.len() * 8 + rest.iter().position(is_special).unwrap_or(rest.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_json(text: &str) -> bool {
        let mut input = Scanner::new(text);
        input.skip().is_some() && input.is_at_end()
    }

    fn decoded(text: &str) -> Option<String> {
        match Scanner::new(text).scalar()? {
            Scalar::Text(text) => Some(text.decode(&mut String::new()).to_owned()),
            _ => None,
        }
    }

    #[test]
    fn json_is_read_and_everything_else_is_refused() {
        for text in [
            "0",
            "-0",
            "12.50",
            "1e5",
            "-1E+5",
            "1.5e-3",
            "true",
            "false",
            "null",
            "\"\"",
            " [ ] ",
            "{ }",
            "[1,[2,{}]]",
            "{\"a\" : 1 , \"b\":[null]}\r\n\t",
        ] {
            assert!(is_json(text), "{text}");
        }
        for text in [
            "",
            " ",
            "01",
            "-",
            "+1",
            ".5",
            "5.",
            "1e",
            "1e+",
            "NaN",
            "Infinity",
            "tru",
            "truex",
            "'a'",
            "\"a",
            "[1,]",
            "[1 2]",
            "{a:1}",
            "{\"a\"}",
            "{\"a\":1,}",
            "{,}",
            "[",
            "{",
            "}",
            "1 2",
            "\"\t\"",
            "\"\\x\"",
            "\"\\u12g4\"",
            "\"\\u+123\"",
            "\u{feff}1",
            "\u{a0}1",
        ] {
            assert!(!is_json(text), "{text}");
        }
        assert!(is_json(&"[".repeat(64)) == is_json("["), "an end is missing");
        assert!(is_json(&format!("{}{}", "[".repeat(64), "]".repeat(64))));
        assert!(!is_json(&format!("{}{}", "[".repeat(66), "]".repeat(66))));
        assert!(is_json(&"1".repeat(MAX_DIGITS)) && !is_json(&"1".repeat(MAX_DIGITS + 1)));
    }

    #[test]
    fn escapes_are_replaced() {
        assert_eq!(decoded(r#""a\"\\\/\b\f\n\r\tü""#).unwrap(), "a\"\\/\u{8}\u{c}\n\r\tü");
        assert_eq!(decoded(r#""\u0041\u00fC\u20ac""#).unwrap(), "Aü€");
        assert_eq!(decoded(r#""x\ud83d\ude00y""#).unwrap(), "x😀y");
        for halves in [r#""\ud83d""#, r#""\ude00""#, r#""\ud83d\u0041""#, r#""\ud83dx""#, r#""\ud83d\n""#] {
            assert_eq!(decoded(halves), None, "{halves}");
        }
    }

    #[test]
    fn strings_end_at_the_first_special_byte() {
        for len in 0..40 {
            for (at, special) in (0..len).flat_map(|at| [b'"', b'\\', 0, 0x1f].map(|special| (at, special))) {
                let mut bytes = vec![if at % 2 == 0 { 0xff } else { 0x21 }; len];
                bytes[at] = special;
                assert_eq!(plain_len(&bytes), at);
            }
            assert_eq!(plain_len(&vec![b'#'; len]), len);
        }
    }
}
