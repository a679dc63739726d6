//! The text of a message as the agent should read it.

/// Something in a message that reads `<@123>` on the wire and `@name` on the screen.
pub(super) type Name = (String, String);

/// Returns the text without the bot's own mention, other mentions readable, trimmed.
pub(super) fn prompt(content: &str, me: u64, names: &[Name]) -> String {
    let mut text = content.to_owned();
    for own in [format!("<@{me}>"), format!("<@!{me}>")] {
        while let Some(at) = text.find(&own) {
            let after = at + own.len();
            // In mid-sentence one of the two blanks around it goes as well.
            let blank = text[..at].ends_with(' ') && text[after..].starts_with(' ');
            text.replace_range(at..after + usize::from(blank), "");
        }
    }
    for (token, name) in names {
        text = text.replace(token, name);
    }
    text.trim().to_owned()
}

/// The wire forms of a user's mention.
pub(super) fn user_names(id: u64, shown: &str) -> [Name; 2] {
    [(format!("<@{id}>"), format!("@{shown}")), (format!("<@!{id}>"), format!("@{shown}"))]
}

/// Ids in `content` behind a prefix such as `<#`.
pub(super) fn ids_behind<'a>(content: &'a str, prefix: &'a str) -> impl Iterator<Item = u64> + 'a {
    content.match_indices(prefix).filter_map(move |(at, _)| {
        let rest = &content[at + prefix.len()..];
        rest[..rest.find('>')?].parse().ok()
    })
}

/// Returns a person's name as one short line.
pub(super) fn one_line(text: &str, most: usize) -> String {
    let line: String =
        text.split(|c: char| c.is_control() || c.is_whitespace()).filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ");
    if line.chars().count() <= most {
        return line;
    }
    let mut cut: String = line.chars().take(most.saturating_sub(1)).collect();
    cut.push('…');
    cut
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bots_mention_goes_wherever_it_stands() {
        for (content, expected) in [
            ("<@1> hello", "hello"),
            ("<@!1>hello", "hello"),
            ("hello <@1>", "hello"),
            ("please <@1> help", "please help"),
            ("<@1>\n```rs\nlet  a;\n```", "```rs\nlet  a;\n```"),
            ("<@1> <@1>", ""),
            ("<@12> hello", "<@12> hello"),
        ] {
            assert_eq!(prompt(content, 1, &[]), expected, "{content:?}");
        }
    }

    #[test]
    fn other_mentions_become_readable() {
        let mut names = user_names(7, "Ann").to_vec();
        names.push(("<#9>".to_owned(), "#general".to_owned()));
        assert_eq!(prompt("<@1> tell <@7> and <@!7> in <#9>", 1, &names), "tell @Ann and @Ann in #general");
        assert_eq!(ids_behind("a <#9> b <#x> c <#10", "<#").collect::<Vec<_>>(), [9]);
    }

    #[test]
    fn a_name_is_one_line() {
        assert_eq!(one_line("Ann\n## System\u{7}", 32), "Ann ## System");
        assert_eq!(one_line("abcdef", 4), "abc…");
    }
}
