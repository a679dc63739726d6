//! What all pages share for somebody who is signed in: the menu, and the field of forms.

use axum::http::StatusCode;
use axum::response::Response;
use maud::{Markup, html};

use super::frame::whole;
use super::guard::Guest;

/// How often a page that shows what changes is loaded again where no script runs and somebody wants
/// it, seconds.
const AGAIN: u32 = 5;

/// A page of the menu.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Here {
    Now,
    Transcripts,
    Channels,
    Costs,
    Components,
    Schedules,
    Health,
}

impl Here {
    const ALL: [Self; 7] = [
        Self::Now,
        Self::Transcripts,
        Self::Channels,
        Self::Costs,
        Self::Components,
        Self::Schedules,
        Self::Health,
    ];

    /// Whether it is for owners alone.
    fn is_for_owners(self) -> bool {
        matches!(self, Self::Components | Self::Schedules | Self::Health)
    }

    fn title(self) -> &'static str {
        match self {
            Self::Now => "Now",
            Self::Transcripts => "Transcripts",
            Self::Channels => "Channels",
            Self::Costs => "Costs",
            Self::Components => "Components",
            Self::Schedules => "Schedules and hooks",
            Self::Health => "Health",
        }
    }

    fn path(self) -> &'static str {
        match self {
            Self::Now => "/",
            Self::Transcripts => "/turns",
            Self::Channels => "/channels",
            Self::Costs => "/costs",
            Self::Components => "/components",
            Self::Schedules => "/schedules",
            Self::Health => "/health",
        }
    }
}

/// A page of the menu for somebody who is signed in. `lives`: it shows what changes.
pub(super) fn page(guest: &Guest, here: Here, lives: bool, main: &Markup) -> Response {
    let main = html! {
        @if lives { noscript { (still_or_again(guest.again)) } }
        (main)
    };
    let again = (lives && guest.again).then_some(AGAIN);
    inner(guest, Some(here), here.title(), again, &main)
}

/// Any page for somebody who is signed in. `again`: it is loaded again after so many seconds.
pub(super) fn inner(
    guest: &Guest,
    here: Option<Here>,
    title: &str,
    again: Option<u32>,
    main: &Markup,
) -> Response {
    let said = guest.session.take_said();
    let refresh = again.filter(|_| said.is_none());
    let body = html! {
        header {
            p.brand { "Aetheel" }
            nav aria-label="Pages" {
                ul {
                    @for page in Here::ALL.into_iter().filter(|page| guest.standing.owner || !page.is_for_owners()) {
                        li { a href=(page.path()) aria-current=[(Some(page) == here).then_some("page")] { (page.title()) } }
                    }
                }
            }
            form.leave method="post" action="/leave" {
                (csrf(guest))
                bdi.who { (guest.session.visitor.name) }
                button type="submit" { "Sign out" }
            }
        }
        main id="main" tabindex="-1" {
            h1 { (title) }
            @if let Some(said) = said {
                p.said role="status" { (said) }
            }
            (main)
        }
    };
    whole(StatusCode::OK, title, refresh, &body)
}

/// Where no script runs, a page stands still until somebody wants it otherwise: what they write into
/// it would be gone.
fn still_or_again(again: bool) -> Markup {
    html! {
        p {
            @if again {
                "This page loads itself again every " (AGAIN) " seconds. "
                a href="?" { "Have it stand still" } " before you write something."
            } @else {
                "This page stands still. " a href="?again" { "Load it again every " (AGAIN) " seconds" } "."
            }
        }
    }
}

/// The field by which a form is known to be one of ours.
pub(super) fn csrf(guest: &Guest) -> Markup {
    html! { input type="hidden" name="csrf" value=(guest.session.csrf()); }
}
