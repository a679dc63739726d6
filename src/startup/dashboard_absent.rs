//! Stands for `dashboard` in a build without it.

use super::OptionalPart;
use aetheel_model::finding::Finding;
use aetheel_settings::Config;

/// Refuses the address of a dashboard.
pub fn finding(config: &Config) -> Option<Finding> {
    config.dashboard_address.map(|_| OptionalPart::Dashboard.refuse_setting("DASHBOARD_ADDRESS"))
}
