//! The dashboard, with the real program, a local Discord, and a headless browser.

mod audit;
mod channels;
mod costs;
mod hostile;
mod hostile_fields;
mod later_turns;
mod limits;
mod owners;
mod signing_in;
mod start_page;
mod step_viewer;
mod transcripts;
mod waits;

use super::{installed, serving};
use crate::support::discord::LocalDiscord;
use crate::support::program::Installation;

/// Returns an installation with a dashboard.
pub(super) fn with_dashboard(local: &LocalDiscord) -> Installation {
    installed(local).with("DASHBOARD_ADDRESS", "127.0.0.1:0")
}
