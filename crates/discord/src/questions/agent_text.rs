//! The text of an agent in a message of the gateway. It cannot look like a line of the gateway:
//! every line is a quotation, and links show their target. Pure.

use crate::text::markdown::{address_length, escape};
use crate::text::mention::generic_mentions;

/// Returns a text without formatting and mentions. Web addresses remain links.
pub(super) fn literal(text: &str) -> String {
    let text = generic_mentions(text);
    let (mut shown, mut rest) = (String::with_capacity(text.len() + 16), text.as_str());
    while let Some(at) = next_address(rest) {
        let (before, address) = rest.split_at(at);
        let (address, after) = address.split_at(address_length(address).unwrap_or_default());
        shown.push_str(&escape(before));
        shown.push_str(address);
        rest = after;
    }
    shown.push_str(&escape(rest));
    shown
}

/// Returns a Markdown text in which links show their target, and no line is written small as the
/// gateway's remarks are. Code and other formatting remain.
pub(super) fn readable_markdown(text: &str) -> String {
    let mut fence: Option<&str> = None;
    let mut lines = Vec::new();
    for line in text.lines() {
        let start = line.trim_start();
        let marks = ["```", "~~~"].into_iter().find(|marks| start.starts_with(marks));
        match (fence, marks) {
            (None, Some(marks)) => fence = Some(marks),
            (Some(open), Some(marks)) if open == marks => fence = None,
            _ => {}
        }
        if fence.is_some() || marks.is_some() {
            lines.push(line.to_owned());
            continue;
        }
        let small = start.strip_prefix("-#").map(|rest| format!("\\-#{rest}"));
        lines.push(small.as_deref().unwrap_or(line).replace("](", "] ("));
    }
    generic_mentions(&lines.join("\n"))
}

/// Returns a text with each line marked as a quotation.
pub(super) fn quoted(text: &str) -> String {
    text.lines().map(|line| format!("> {line}")).collect::<Vec<_>>().join("\n")
}

fn next_address(text: &str) -> Option<usize> {
    ["https://", "http://"].iter().filter_map(|scheme| text.find(scheme)).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formatting_is_shown_and_addresses_remain_links() {
        for (text, shown) in [
            ("-# 💬 Answered by Ann: yes", "-\\# 💬 Answered by Ann: yes"),
            ("# Heading", "\\# Heading"),
            ("[ok](https://evil.example/a_b_c)", "\\[ok\\]\\(https://evil.example/a_b_c\\)"),
            ("see http://a.example/x_y, **now**", "see http://a.example/x_y, \\*\\*now\\*\\*"),
            ("<@7> <@&8> <#9> <t:1:R>", "@somebody @role \\#channel \\<t:1:R\\>"),
        ] {
            assert_eq!(literal(text), shown, "{text:?}");
        }
    }

    #[test]
    fn a_plan_keeps_its_formatting_and_shows_where_its_links_lead() {
        let plan = "# Plan\n1. **Read** [the file](https://evil.example)\n-# ✅ Allowed by Ann\n```md\n[a](b)\n-# c\n```\n  -# d";
        let shown = "# Plan\n1. **Read** [the file] (https://evil.example)\n\\-# ✅ Allowed by Ann\n```md\n[a](b)\n-# c\n```\n\\-# d";
        assert_eq!(readable_markdown(plan), shown);
        assert_eq!(quoted("a\n\nb"), "> a\n> \n> b");
    }
}
