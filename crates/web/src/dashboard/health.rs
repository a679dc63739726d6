//! The page with the state of the gateway, for owners: the content of `/livez` and `/readyz` in
//! words.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::response::Response;
use maud::{Markup, html};

use super::layout::{self, MenuPage};
use super::middleware::SignedIn;
use super::{DashboardState, frame};
use aetheel_model::plain::short_line;

/// Time limit for the program's answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

pub(super) async fn page(State(shared): State<Arc<DashboardState>>, guest: SignedIn) -> Response {
    if !guest.standing.owner {
        return frame::not_found().await;
    }
    let late = || vec!["the check takes too long".to_owned()];
    let (alive, unready) = tokio::join!(
        tokio::time::timeout(ANSWER_TIMEOUT, shared.health.alive()),
        tokio::time::timeout(ANSWER_TIMEOUT, shared.health.unready()),
    );
    let (alive, unready) = (alive.unwrap_or_else(|_| late()), unready.unwrap_or_else(|_| late()));
    let stats = shared.services.observer.stats();
    let oldest = stats.oldest_ms.map(|ms| format!(", the oldest for {} s", ms / 1_000));
    let main = html! {
        dl {
            dt { "Running" } dd { (yes_or_reasons(&alive)) }
            dt { "Ready to answer" } dd { (yes_or_reasons(&unready)) }
            dt { "Turns" } dd { (stats.running) " running, " (stats.waiting) " waiting" (oldest.unwrap_or_default()) }
            dt { "Questions waiting for people" } dd { (stats.questions) }
            dt { "Connected agents" } dd { (stats.links) }
            dt { "Version" } dd { "Aetheel " (env!("CARGO_PKG_VERSION")) }
        }
    };
    layout::page(&guest, MenuPage::Health, true, &main)
}

fn yes_or_reasons(reasons: &[String]) -> Markup {
    html! {
        @if reasons.is_empty() { "yes" } @else {
            "no"
            ul { @for reason in reasons { li { (short_line(reason, 300)) } } }
        }
    }
}
