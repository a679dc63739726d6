//! Removes personal data from pages that anybody with a link may read: Discord ids, home folders
//! and e-mail addresses, as far as they can be recognised. Pure.

use std::sync::LazyLock;

use regex_automata::meta::Regex;

/// The patterns, with their replacements.
const BLANKED: [(&str, &str); 8] = [
    (r"<@[!&]?[0-9]{1,20}>", "@somebody"),
    (r"<#[0-9]{1,20}>", "#somewhere"),
    (r"<a?:\w{1,64}:[0-9]{1,20}>", ":emoji:"),
    (r"[\w.%+'-]+@(?:[\w-]+\.)+\w+", "(e-mail address)"),
    (r#"/(?:home|Users|var/home)/[^\s/"'`<>:;,()|&]+"#, "~"),
    (r"/root\b", "~"),
    (r#"[A-Za-z]:(?:\\|/)+Users(?:\\|/)+[^\s\\/"'`<>:;,()|&]+"#, "~"),
    // An id in Discord. Other numbers in texts are rarely as long.
    (r"(?-u:\b)[0-9]{17,20}(?-u:\b)", "(id)"),
];

static PATTERNS: LazyLock<Regex> = LazyLock::new(|| {
    let patterns: Vec<&str> = BLANKED.iter().map(|(pattern, _)| *pattern).collect();
    Regex::new_many(&patterns).expect("the patterns are checked by a test")
});

/// Replaces personal data. `home` is the home folder of the gateway's user.
pub(super) fn blank(text: &mut String, home: Option<&str>) {
    if let Some(home) = home.filter(|home| home.len() > 1 && text.contains(home)) {
        *text = text.replace(home, "~");
    }
    let (mut blanked, mut end) = (String::new(), 0);
    for found in PATTERNS.find_iter(text.as_str()) {
        blanked.push_str(&text[end..found.start()]);
        blanked.push_str(BLANKED[found.pattern().as_usize()].1);
        end = found.end();
    }
    if end > 0 {
        blanked.push_str(&text[end..]);
        *text = blanked;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blanked(text: &str) -> String {
        let mut text = text.to_owned();
        blank(&mut text, Some("/var/lib/aetheel"));
        text
    }

    #[test]
    fn ids_home_folders_and_addresses_are_replaced_and_nothing_else() {
        for (given, wanted) in [
            ("hello", "hello"),
            ("<@1234567890123456789> and <@&123>", "@somebody and @somebody"),
            ("in <#1234567890123456789>", "in #somewhere"),
            ("<:party:1234567890123456789>", ":emoji:"),
            ("/channels/1234567890123456789/12345678901234567", "/channels/(id)/(id)"),
            ("port 8080, 2026-11-23, 0.1.2", "port 8080, 2026-11-23, 0.1.2"),
            ("mail ann.b+c@mail.example.com!", "mail (e-mail address)!"),
            ("müller@exämple.de", "(e-mail address)"),
            ("@everyone and a@b", "@everyone and a@b"),
            ("cat /home/ann/site/x.rs", "cat ~/site/x.rs"),
            ("\"/Users/ann b\"", "\"~ b\""),
            ("/root/.ssh and /rooted", "~/.ssh and /rooted"),
            (r"C:\Users\ann\x and C:\\Users\\ann", r"~\x and ~"),
            ("/var/lib/aetheel/workspace/a", "~/workspace/a"),
            ("/var/home/ann", "~"),
            ("abc12345678901234567890123", "abc12345678901234567890123"),
            ("", ""),
        ] {
            assert_eq!(blanked(given), wanted, "{given:?}");
        }
    }
}
