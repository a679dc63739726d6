use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;

use sha2::{Digest, Sha256};

use crate::WorkingDirectory;
use aetheel_model::agent::Attachment;
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
    /// Reads a file from the path at which it was stored for the agent. Returns `None` if the agent
    /// removed it or put something else in its place, such as a link to a file that it cannot read
    /// itself. Blocks.
    pub(crate) fn stored(file: &Attachment) -> Option<Self> {
        let path = Path::new(&file.path);
        let folder = WorkingDirectory::open(path.parent()?).ok()?;
        let opened = folder.open_file(Path::new(path.file_name()?)).ok()?;
        let size = u64::from(file.size);
        if !opened.metadata().is_ok_and(|found| found.is_file() && found.len() == size) {
            return None;
        }
        let mut bytes = Vec::new();
        opened.take(size).read_to_end(&mut bytes).ok()?;
        Some(Self { key: file.blob, bytes: bytes.into() })
    }

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

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_stored_file_that_the_agent_replaced_is_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        for name in ["work", "state"] {
            fs::create_dir(root.join(name)).unwrap();
        }
        fs::write(root.join("state/att-1.txt"), "secret").unwrap();
        let path = root.join("work/att-1.txt");
        let stored = || {
            Blob::stored(&Attachment {
                blob: 7,
                name: "notes.txt".to_owned(),
                media_type: "text/plain".to_owned(),
                size: 6,
                path: path.display().to_string(),
            })
        };
        assert_eq!(stored(), None, "it does not exist");
        fs::write(&path, "public").unwrap();
        assert_eq!(stored(), Some(Blob { key: 7, bytes: b"public"[..].into() }));
        fs::write(&path, "something longer").unwrap();
        assert_eq!(stored(), None, "it has another size");
        fs::remove_file(&path).unwrap();
        symlink(root.join("state/att-1.txt"), &path).unwrap();
        assert_eq!(stored(), None, "it is a link out of its folder");
        fs::rename(root.join("work"), root.join("moved")).unwrap();
        symlink("state", root.join("work")).unwrap();
        assert_eq!(stored(), None, "its folder is a link");
    }
}
