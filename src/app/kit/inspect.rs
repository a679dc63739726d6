//! `aetheel backend inspect`.

use std::path::PathBuf;

use crate::cli::exit;

pub(in crate::app) async fn run(component: PathBuf, json: bool) -> u8 {
    let _ = (component, json);
    exit::SOFTWARE
}
