//! SHA-256 digests of blobs.

use std::fmt;

use aetheel_model::plain::hex;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// The name of the only algorithm, as it begins a digest.
const ALGORITHM: &str = "sha256:";
const HEX_DIGITS: usize = 64;

/// A digest such as `sha256:…`, with 64 lower-case hexadecimal digits.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct BlobDigest(String);

impl BlobDigest {
    /// Computes the digest of bytes.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        Self(format!("{ALGORITHM}{}", hex(&Sha256::digest(bytes))))
    }

    /// Parses a digest. Returns `None` for other algorithms and other forms.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let digits = text.strip_prefix(ALGORITHM)?;
        let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        (digits.len() == HEX_DIGITS && digits.bytes().all(is_digit)).then(|| Self(text.to_owned()))
    }

    /// Returns the whole text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the 64 hexadecimal digits.
    #[must_use]
    pub fn hex(&self) -> &str {
        &self.0[ALGORITHM.len()..]
    }
}

impl fmt::Display for BlobDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl TryFrom<String> for BlobDigest {
    type Error = String;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        Self::parse(&text)
            .ok_or_else(|| "a digest is `sha256:` and 64 lower-case hexadecimal digits".to_owned())
    }
}

impl From<BlobDigest> for String {
    fn from(digest: BlobDigest) -> Self {
        digest.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_complete_lower_case_sha256_digests_are_accepted() {
        let digest = BlobDigest::of(b"");
        assert_eq!(
            digest.to_string(),
            "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
        );
        assert_eq!(BlobDigest::parse(&digest.to_string()).as_ref(), Some(&digest));
        let hex = digest.hex();
        for other in [
            format!("sha512:{hex}"),
            format!("sha256:{}", hex.to_uppercase()),
            format!("sha256:{}", &hex[1..]),
            format!("sha256:../{}", &hex[3..]),
            hex.to_owned(),
        ] {
            assert_eq!(BlobDigest::parse(&other), None, "{other}");
        }
    }
}
