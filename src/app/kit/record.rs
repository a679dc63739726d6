//! `aetheel backend record`.

use std::path::PathBuf;

use crate::cli::exit;

pub(in crate::app) async fn run(output: Option<PathBuf>, prompt: String, command: Vec<String>) -> u8 {
    let _ = (output, prompt, command);
    exit::SOFTWARE
}
