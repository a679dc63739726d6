//! The folders that commands need without other settings.

use std::path::PathBuf;

use super::VARIABLES;
use super::reader::VariableReader;

/// Returns the folder of compiled backends, for commands that need no other setting.
#[must_use]
pub fn cache_dir(variable: impl Fn(&str) -> Option<String>) -> PathBuf {
    folder("CACHE_DIR", &variable)
}

/// Returns the folder of markdown files, for commands that need no other setting.
#[must_use]
pub fn config_dir(variable: impl Fn(&str) -> Option<String>) -> PathBuf {
    folder("CONFIG_DIR", &variable)
}

fn folder(name: &str, variable: &dyn Fn(&str) -> Option<String>) -> PathBuf {
    let row = VARIABLES.iter().find(|row| row.name == name);
    row.map(|row| VariableReader::new(variable).path(row)).unwrap_or_default()
}
