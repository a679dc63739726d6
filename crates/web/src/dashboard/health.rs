//! The page with the state of the gateway, for owners: the content of `/livez` and `/readyz` in
//! words.

use axum::response::Response;
use maud::{Markup, html};

use super::super::status::within_limit;
use super::access::Owner;
use super::components::Facts;
use super::layout::{self, MenuPage};
use aetheel_model::plain::short_line;

/// The reason that is shown if a check does not end in time.
const LATE: &str = "the check takes too long";

pub(super) async fn page(Owner(user): Owner) -> Response {
    let health = &user.shared.health;
    let (alive, unready) =
        tokio::join!(within_limit(health.alive(), LATE), within_limit(health.unready(), LATE));
    let stats = user.services().observer.stats();
    let oldest = stats.oldest_ms.map(|ms| format!(", the oldest for {} s", ms / 1_000));
    let turns = html! {
        (stats.running) " running, " (stats.waiting) " waiting" (oldest.unwrap_or_default())
    };
    let facts = Facts::default()
        .row("Running", yes_or_reasons(&alive))
        .row("Ready to answer", yes_or_reasons(&unready))
        .row("Turns", turns)
        .row("Questions waiting for people", stats.questions)
        .row("Connected agents", stats.links)
        .row("Version", concat!("Aetheel ", env!("CARGO_PKG_VERSION")));
    layout::page(&user, MenuPage::Health, true, &html! { (facts) })
}

fn yes_or_reasons(reasons: &[String]) -> Markup {
    html! {
        @if reasons.is_empty() { "yes" } @else {
            "no"
            ul { @for reason in reasons { li { (short_line(reason, 300)) } } }
        }
    }
}
