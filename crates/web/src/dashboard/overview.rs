//! The page with running turns, waiting prompts and reserved files.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use maud::html;

use super::layout::{self, MenuPage};
use super::middleware::SignedIn;
use super::{DashboardState, cards, claims};

pub(super) async fn page(State(shared): State<Arc<DashboardState>>, guest: SignedIn) -> Response {
    let (seen, more) = cards::visible_cards(&shared, &guest, None).await;
    let reserved = claims::section(&shared, &guest).await;
    let text = |lane: &_, event| {
        shared.turns.text(&shared.services.observer, lane, event).map(|(_, text)| text)
    };
    let main = html! {
        div id="cards" data-live="/live" data-once="/live/once" { (cards::list((&seen, more), &guest, text)) }
        (reserved)
    };
    layout::page(&guest, MenuPage::Now, true, &main)
}
