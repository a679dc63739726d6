//! `aetheel backend rollback`.

use crate::app::settings::Settings;
use crate::cli::exit;

pub(in crate::app) async fn run(settings: Settings, name: String) -> u8 {
    let _ = (settings, name);
    exit::SOFTWARE
}
