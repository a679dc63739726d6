//! Explains to the operator when a change of the serving component takes effect.

use crate::startup::running::gateway_of;
use aetheel_settings::Config;

/// Returns a sentence that explains when a change takes effect.
pub(super) fn takes_effect(config: &Config) -> String {
    match gateway_of(config) {
        Some(pid) => format!("the gateway (process {pid}) loads it now"),
        None => "no gateway runs here: the next start loads it, and an open `aetheel console` now"
            .to_owned(),
    }
}
