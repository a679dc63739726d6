//! Finds the gateway that uses a configuration folder.

use aetheel_settings::Config;
use aetheel_store::workspace::LockOwner;

/// Returns the process id of the gateway that uses the configuration folder now; see
/// [`LockOwner::current`].
pub fn gateway_of(config: &Config) -> Option<u32> {
    LockOwner::current(&config.config_dir).map(|serving| serving.pid)
}
