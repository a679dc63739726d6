//! The secrets of links, sessions and forms. They come from the system's random source, and only
//! their digests are stored, so that the time of a comparison reveals nothing. Pure, except for the
//! random source.

use std::fmt;

use sha2::{Digest as _, Sha256};
use uuid::Uuid;

use aetheel_model::plain::hex;

/// The digest of a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Digest([u8; 32]);

impl Digest {
    /// Parses 64 hexadecimal digits. Returns `None` for anything else.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let digits = Some(text).filter(|text| text.len() == 64 && text.is_ascii())?;
        let mut bytes = [0; 32];
        for (at, byte) in bytes.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&digits[2 * at..2 * at + 2], 16).ok()?;
        }
        Some(Self(bytes))
    }
}

impl fmt::Display for Digest {
    /// Writes 64 hexadecimal digits.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex(&self.0))
    }
}

/// Creates a secret of 244 random bits, as 64 hexadecimal digits.
pub(super) fn secret() -> String {
    format!("{}{}", Uuid::new_v4().simple(), Uuid::new_v4().simple())
}

pub(super) fn digest(secret: impl AsRef<[u8]>) -> Digest {
    Digest(Sha256::digest(secret).into())
}

/// Compares two secrets in constant time.
pub(super) fn same(one: &str, other: &str) -> bool {
    let (Digest(one), Digest(other)) = (digest(one), digest(other));
    one.iter().zip(other).fold(0, |differs, (a, b)| differs | (a ^ b)) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_long_and_different_and_equal_only_themselves() {
        let (one, other) = (secret(), secret());
        assert!(one.len() == 64 && one.bytes().all(|byte| byte.is_ascii_hexdigit()), "{one}");
        assert!(one != other && same(&one, &one) && !same(&one, &other));
        assert!(!same(&one, "") && !same(&one, &one[..63]));
        let saved = digest("abc");
        assert!(saved.to_string().starts_with("ba7816bf8f01cfea"));
        assert_eq!(Digest::parse(&saved.to_string()), Some(saved));
        assert_eq!((Digest::parse("ba78"), Digest::parse(&"x".repeat(64))), (None, None));
    }
}
