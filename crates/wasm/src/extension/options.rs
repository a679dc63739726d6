//! The operator's options for a component: the file `X.json` beside `X.wasm`.

use std::io;
use std::path::{Path, PathBuf};

use crate::error::AdmissionError;
use aetheel_runtime::ordinary::read_ordinary;
use aetheel_store::disk::text_of;

/// Maximum size of the file in bytes.
const LIMIT: u64 = 64 << 10;

pub(super) fn path_of(component: &Path) -> PathBuf {
    component.with_extension("json")
}

/// Reads the options of a component. They are empty if there is no file. Blocks.
///
/// # Errors
/// [`AdmissionError::Options`] if the file cannot be read or is too long.
pub(super) fn read(component: &Path) -> Result<String, AdmissionError> {
    let path = path_of(component);
    match read_ordinary(&path, LIMIT).and_then(text_of) {
        Ok(text) => Ok(text),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(String::new()),
        Err(error) => Err(AdmissionError::Options { path, reason: error.to_string() }),
    }
}
