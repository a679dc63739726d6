//! The layout of all pages for signed-in users: the menu, and the message about the last form.

use axum::http::StatusCode;
use axum::response::Response;
use maud::{Markup, html};

use super::access::SignedIn;
use super::components::{Button, Form, Link, nav};
use super::frame::document;

/// Reload interval, in seconds, of a page with live content. Used if no script runs and the user
/// has requested reloading.
const RELOAD_SECONDS: u32 = 5;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MenuPage {
    Now,
    Transcripts,
    Channels,
    Costs,
    Backends,
    Schedules,
    Audit,
    Health,
}

impl MenuPage {
    const ALL: [Self; 8] = [
        Self::Now,
        Self::Transcripts,
        Self::Channels,
        Self::Costs,
        Self::Backends,
        Self::Schedules,
        Self::Audit,
        Self::Health,
    ];

    /// Returns whether only owners can open the page.
    fn is_for_owners(self) -> bool {
        matches!(self, Self::Backends | Self::Schedules | Self::Audit | Self::Health)
    }

    fn title(self) -> &'static str {
        match self {
            Self::Now => "Now",
            Self::Transcripts => "Transcripts",
            Self::Channels => "Channels",
            Self::Costs => "Costs",
            Self::Backends => "Backends",
            Self::Schedules => "Schedules and hooks",
            Self::Audit => "Audit",
            Self::Health => "Health",
        }
    }

    fn path(self) -> &'static str {
        match self {
            Self::Now => "/",
            Self::Transcripts => "/turns",
            Self::Channels => "/channels",
            Self::Costs => "/costs",
            Self::Backends => "/components",
            Self::Schedules => "/schedules",
            Self::Audit => "/audit",
            Self::Health => "/health",
        }
    }
}

/// Returns a page of the menu. `lives` means that the page has live content.
pub(super) fn page(user: &SignedIn, here: MenuPage, lives: bool, main: &Markup) -> Response {
    let main = html! {
        @if lives { noscript { (reload_notice(user.reload)) } }
        (main)
    };
    let again = (lives && user.reload).then_some(RELOAD_SECONDS);
    inner(user, Some(here), here.title(), again, &main)
}

/// Returns a page for a signed-in user. With `again`, browsers reload it after this number of
/// seconds.
pub(super) fn inner(
    user: &SignedIn,
    here: Option<MenuPage>,
    title: &str,
    again: Option<u32>,
    main: &Markup,
) -> Response {
    let notice = user.session.take_notice();
    let refresh = again.filter(|_| notice.is_none());
    let pages = MenuPage::ALL.into_iter().filter(|page| user.is_owner() || !page.is_for_owners());
    let links =
        pages.map(|page| Link::new(page.title(), page.path()).current("page", Some(page) == here));
    let sign_out = Form::post(user, "/leave")
        .class("leave")
        .with(html! { bdi.who { (user.name()) } })
        .with(Button::new("Sign out"));
    let body = html! {
        header {
            p.brand { "Aetheel" }
            (nav("Pages", None, links))
            (sign_out)
        }
        main id="main" tabindex="-1" {
            h1 { (title) }
            @if let Some(notice) = notice { p.said role="status" { (notice) } }
            (main)
        }
    };
    document(StatusCode::OK, title, refresh, &body)
}

/// Renders the link that starts or stops reloading for browsers without script. A page is not
/// reloaded unless the user requests it, because text in its fields would be lost.
fn reload_notice(again: bool) -> Markup {
    html! {
        p {
            @if again {
                "This page reloads every " (RELOAD_SECONDS) " seconds. "
                a href="?" { "Stop reloading" } " before you write something."
            } @else {
                "This page does not update. " a href="?again" { "Reload it every " (RELOAD_SECONDS) " seconds" } "."
            }
        }
    }
}
