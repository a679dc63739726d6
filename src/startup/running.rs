//! Whether a gateway serves a configuration folder now.

use crate::config::Config;
use crate::workspace::Serving;

/// The gateway that serves the folder now; see [`Serving::of`].
pub fn gateway_of(config: &Config) -> Option<u32> {
    Serving::of(&config.config_dir).map(|serving| serving.pid)
}
