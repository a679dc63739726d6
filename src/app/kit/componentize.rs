//! `aetheel backend componentize`.

use std::path::PathBuf;

use crate::cli::exit;

pub(in crate::app) fn run(module: PathBuf, output: PathBuf) -> u8 {
    let _ = (module, output);
    exit::SOFTWARE
}
