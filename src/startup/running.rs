//! Finds the gateway that uses a configuration folder.

use crate::config::Config;
use crate::workspace::LockOwner;

/// Returns the process id of the gateway that uses the configuration folder now; see
/// [`LockOwner::current`].
pub fn gateway_of(config: &Config) -> Option<u32> {
    LockOwner::current(&config.config_dir).map(|serving| serving.pid)
}
