//! `aetheel backend bindings`.

use std::path::PathBuf;

use crate::cli::{Language, exit};

pub(in crate::app) fn run(lang: Language, out: PathBuf) -> u8 {
    let _ = (lang, out);
    exit::SOFTWARE
}
