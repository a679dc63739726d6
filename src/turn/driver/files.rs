//! Private files of a link and the bodies of what goes to an agent.

use std::collections::HashMap;
use std::io::Write as _;
use std::path::PathBuf;

use crate::agent::{Chunk, PutFile};

/// Files a link may put, and their size in bytes.
const FILES: usize = 8;
const FILE_SIZE: usize = 1 << 20;

/// Private files of a link; gone with it.
#[derive(Default)]
pub(super) struct Files {
    folder: Option<tempfile::TempDir>,
    /// By the guest's name.
    pub(super) paths: HashMap<String, PathBuf>,
}

impl Files {
    /// Writes a file, or says why not.
    pub(super) fn put(&mut self, file: &PutFile) -> Result<(), String> {
        let name = &file.name;
        let plain = (1..=64).contains(&name.len())
            && !name.starts_with('.')
            && name.bytes().all(|b| b.is_ascii_alphanumeric() || b".-_".contains(&b));
        if !plain {
            return Err(format!("{name:?} is not a plain file name"));
        }
        let body = body(&file.body)?;
        if body.len() > FILE_SIZE || (self.paths.len() >= FILES && !self.paths.contains_key(name)) {
            return Err(format!("a link may put {FILES} files of {FILE_SIZE} bytes"));
        }
        let folder = match &self.folder {
            Some(folder) => folder,
            // 0700, as tempfile makes its folders.
            None => self.folder.insert(tempfile::Builder::new().prefix("aetheel-").tempdir().map_err(|error| error.to_string())?),
        };
        let path = folder.path().join(name);
        std::fs::File::create(&path).and_then(|mut place| place.write_all(&body)).map_err(|error| error.to_string())?;
        self.paths.insert(name.clone(), path);
        Ok(())
    }
}

/// Puts a body together.
pub(super) fn body(chunks: &[Chunk]) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    for chunk in chunks {
        match chunk {
            Chunk::Text(text) => bytes.extend_from_slice(text.as_bytes()),
            Chunk::Base64(_) => return Err("attachments are not supported by this host".to_owned()),
            Chunk::Secret(_) => return Err("secrets are not supported by this host".to_owned()),
        }
    }
    Ok(bytes)
}
