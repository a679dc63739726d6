//! Discord's formatting. Pure.

use aetheel_model::shown_time::mark_length;

/// Returns a plain text of the gateway as Markdown: commands between backticks become code, web
/// addresses remain links, times are shown in the reader's time zone, and everything else is escaped.
pub(crate) fn with_code_and_links(text: &str) -> String {
    let lines: Vec<String> = text.lines().map(line_with_code_and_links).collect();
    lines.join("\n")
}

fn line_with_code_and_links(line: &str) -> String {
    let (mut shown, mut rest) = (String::with_capacity(line.len() + 8), line);
    while let Some(at) = rest.find(['`', 'h', '<']) {
        shown.push_str(&escape(&rest[..at]));
        rest = &rest[at..];
        let length =
            code_length(rest).or_else(|| address_length(rest)).or_else(|| time_length(rest));
        let (part, after) = rest.split_at(length.unwrap_or(1));
        match length {
            Some(_) => shown.push_str(part),
            None => shown.push_str(&escape(part)),
        }
        rest = after;
    }
    shown + &escape(rest)
}

/// Returns the length of the code at the beginning of a line.
fn code_length(line: &str) -> Option<usize> {
    let code = line.strip_prefix('`')?;
    code.find('`').filter(|end| *end > 0).map(|end| end + 2)
}

pub(crate) fn escape_around_times(text: &str) -> String {
    let (mut shown, mut rest) = (String::with_capacity(text.len() + 8), text);
    while let Some(at) = rest.find('<') {
        shown.push_str(&escape(&rest[..at]));
        rest = &rest[at..];
        let time = time_length(rest);
        let (part, after) = rest.split_at(time.unwrap_or(1));
        match time {
            Some(_) => shown.push_str(part),
            None => shown.push_str(&escape(part)),
        }
        rest = after;
    }
    shown + &escape(rest)
}

/// Returns the length of the time at the beginning of a text.
fn time_length(text: &str) -> Option<usize> {
    text.starts_with("<t:").then(|| mark_length(text)).flatten()
}

/// Returns the length of the web address at the beginning of a text. It ends before a character
/// that could end a link or begin formatting.
pub(crate) fn address_length(text: &str) -> Option<usize> {
    (text.starts_with("https://") || text.starts_with("http://")).then(|| {
        text.find(|c: char| c.is_whitespace() || "<>()[]`|*\\\"".contains(c)).unwrap_or(text.len())
    })
}

pub(crate) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        if "\\*_~`|>#[]()<".contains(c) {
            escaped.push('\\');
        }
        escaped.push(c);
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_and_addresses_are_kept_and_the_rest_is_escaped() {
        for (text, shown) in [
            ("run `aetheel doctor --all`", "run `aetheel doctor --all`"),
            ("see <https://a.example/b_c>, *now*", "see \\<https://a.example/b_c\\>, \\*now\\*"),
            ("one ` alone", "one \\` alone"),
            ("``", "\\`\\`"),
            ("a `b\nc` d", "a \\`b\nc\\` d"),
            ("hello <@1>", "hello \\<@1\\>"),
            ("at <t:1795701600:t>, <t:x>", "at <t:1795701600:t>, \\<t:x\\>"),
        ] {
            assert_eq!(with_code_and_links(text), shown, "{text:?}");
        }
    }
}
