//! What a link keeps for its guest: private files and secrets, and the bodies made of them.

use std::collections::HashMap;
use std::io::Write as _;
use std::path::PathBuf;

use tempfile::TempPath;

use crate::agent::{Chunk, PutFile};

/// Secrets a link may have.
const SECRETS: usize = 8;

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
    pub(super) fn put(&mut self, file: &PutFile, secrets: &mut Secrets) -> Result<(), String> {
        let name = &file.name;
        let plain = (1..=64).contains(&name.len())
            && !name.starts_with('.')
            && name.bytes().all(|b| b.is_ascii_alphanumeric() || b".-_".contains(&b));
        if !plain {
            return Err(format!("{name:?} is not a plain file name"));
        }
        let body = secrets.body(&file.body)?;
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

/// Random secrets of a link, by the guest's name; made on first use, gone with the link.
#[derive(Default)]
pub(super) struct Secrets(HashMap<String, String>);

impl Secrets {
    /// Returns the secret of a name: 64 hexadecimal digits, 244 bits of them random.
    pub(super) fn get(&mut self, name: &str) -> Result<&str, String> {
        if !self.0.contains_key(name) && (self.0.len() >= SECRETS || name.len() > 64) {
            return Err(format!("a link has at most {SECRETS} secrets with names of 64 bytes"));
        }
        let made = || format!("{}{}", uuid::Uuid::new_v4().simple(), uuid::Uuid::new_v4().simple());
        Ok(self.0.entry(name.to_owned()).or_insert_with(made))
    }

    /// Returns the secret of a name that was used before.
    pub(super) fn known(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// Puts a body together.
    pub(super) fn body(&mut self, chunks: &[Chunk]) -> Result<Vec<u8>, String> {
        let mut bytes = Vec::new();
        for chunk in chunks {
            match chunk {
                Chunk::Text(text) => bytes.extend_from_slice(text.as_bytes()),
                Chunk::Secret(name) => bytes.extend_from_slice(self.get(name)?.as_bytes()),
                Chunk::Base64(_) => return Err("attachments are not supported by this host".to_owned()),
            }
        }
        Ok(bytes)
    }
}
