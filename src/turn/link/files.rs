//! What a link keeps for its guest: private files, secrets and the bytes of attachments, and the bodies made of them.

use std::collections::HashMap;
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::Arc;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD as STANDARD;
use tempfile::TempPath;

use crate::agent::{Chunk, PutFile, TurnKey};
use crate::turn::Blob;

/// Secrets a link may have.
const SECRETS: usize = 8;
/// Times a guest may send the bytes of one file; each time they stand in memory once more.
const DELIVERIES: u8 = 4;

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
    pub(super) fn put(&mut self, file: &PutFile, stock: &mut Stock) -> Result<(), String> {
        let name = &file.name;
        let plain = (1..=64).contains(&name.len())
            && !name.starts_with('.')
            && name.bytes().all(|b| b.is_ascii_alphanumeric() || b".-_".contains(&b));
        if !plain {
            return Err(format!("{name:?} is not a plain file name"));
        }
        let body = stock.body(&file.body)?;
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

/// What goes into bodies and no guest ever sees: random secrets by the guest's name, made on first use, and the bytes of
/// files that came with its turns. Gone with the link.
#[derive(Default)]
pub(super) struct Stock {
    secrets: HashMap<String, String>,
    blobs: HashMap<u32, Kept>,
}

/// Bytes that came with a turn.
struct Kept {
    turn: TurnKey,
    bytes: Arc<[u8]>,
    /// How often they may still be sent.
    left: u8,
}

impl Stock {
    /// Returns the secret of a name: 64 hexadecimal digits, 244 bits of them random.
    pub(super) fn secret(&mut self, name: &str) -> Result<&str, String> {
        if !self.secrets.contains_key(name) && (self.secrets.len() >= SECRETS || name.len() > 64) {
            return Err(format!("a link has at most {SECRETS} secrets with names of 64 bytes"));
        }
        let made = || format!("{}{}", uuid::Uuid::new_v4().simple(), uuid::Uuid::new_v4().simple());
        Ok(self.secrets.entry(name.to_owned()).or_insert_with(made))
    }

    /// Returns the secret of a name that was used before.
    pub(super) fn known(&self, name: &str) -> Option<&str> {
        self.secrets.get(name).map(String::as_str)
    }

    /// Keeps the bytes that came with a turn.
    pub(super) fn keep(&mut self, turn: TurnKey, blobs: Vec<Blob>) {
        self.blobs.extend(blobs.into_iter().map(|blob| (blob.key, Kept { turn, bytes: blob.bytes, left: DELIVERIES })));
    }

    /// Lets go of the bytes that came with a turn.
    pub(super) fn let_go(&mut self, turn: TurnKey) {
        self.blobs.retain(|_, kept| kept.turn != turn);
    }

    /// Puts a body together.
    pub(super) fn body(&mut self, chunks: &[Chunk]) -> Result<Vec<u8>, String> {
        let mut bytes = Vec::new();
        for chunk in chunks {
            match chunk {
                Chunk::Text(text) => bytes.extend_from_slice(text.as_bytes()),
                Chunk::Secret(name) => bytes.extend_from_slice(self.secret(name)?.as_bytes()),
                Chunk::Base64(key) => {
                    let kept = self.blobs.get_mut(key).ok_or_else(|| format!("there is no blob {key}"))?;
                    kept.left = kept.left.checked_sub(1).ok_or_else(|| format!("blob {key} was sent {DELIVERIES} times already"))?;
                    bytes.extend_from_slice(STANDARD.encode(&kept.bytes).as_bytes());
                }
            }
        }
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_blob_is_sent_as_base64_only_so_often_and_only_while_its_turn_is_open() {
        let blob = |key| Blob { key, bytes: Arc::from(&b"\x89PNG"[..]) };
        let mut stock = Stock::default();
        stock.keep(1, vec![blob(16)]);
        stock.keep(2, vec![blob(32)]);
        let body = [Chunk::Text("<".into()), Chunk::Base64(16), Chunk::Text(">".into())];
        for _ in 0..DELIVERIES {
            assert_eq!(stock.body(&body), Ok(b"<iVBORw==>".to_vec()));
        }
        // However often a guest repeats it, the host's memory is bounded.
        assert!(stock.body(&body).is_err_and(|reason| reason.contains("4 times")));
        assert!(stock.body(&[Chunk::Base64(1)]).is_err(), "nobody sent it");
        stock.let_go(2);
        assert!(stock.body(&[Chunk::Base64(32)]).is_err(), "its turn is over");
    }
}
