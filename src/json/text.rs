//! Strings inside JSON text.

/// A string, still with its escapes. It is valid Unicode when they are replaced.
#[derive(Debug, Clone, Copy)]
pub struct Text<'a> {
    pub(super) raw: &'a str,
    pub(super) has_escapes: bool,
}

impl<'a> Text<'a> {
    /// Returns the string if it has no escapes.
    pub fn plain(&self) -> Option<&'a str> {
        (!self.has_escapes).then_some(self.raw)
    }

    /// Returns the string, with the help of a buffer if it has escapes.
    pub fn decode<'b>(&self, buffer: &'b mut String) -> &'b str
    where
        'a: 'b,
    {
        if !self.has_escapes {
            return self.raw;
        }
        buffer.clear();
        let mut rest = self.raw;
        while let Some((before, escape)) = rest.split_once('\\') {
            buffer.push_str(before);
            rest = push_escape(escape, buffer);
        }
        buffer.push_str(rest);
        buffer
    }
}

/// Appends the character of an escape, without its backslash. Returns the text after it.
fn push_escape<'a>(escape: &'a str, buffer: &mut String) -> &'a str {
    let mut rest = escape.chars();
    match rest.next() {
        Some('u') => {
            let (high, mut after) = unit(rest.as_str());
            let mut code = u32::from(high);
            if is_high(high) {
                let (low, after_low) = unit(after.strip_prefix("\\u").unwrap_or(after));
                code = 0x1_0000 + (u32::from(high & 0x3ff) << 10 | u32::from(low & 0x3ff));
                after = after_low;
            }
            buffer.push(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER));
            return after;
        }
        Some('b') => buffer.push('\u{8}'),
        Some('f') => buffer.push('\u{c}'),
        Some('n') => buffer.push('\n'),
        Some('r') => buffer.push('\r'),
        Some('t') => buffer.push('\t'),
        Some(other) => buffer.push(other),
        None => {}
    }
    rest.as_str()
}

/// Splits four hexadecimal digits, which the scanner has checked, from the text after them.
fn unit(text: &str) -> (u16, &str) {
    let (digits, rest) = text.split_at_checked(4).unwrap_or((text, ""));
    (u16::from_str_radix(digits, 16).unwrap_or(0), rest)
}

/// Returns true for the first half of a surrogate pair.
pub(super) fn is_high(unit: u16) -> bool {
    (0xd800..0xdc00).contains(&unit)
}

/// Returns true for the second half of a surrogate pair.
pub(super) fn is_low(unit: u16) -> bool {
    (0xdc00..0xe000).contains(&unit)
}
