//! `aetheel backend install`.

use std::path::PathBuf;

use crate::app::settings::Settings;
use crate::cli::exit;

pub(in crate::app) async fn run(settings: Settings, component: PathBuf, pin: bool) -> u8 {
    let _ = (settings, component, pin);
    exit::SOFTWARE
}
