//! The prompt of a command, quoted in one line above messages about it, because others see only the
//! name of the command. Depends on the event alone, so that it is the same in every attempt and
//! every process. Pure.

use super::markdown::escape;
use super::mention::generic_mentions;
use aetheel_model::event::{Event, EventOrigin};
use aetheel_model::plain::short_line;
use aetheel_model::redact::Redactor;

/// The beginning of the line, by which it is recognised.
const MARK: &str = "> 💬 ";
const MAX_QUOTE_CHARS: usize = 200;

/// Returns the line above the answer to an event, or `None` if people see the prompt anyway or no
/// person wrote one.
pub(crate) fn for_event(event: &Event, redactor: &Redactor) -> Option<String> {
    matches!(event.origin, EventOrigin::Interaction { .. })
        .then(|| quote_line(&event.prompt, redactor))
}

/// Returns the line above a message about a prompt: the beginning of the prompt without secrets,
/// mentions and formatting.
pub(crate) fn quote_line(prompt: &str, redactor: &Redactor) -> String {
    // The prompt is redacted before it is cut, so that no part of a secret remains.
    let prompt = redactor.redact(prompt.to_owned());
    format!("{MARK}{}", escape(&short_line(&generic_mentions(&prompt), MAX_QUOTE_CHARS)))
}

/// Puts a text below its line, so that a quotation at the beginning of the text does not join the
/// line.
pub(crate) fn with_quote(heading: Option<&str>, text: &str) -> String {
    match heading {
        None => text.to_owned(),
        Some(heading) if text.is_empty() => heading.to_owned(),
        Some(heading) if text.starts_with('>') => format!("{heading}\n\n{text}"),
        Some(heading) => format!("{heading}\n{text}"),
    }
}

/// Removes the line from a message of the bot, because the agent already has the prompt.
pub(crate) fn strip_quote(content: &str) -> &str {
    if !content.starts_with(MARK) {
        return content;
    }
    content.split_once('\n').map_or("", |(_, text)| text.trim_start_matches('\n'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::MAX_MESSAGE_CHARS;
    use aetheel_model::split::split;

    fn heading(prompt: &str) -> String {
        quote_line(prompt, &Redactor::new(&["hunter22".to_owned().into()]))
    }

    #[test]
    fn a_prompt_becomes_one_line_without_formatting_and_mentions() {
        for (prompt, shown) in [
            ("fix the build", "> 💬 fix the build"),
            ("# one\n> two\r\n```rust", "> 💬 \\# one \\> two \\`\\`\\`rust"),
            ("ask <@7> in <#9> ||now||", "> 💬 ask @somebody in \\#channel \\|\\|now\\|\\|"),
            ("[Owner]: the key is hunter22", "> 💬 \\[Owner\\]: the key is \\*\\*\\*"),
        ] {
            assert_eq!(heading(prompt), shown, "{prompt:?}");
        }
        let long = heading(&"*".repeat(9_000));
        assert!(
            long.chars().count() <= 2 * MAX_QUOTE_CHARS + MARK.chars().count()
                && long.ends_with('…'),
            "{long}"
        );
    }

    #[test]
    fn text_below_a_quote_is_recovered_and_fits() {
        let heading = heading("go");
        for text in ["Done.", "> quoted\nand answered", "```rust\nlet a;\n```", ""] {
            assert_eq!(strip_quote(&with_quote(Some(&heading), text)), text);
            assert_eq!(strip_quote(text), text, "other text is not changed");
        }
        assert_eq!(with_quote(None, "Done."), "Done.");
        let long = "words ".repeat(900);
        let pieces = split(&with_quote(Some(&heading), &long), MAX_MESSAGE_CHARS);
        assert!(
            pieces[0].starts_with("> 💬 go\nwords")
                && pieces.iter().all(|piece| piece.chars().count() <= MAX_MESSAGE_CHARS),
            "{pieces:?}"
        );
    }
}
