//! `aetheel backend replay`.

use std::path::PathBuf;

use crate::cli::exit;

pub(in crate::app) async fn run(component: PathBuf, recording: PathBuf, diff: Option<PathBuf>, json: bool) -> u8 {
    let _ = (component, recording, diff, json);
    exit::SOFTWARE
}
