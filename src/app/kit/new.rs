//! `aetheel backend new`.

use std::path::PathBuf;

use crate::cli::{Kind, Language, exit};

pub(in crate::app) fn run(name: String, lang: Language, kind: Kind, into: Option<PathBuf>) -> u8 {
    let _ = (name, lang, kind, into);
    exit::SOFTWARE
}
