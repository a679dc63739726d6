//! `aetheel recover`.

use super::settings::Settings;
use crate::cli::exit;

pub(super) async fn run(settings: Settings, dry_run: bool, json: bool) -> u8 {
    let _ = (settings, dry_run, json);
    exit::SOFTWARE
}
