//! The page with the state of the gateway, for owners: the content of `/livez` and `/readyz` in
//! words.

use std::time::Duration;

use axum::response::Response;
use maud::{Markup, html};

use super::access::Owner;
use super::components::Facts;
use super::layout::{self, MenuPage};
use aetheel_model::plain::short_line;

/// Time limit for the program's answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

pub(super) async fn page(Owner(user): Owner) -> Response {
    let late = || vec!["the check takes too long".to_owned()];
    let health = &user.shared.health;
    let (alive, unready) = tokio::join!(
        tokio::time::timeout(ANSWER_TIMEOUT, health.alive()),
        tokio::time::timeout(ANSWER_TIMEOUT, health.unready()),
    );
    let (alive, unready) = (alive.unwrap_or_else(|_| late()), unready.unwrap_or_else(|_| late()));
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
