//! Times of pages. The script converts them to the reader's time zone.

use jiff::Timestamp;
use maud::{Markup, html};

/// Renders a time of day.
pub(super) fn clock(at: Timestamp) -> Markup {
    html! { time datetime=(at.strftime("%Y-%m-%dT%H:%M:%SZ")) { (at.strftime("%H:%M UTC")) } }
}

/// Renders a day and a time.
pub(super) fn day(at: Timestamp) -> Markup {
    html! { time datetime=(at.strftime("%Y-%m-%dT%H:%M:%SZ")) data-day { (at.strftime("%Y-%m-%d %H:%M UTC")) } }
}
