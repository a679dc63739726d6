//! The frame of all pages, for whoever looks: style, script, and pages of one message.
//!
//! A page works without the script: forms are sent, and a page that shows what changes loads itself
//! again. Nothing is asked of anybody else, and nothing is written into a page but by `maud`, which
//! makes text of text.

use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use maud::{DOCTYPE, Markup, PreEscaped, html};

const STYLE: &str = include_str!("assets/style.css");
const ICON: &str = include_str!("assets/icon.svg");
const SCRIPT: &str = include_str!("assets/script.js");

/// A page with one message, for anybody.
pub(super) fn notice(status: StatusCode, title: &str, text: &str) -> Response {
    outside(status, title, &html! { p { (text) } })
}

/// A page for somebody who is not signed in.
pub(super) fn outside(status: StatusCode, title: &str, main: &Markup) -> Response {
    let body = html! {
        header { p.brand { "Aetheel" } }
        main id="main" tabindex="-1" { h1 { (title) } (main) }
    };
    whole(status, title, None, &body)
}

/// Any page. `refresh`: after so many seconds it is loaded again where no script runs.
pub(super) fn whole(
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

/// A line of text, for whoever is no browser or comes from somewhere strange.
pub(super) fn plain(status: StatusCode, text: &'static str) -> Response {
    (status, [(header::CONTENT_TYPE, "text/plain; charset=utf-8")], format!("{text}\n"))
        .into_response()
}

/// The page for an address that only takes forms.
pub(super) async fn form_only() -> Response {
    notice(
        StatusCode::METHOD_NOT_ALLOWED,
        "Nothing to show",
        "This address only takes forms. Go back to the page before and use its button.",
    )
}

/// The page that is not there.
pub(super) async fn nowhere() -> Response {
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

/// The end of a text: as much of it as takes at most so many bytes in a page, and whether something
/// is left out.
pub(super) fn tail(text: &str, most: usize) -> (&str, bool) {
    let mut left = most;
    for (at, c) in text.char_indices().rev() {
        let size = match c {
            '&' | '<' | '>' | '"' => 6,
            c => c.len_utf8(),
        };
        if size > left {
            return (&text[at + c.len_utf8()..], true);
        }
        left -= size;
    }
    (text, false)
}

/// Text that was made by `maud` before.
pub(super) fn made(html: &str) -> PreEscaped<&str> {
    PreEscaped(html)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_script_and_the_style_are_small_and_ask_nobody_else() {
        assert!(SCRIPT.len() <= 12 << 10, "{} bytes", SCRIPT.len());
        for file in [SCRIPT, STYLE] {
            assert!(!file.contains("//www") && !file.contains("http:") && !file.contains("https:"));
        }
        assert!(!STYLE.contains("@import") && !STYLE.contains("url("));
    }

    #[test]
    fn the_end_of_a_text_fits_however_it_is_escaped() {
        assert_eq!(tail("abc", 3), ("abc", false));
        assert_eq!(tail("abc", 2), ("bc", true));
        assert_eq!(tail("äöü", 5), ("öü", true));
        let (end, cut) = tail("<<<<<<", 20);
        assert!(cut && html! { (end) }.into_string().len() <= 20);
    }
}
