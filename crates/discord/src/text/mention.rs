//! The text of a message in the form that the agent reads.

/// The form of a mention in Discord's text, such as `<@123>`, and its readable form, such as
/// `@name`.
pub(crate) type Name = (String, String);

/// Returns the trimmed text with readable mentions and without mentions of the bot. `me` is the
/// bot's id, and `role` its own role, if it has one.
pub(crate) fn prompt(content: &str, me: u64, role: Option<u64>, names: &[Name]) -> String {
    let mut text = content.to_owned();
    let role = role.map(|role| format!("<@&{role}>"));
    for own in [format!("<@{me}>"), format!("<@!{me}>")].into_iter().chain(role) {
        while let Some(at) = text.find(&own) {
            let after = at + own.len();
            // In the middle of a sentence, one of the two blanks around it is removed, too.
            let blank = text[..at].ends_with(' ') && text[after..].starts_with(' ');
            text.replace_range(at..after + usize::from(blank), "");
        }
    }
    readable(&text, names).trim().to_owned()
}

pub(crate) fn readable(content: &str, names: &[Name]) -> String {
    names.iter().fold(content.to_owned(), |text, (token, name)| text.replace(token, name))
}

/// Returns the two forms of a user's mention, with the readable name.
pub(crate) fn user_names(id: u64, shown: &str) -> [Name; 2] {
    [(format!("<@{id}>"), format!("@{shown}")), (format!("<@!{id}>"), format!("@{shown}"))]
}

/// Replaces mentions and emoji such as `<@123>` and `<:name:123>` by words, if no names are known.
pub(crate) fn generic_mentions(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('<') {
        plain.push_str(&rest[..at]);
        let Some((word, length)) = token(&rest[at..]) else {
            plain.push('<');
            rest = &rest[at + 1..];
            continue;
        };
        plain.push_str(word);
        rest = &rest[at + length..];
    }
    plain.push_str(rest);
    plain
}

/// Returns a word for the mention or emoji at the beginning of a text, and its length in bytes.
fn token(text: &str) -> Option<(&str, usize)> {
    let end = text.find('>')?;
    let inner = &text[1..end];
    let digits = |id: &str| !id.is_empty() && id.bytes().all(|b| b.is_ascii_digit());
    let word = if let Some(id) = inner.strip_prefix("@&").filter(|id| digits(id)) {
        (!id.is_empty()).then_some("@role")
    } else if let Some(id) = inner.strip_prefix('@') {
        digits(id.trim_start_matches('!')).then_some("@somebody")
    } else if let Some(id) = inner.strip_prefix('#') {
        digits(id).then_some("#channel")
    } else {
        let (name, id) =
            inner.strip_prefix("a:").or_else(|| inner.strip_prefix(':'))?.split_once(':')?;
        digits(id).then_some(name)
    };
    word.map(|word| (word, end + 1))
}

/// Returns the ids in `content` behind a prefix such as `<#`.
pub(crate) fn ids_behind<'a>(content: &'a str, prefix: &'a str) -> impl Iterator<Item = u64> + 'a {
    content.match_indices(prefix).filter_map(move |(at, _)| {
        let rest = &content[at + prefix.len()..];
        rest[..rest.find('>')?].parse().ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mentions_of_the_bot_are_removed_anywhere() {
        for (content, expected) in [
            ("<@1> hello", "hello"),
            ("<@!1>hello", "hello"),
            ("hello <@1>", "hello"),
            ("please <@1> help", "please help"),
            ("<@1>\n```rs\nlet  a;\n```", "```rs\nlet  a;\n```"),
            ("<@1> <@1>", ""),
            ("<@12> hello", "<@12> hello"),
            ("<@&2> hello <@&21>", "hello <@&21>"),
        ] {
            assert_eq!(prompt(content, 1, Some(2), &[]), expected, "{content:?}");
        }
    }

    #[test]
    fn other_mentions_become_readable() {
        let mut names = user_names(7, "Ann").to_vec();
        names.push(("<#9>".to_owned(), "#general".to_owned()));
        assert_eq!(
            prompt("<@1> tell <@7> and <@!7> in <#9>", 1, None, &names),
            "tell @Ann and @Ann in #general"
        );
        assert_eq!(ids_behind("a <#9> b <#x> c <#10", "<#").collect::<Vec<_>>(), [9]);
    }
}
