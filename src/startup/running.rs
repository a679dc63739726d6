//! Finds the gateway that uses a configuration folder.

use crate::workspace::LockOwner;
use aetheel_settings::Config;

/// Returns the process id of the gateway that uses the configuration folder now; see
/// [`LockOwner::current`].
pub fn gateway_of(config: &Config) -> Option<u32> {
    LockOwner::current(&config.config_dir).map(|serving| serving.pid)
}
