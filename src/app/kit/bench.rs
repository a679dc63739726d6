//! `aetheel backend bench`.

use std::path::PathBuf;

use crate::cli::exit;

pub(in crate::app) async fn run(component: PathBuf, recording: PathBuf, json: bool) -> u8 {
    let _ = (component, recording, json);
    exit::SOFTWARE
}
