//! The page with running turns, waiting prompts and reserved files.

use axum::response::Response;
use maud::html;

use super::access::SignedIn;
use super::layout::{self, MenuPage};
use super::{cards, claims};

pub(super) async fn page(user: SignedIn) -> Response {
    let seen = cards::visible_cards(&user, None).await;
    let reserved = claims::section(&user).await;
    let text = |lane: &_, event| user.shared.turns.text(lane, event).map(|(_, text)| text);
    let main = html! {
        div id="cards" data-live="/live" data-once="/live/once" { (seen.html(&user, text)) }
        (reserved)
    };
    layout::page(&user, MenuPage::Now, true, &main)
}
