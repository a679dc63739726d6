use std::sync::Arc;

use sha2::{Digest, Sha256};

use aetheel_model::plain::hex;

/// The bytes of a file that was attached to a turn. A guest knows the file only by its key.
#[derive(Clone, PartialEq, Eq)]
pub struct Blob {
    /// Unique among all turns of a link.
    pub key: u32,
    /// The whole file.
    pub bytes: Arc<[u8]>,
}

impl Blob {
    /// Returns the SHA-256 of the bytes, in hexadecimal digits.
    #[must_use]
    pub fn digest(&self) -> String {
        hex(&Sha256::digest(&self.bytes))
    }
}

impl std::fmt::Debug for Blob {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Blob({}, {} bytes)", self.key, self.bytes.len())
    }
}
