//! What the bytes of a file say: its encoding, and what it is when it is no text.

/// How text lies in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// UTF-8, invalid parts allowed.
    Utf8,
    /// UTF-8 after a byte order mark.
    Utf8WithMark,
    /// UTF-16, low byte first, after a mark.
    Utf16Le,
    /// UTF-16, high byte first, after a mark.
    Utf16Be,
}

/// Bytes at the head of a file in which a NUL makes it no text.
pub const PROBE_BYTES: usize = 8192;

impl Encoding {
    /// The encoding by the byte order mark that a file begins with.
    pub fn of(head: &[u8]) -> Self {
        match head {
            [0xef, 0xbb, 0xbf, ..] => Self::Utf8WithMark,
            [0xff, 0xfe, ..] => Self::Utf16Le,
            [0xfe, 0xff, ..] => Self::Utf16Be,
            _ => Self::Utf8,
        }
    }

    /// Length of the mark in bytes.
    pub fn mark_bytes(self) -> usize {
        match self {
            Self::Utf8 => 0,
            Self::Utf8WithMark => 3,
            Self::Utf16Le | Self::Utf16Be => 2,
        }
    }

    /// Length of the smallest unit in bytes; characters begin at a multiple of it.
    pub fn unit_bytes(self) -> usize {
        match self {
            Self::Utf8 | Self::Utf8WithMark => 1,
            Self::Utf16Le | Self::Utf16Be => 2,
        }
    }

    /// The text as it lies in the file, without a mark.
    pub fn encode(self, text: &str) -> Vec<u8> {
        match self {
            Self::Utf8 | Self::Utf8WithMark => text.as_bytes().to_vec(),
            Self::Utf16Le => text.encode_utf16().flat_map(u16::to_le_bytes).collect(),
            Self::Utf16Be => text.encode_utf16().flat_map(u16::to_be_bytes).collect(),
        }
    }

    /// The text of bytes that hold no mark; what is invalid becomes U+FFFD.
    pub fn decode(self, bytes: &[u8]) -> String {
        let units = |join: fn([u8; 2]) -> u16| {
            let pairs = bytes.chunks_exact(2);
            let odd = !pairs.remainder().is_empty();
            let units = pairs.map(move |pair| join([pair[0], pair[1]]));
            let mut text: String = char::decode_utf16(units)
                .map(|c| c.unwrap_or(char::REPLACEMENT_CHARACTER))
                .collect();
            if odd {
                text.push(char::REPLACEMENT_CHARACTER);
            }
            text
        };
        match self {
            Self::Utf8 | Self::Utf8WithMark => String::from_utf8_lossy(bytes).into_owned(),
            Self::Utf16Le => units(u16::from_le_bytes),
            Self::Utf16Be => units(u16::from_be_bytes),
        }
    }

    /// Its name for people.
    pub fn name(self) -> &'static str {
        match self {
            Self::Utf8 => "UTF-8",
            Self::Utf8WithMark => "UTF-8 with a byte order mark",
            Self::Utf16Le => "UTF-16 LE",
            Self::Utf16Be => "UTF-16 BE",
        }
    }
}

/// The text of a whole file, its mark left out.
pub fn decode(bytes: &[u8]) -> String {
    let encoding = Encoding::of(bytes);
    encoding.decode(&bytes[encoding.mark_bytes()..])
}

/// Signatures of files that are no text.
const SIGNATURES: &[(&[u8], &str)] = &[
    (b"\x89PNG\r\n\x1a\n", "a PNG image"),
    (b"\xff\xd8\xff", "a JPEG image"),
    (b"GIF8", "a GIF image"),
    (b"%PDF-", "a PDF document"),
    (b"\x7fELF", "an ELF binary"),
    (b"PK\x03\x04", "a zip archive"),
    (b"\x1f\x8b", "a gzip archive"),
];

/// Says what a file is when its head shows that it is no text.
pub fn binary_kind(head: &[u8]) -> Option<&'static str> {
    let signed = SIGNATURES
        .iter()
        .find(|(signature, _)| head.starts_with(signature))
        .map(|(_, kind)| *kind);
    if signed.is_some() {
        return signed;
    }
    let probed = &head[..head.len().min(PROBE_BYTES)];
    (Encoding::of(head).unit_bytes() == 1 && probed.contains(&0)).then_some("binary data")
}

/// A size for people: `1,234 bytes`.
pub fn in_bytes(len: u64) -> String {
    let digits = len.to_string();
    let mut grouped = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    let noun = if len == 1 { "byte" } else { "bytes" };
    format!("{grouped} {noun}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_survives_each_encoding() {
        let text = "héllo 🎈\r\nx";
        for encoding in [
            Encoding::Utf8,
            Encoding::Utf8WithMark,
            Encoding::Utf16Le,
            Encoding::Utf16Be,
        ] {
            assert_eq!(encoding.decode(&encoding.encode(text)), text);
        }
        assert_eq!(decode(b"\xff\xfea\0b\0"), "ab");
        assert_eq!(decode(b"\xef\xbb\xbfab"), "ab");
        assert_eq!(Encoding::Utf16Le.decode(b"a\0b"), "a\u{fffd}");
    }

    #[test]
    fn what_is_no_text_is_named() {
        assert_eq!(binary_kind(b"\x89PNG\r\n\x1a\n.."), Some("a PNG image"));
        assert_eq!(binary_kind(b"\x7fELF"), Some("an ELF binary"));
        assert_eq!(binary_kind(b"a\0b"), Some("binary data"));
        assert_eq!(binary_kind(b"\xff\xfea\0"), None);
        assert_eq!(binary_kind(b"plain \xff text"), None);
    }

    #[test]
    fn sizes_are_grouped() {
        assert_eq!(in_bytes(1), "1 byte");
        assert_eq!(in_bytes(1_234_567), "1,234,567 bytes");
    }
}
