//! Private files of a link and the bodies of what goes to an agent.

use std::collections::HashMap;
use std::io::Write as _;
use std::path::PathBuf;

use tempfile::TempPath;

use crate::agent::{Chunk, PutFile};

/// Files a link may put, and their size in bytes.
const FILES: usize = 8;
const FILE_SIZE: usize = 1 << 20;

/// Private files of a link; gone with it.
#[derive(Default)]
pub(super) struct Files {
    /// By the guest's name.
    pub(super) paths: HashMap<String, PathBuf>,
    /// Removes them. Without a folder of their own: making and removing one in every turn costs more than the turn.
    places: Vec<TempPath>,
}

impl Files {
    /// Writes a file, or says why not. One put again has its old place.
    pub(super) fn put(&mut self, file: &PutFile) -> Result<(), String> {
        let name = &file.name;
        let plain = (1..=64).contains(&name.len())
            && !name.starts_with('.')
            && name.bytes().all(|b| b.is_ascii_alphanumeric() || b".-_".contains(&b));
        if !plain {
            return Err(format!("{name:?} is not a plain file name"));
        }
        let body = body(&file.body)?;
        let place = self.paths.get(name);
        if body.len() > FILE_SIZE || (self.paths.len() >= FILES && place.is_none()) {
            return Err(format!("a link may put {FILES} files of {FILE_SIZE} bytes"));
        }
        if let Some(path) = place {
            return std::fs::write(path, body).map_err(|error| error.to_string());
        }
        // 0600, as tempfile makes its files.
        let mut made =
            tempfile::Builder::new().prefix("aetheel-").suffix(&format!("-{name}")).tempfile().map_err(|error| error.to_string())?;
        made.write_all(&body).map_err(|error| error.to_string())?;
        let place = made.into_temp_path();
        self.paths.insert(name.clone(), place.to_path_buf());
        self.places.push(place);
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
