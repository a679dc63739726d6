//! The frame of all pages: style sheet, script, and pages with a single message.
//!
//! Pages work without the script: forms are submitted normally, and a page with live content can
//! reload itself. A page loads nothing from other sites. All content is inserted by `maud`, which
//! escapes text.

use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use maud::{DOCTYPE, Markup, html};

const STYLE: &str = include_str!("assets/style.css");
const ICON: &str = include_str!("assets/icon.svg");
const SCRIPT: &str = include_str!("assets/script.js");

/// Returns a page with one message, for anybody.
pub(super) fn notice(status: StatusCode, title: &str, text: &str) -> Response {
    outside(status, title, &html! { p { (text) } })
}

/// Returns a page for a user who is not signed in.
pub(super) fn outside(status: StatusCode, title: &str, main: &Markup) -> Response {
    let body = html! {
        header { p.brand { "Aetheel" } }
        main id="main" tabindex="-1" { h1 { (title) } (main) }
    };
    document(status, title, None, &body)
}

/// Returns a page. With `refresh`, browsers without script reload it after this number of seconds.
pub(super) fn document(
    status: StatusCode,
    title: &str,
    refresh: Option<u32>,
    body: &Markup,
) -> Response {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                meta name="robots" content="noindex, nofollow";
                title { (title) " · Aetheel" }
                link rel="stylesheet" href="/style.css";
                link rel="icon" href="/icon.svg" type="image/svg+xml";
                @if let Some(seconds) = refresh {
                    noscript { meta http-equiv="refresh" content=(seconds); }
                }
                script src="/script.js" defer {}
            }
            body {
                a.skip href="#main" { "Skip to the content" }
                (body)
            }
        }
    };
    (status, [(header::CONTENT_TYPE, "text/html; charset=utf-8")], page.into_string())
        .into_response()
}

/// Returns a line of text, for clients that are not browsers and for rejected requests.
pub(super) fn plain(status: StatusCode, text: &'static str) -> Response {
    (status, [(header::CONTENT_TYPE, "text/plain; charset=utf-8")], format!("{text}\n"))
        .into_response()
}

/// Returns the page for a URL that only accepts forms.
pub(super) async fn form_only() -> Response {
    notice(
        StatusCode::METHOD_NOT_ALLOWED,
        "Nothing to show",
        "This address only accepts forms. Go back to the previous page and use its button.",
    )
}

/// Returns the page for unknown URLs.
pub(super) async fn not_found() -> Response {
    notice(StatusCode::NOT_FOUND, "Not found", "There is no such page.")
}

pub(super) async fn style() -> Response {
    ([(header::CONTENT_TYPE, "text/css; charset=utf-8")], STYLE).into_response()
}

pub(super) async fn icon() -> Response {
    ([(header::CONTENT_TYPE, "image/svg+xml")], ICON).into_response()
}

pub(super) async fn script() -> Response {
    ([(header::CONTENT_TYPE, "text/javascript; charset=utf-8")], SCRIPT).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn script_and_style_are_small_and_load_nothing_from_other_sites() {
        assert!(SCRIPT.len() <= 12 << 10, "{} bytes", SCRIPT.len());
        for file in [SCRIPT, STYLE] {
            assert!(!file.contains("//www") && !file.contains("http:") && !file.contains("https:"));
        }
        assert!(!STYLE.contains("@import") && !STYLE.contains("url("));
    }
}
