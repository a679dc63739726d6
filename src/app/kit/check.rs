//! `aetheel backend check`.

use std::path::PathBuf;

use crate::cli::exit;

pub(in crate::app) async fn run(component: PathBuf, recordings: Vec<PathBuf>, json: bool) -> u8 {
    let _ = (component, recordings, json);
    exit::SOFTWARE
}
