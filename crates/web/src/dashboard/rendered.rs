//! Renders the Markdown of agents' answers as HTML, and the results of tools in words. Pure.
//!
//! An agent cannot insert markup of its own: HTML is shown as text, links lead only to `http` and
//! `https`, and images are replaced by their descriptions.

use maud::{Markup, PreEscaped, html};
use pulldown_cmark::{
    Alignment, CowStr, Event, HeadingLevel, Options, Parser, Tag, TagEnd, html as writer,
};

use aetheel_model::agent::ToolStatus;
use aetheel_model::plain::clean_text;

/// How much longer than its source rendered Markdown may be. Above that, the source is shown
/// instead.
const GROWTH_LIMIT: usize = 6;
/// Extra bytes that rendered Markdown may always have.
const GROWTH_FREE: usize = 512;

/// Renders Markdown, or returns the text itself if it would become much larger.
pub(super) fn markdown(source: &str) -> Markup {
    let options =
        Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS;
    // For each open link, whether its tag is written.
    let mut links = Vec::new();
    let events = Parser::new_ext(source, options).filter_map(|event| safe(event, &mut links));
    let mut rendered = String::new();
    writer::push_html(&mut rendered, events);
    if rendered.len() > source.len() * GROWTH_LIMIT + GROWTH_FREE {
        return html! { div.plain { (source) } };
    }
    html! { div.markdown { (PreEscaped(rendered)) } }
}

/// Returns the event in a form that is safe to write, or `None` to leave it out.
fn safe<'a>(event: Event<'a>, links: &mut Vec<bool>) -> Option<Event<'a>> {
    Some(match event {
        Event::Html(text) | Event::InlineHtml(text) | Event::Text(text) => {
            Event::Text(visible(text))
        }
        Event::Code(text) => Event::Code(visible(text)),
        // Chat programs keep the line breaks of a message.
        Event::SoftBreak => Event::HardBreak,
        Event::Start(Tag::HtmlBlock) => Event::Start(Tag::Paragraph),
        Event::End(TagEnd::HtmlBlock) => Event::End(TagEnd::Paragraph),
        Event::Start(Tag::Image { .. }) | Event::End(TagEnd::Image) => return None,
        Event::Start(Tag::Link { ref dest_url, .. }) => {
            let address = dest_url.to_ascii_lowercase();
            links.push(address.starts_with("https://") || address.starts_with("http://"));
            return links.last().is_some_and(|written| *written).then_some(event);
        }
        Event::End(TagEnd::Link) => return links.pop().unwrap_or(false).then_some(event),
        // Lowered, because the page has headings of its own above the answer.
        Event::Start(Tag::Heading { level, id, classes, attrs }) => {
            Event::Start(Tag::Heading { level: below(level), id, classes, attrs })
        }
        Event::End(TagEnd::Heading(level)) => Event::End(TagEnd::Heading(below(level))),
        // Alignment would be an inline style, which the policy of the pages forbids.
        Event::Start(Tag::Table(columns)) => {
            Event::Start(Tag::Table(vec![Alignment::None; columns.len()]))
        }
        event => event,
    })
}

/// Removes characters that hide or reorder text. Entities can reintroduce them after the text was
/// cleaned.
fn visible(text: CowStr<'_>) -> CowStr<'_> {
    CowStr::from(clean_text(&text).into_owned())
}

fn below(level: HeadingLevel) -> HeadingLevel {
    match level {
        HeadingLevel::H1 | HeadingLevel::H2 => HeadingLevel::H4,
        HeadingLevel::H3 => HeadingLevel::H5,
        _ => HeadingLevel::H6,
    }
}

/// Returns the result of a tool in words, or `None` if it runs.
pub(super) fn tool_status(status: Option<ToolStatus>) -> Option<&'static str> {
    Some(match status? {
        ToolStatus::Ok => "done",
        ToolStatus::Failed => "failed",
        ToolStatus::Denied => "was denied",
        ToolStatus::Cancelled => "was stopped",
        ToolStatus::Unknown => "ended",
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// All tags that rendering may write.
    const TAGS: [&str; 24] = [
        "a",
        "blockquote",
        "br",
        "code",
        "del",
        "div",
        "em",
        "h4",
        "h5",
        "h6",
        "hr",
        "input",
        "li",
        "ol",
        "p",
        "pre",
        "strong",
        "table",
        "tbody",
        "td",
        "th",
        "thead",
        "tr",
        "ul",
    ];

    fn rendered(source: &str) -> String {
        markdown(source).into_string()
    }

    #[test]
    fn markdown_is_rendered() {
        let html = rendered(
            "# Result\n**green** and `a < b`\nnext\n\n```sh\nls\n```\n\n- [docs](https://example.org/a?b=c&d)",
        );
        for part in [
            "<h4>Result</h4>",
            "<strong>green</strong>",
            "<code>a &lt; b</code>",
            "<br />\nnext",
            "<pre><code class=\"language-sh\">ls\n</code></pre>",
            "<a href=\"https://example.org/a?b=c&amp;d\">docs</a>",
        ] {
            assert!(html.contains(part), "{part}: {html}");
        }
    }

    #[test]
    fn nothing_in_an_answer_becomes_markup_of_its_own() {
        for source in [
            "<script>alert(1)</script>",
            "a <img src=x onerror=alert(1)> b",
            "<!-- <script> --> <style>*{display:none}</style>",
            "[a](javascript:alert(1)) [b](JaVaScRiPt:alert(1)) [c](data:text/html,x) [d](/leave)",
            "<javascript:alert(1)> <mailto:a@b.c> [x][y]\n\n[y]: vbscript:x",
            "![a](https://evil.example/pixel.png) ![b](/leave)",
            "[![a](https://evil.example/x.png)](javascript:x)",
            "```\"><script>\nx\n```",
            "&lt;script&gt; &#60;img src=x&#62;",
            "[a](https://x.example/\"onmouseover=alert(1))",
        ] {
            let html = rendered(source);
            for bad in ["<script", "<img", "<style", "<!--", "href=\"/", "\"onmouseover"] {
                assert!(!html.contains(bad), "{source}: {html}");
            }
            assert!(html.matches("href=").count() == html.matches("href=\"http").count(), "{html}");
        }
    }

    #[test]
    fn entities_do_not_bring_back_characters_that_reorder_text() {
        let html = rendered("a&#x202e;b &#8203;c &#27;[2J `&#x202e;`");
        assert!(!html.contains(['\u{202e}', '\u{200b}', '\u{1b}']), "{html:?}");
    }

    #[test]
    fn markdown_that_would_become_much_larger_is_shown_as_it_is() {
        let source = ">".repeat(4_000) + "x";
        assert!(rendered(&source).starts_with("<div class=\"plain\">&gt;&gt;"));
    }

    proptest! {
        #[test]
        fn any_text_gives_only_known_tags(source in r#"([<>&"'`\[\]()!*_#|:/a\n ~-]|https://|javascript:|<a |<img |&#60;|\PC){0,80}"#) {
            let html = rendered(&source);
            for at in html.match_indices('<').map(|(at, _)| at) {
                let rest = html[at + 1..].trim_start_matches('/');
                let name: String = rest.chars().take_while(char::is_ascii_alphanumeric).collect();
                prop_assert!(TAGS.contains(&name.as_str()), "{name:?} in {html}");
            }
        }
    }
}
