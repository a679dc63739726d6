//! Presents a permission question so that its command appears only once, although agents often
//! repeat the command in the title. Pure.

use super::excerpt::Excerpt;
use super::question::{OpenQuestion, Subject};

/// The text of a permission question, above its choices.
#[derive(Debug, PartialEq, Eq)]
pub struct Statement<'q> {
    /// The question on one line.
    pub heading: String,
    /// The tool, unless the heading names it.
    pub tool: Option<&'q str>,
    /// The command or the changes, unless the heading contains them completely.
    pub about: Option<&'q Excerpt>,
}

impl OpenQuestion {
    /// Returns the text of a permission question above its choices, or `None` for other questions.
    ///
    /// Agents repeat the command or path in the title, often truncated. It is removed from the
    /// title if it is shown below.
    #[must_use]
    pub fn statement(&self) -> Option<Statement<'_>> {
        let Subject::Permission { tool, about } = &self.subject else { return None };
        let about = about.as_ref().filter(|about| !contains_whole(&self.title, &about.text));
        let heading = match about {
            Some(about) => without_repeated(&self.title, &about.text),
            None => self.title.trim().to_owned(),
        };
        let heading = match heading.as_str() {
            "" => format!("Allow {tool}?"),
            bare if bare.eq_ignore_ascii_case(tool) => format!("Allow {bare}?"),
            _ => heading,
        };
        let tool = (!names_tool(&heading, tool)).then_some(tool.as_str());
        Some(Statement { heading, tool, about })
    }
}

/// Returns whether a title contains a command or path completely, as inline code.
fn contains_whole(title: &str, about: &str) -> bool {
    const READABLE: usize = 300;
    title.chars().count() <= READABLE
        && !about.contains(['`', '\n'])
        && title.contains(&format!("`{}`", about.trim()))
}

/// Returns a title without the text that it repeats, completely or truncated.
fn without_repeated(title: &str, about: &str) -> String {
    let about = about.split_whitespace().collect::<Vec<_>>().join(" ");
    if about.is_empty() {
        return title.trim().to_owned();
    }
    let (before, after) = match title.split_once(about.as_str()) {
        // A match inside a longer word is not the command.
        Some((before, after))
            if !before.ends_with(char::is_alphanumeric)
                && !after.starts_with(char::is_alphanumeric) =>
        {
            (before, after)
        }
        _ => match cut_at(title, &about) {
            Some(before) => (before, ""),
            None => return title.trim().to_owned(),
        },
    };
    let edge = |c: char| c.is_whitespace() || matches!(c, ':' | '`' | '"' | '\'');
    let (before, after) = (before.trim_end_matches(edge), after.trim_start_matches(edge));
    match (before.is_empty(), after.trim_matches(['?', ' ']).is_empty()) {
        (false, true) => before.to_owned(),
        (true, false) => after.to_owned(),
        (false, false) if after.starts_with('(') => format!("{before} {after}"),
        (false, false) => format!("{before}: {after}"),
        (true, true) => String::new(),
    }
}

/// If a title ends with the truncated beginning of `about`, returns the part before it.
fn cut_at<'t>(title: &'t str, about: &str) -> Option<&'t str> {
    /// Shorter matches may be coincidences.
    const ENOUGH: usize = 12;
    let cut = title.trim_end().strip_suffix('…')?.trim_end();
    let starts = cut.char_indices().map(|(at, _)| at);
    let at = starts.into_iter().find(|at| {
        let shown = &cut[*at..];
        shown.chars().count() >= ENOUGH && about.starts_with(shown)
    })?;
    Some(&cut[..at])
}

fn names_tool(heading: &str, tool: &str) -> bool {
    let (heading, tool) = (heading.to_lowercase(), tool.to_lowercase());
    let mut words = heading.split(|c: char| !(c.is_alphanumeric() || "_-.".contains(c)));
    words.any(|word| word == tool) || (tool.contains(' ') && heading.contains(&tool))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(title: &str, tool: &str, about: Option<&str>) -> OpenQuestion {
        let about = about.map(|text| Excerpt { language: "sh", text: text.to_owned() });
        OpenQuestion {
            id: "q".to_owned(),
            title: title.to_owned(),
            subject: Subject::Permission { tool: tool.to_owned(), about },
            always: None,
            options: vec![],
            input: None,
            asker: None,
            collision: None,
        }
    }

    /// Returns the heading, the tool if shown, and whether the command is shown.
    fn said(title: &str, tool: &str, about: Option<&str>) -> (String, Option<String>, bool) {
        let question = asked(title, tool, about);
        let statement = question.statement().expect("a permission");
        (statement.heading.clone(), statement.tool.map(str::to_owned), statement.about.is_some())
    }

    #[test]
    fn the_command_is_shown_once_even_if_the_title_repeats_it() {
        let long = "cargo test --workspace --all-features -- --nocapture";
        for (title, tool, about, heading, shows_tool, shows_about) in [
            ("Bash: ls -l", "Bash", Some("ls -l"), "Allow Bash?", false, true),
            ("ls -l", "shell", Some("ls -l"), "Allow shell?", false, true),
            ("Run: ls -l (to look)", "Bash", Some("ls -l"), "Run (to look)", true, true),
            (
                "OpenCode asks to use bash: ls",
                "bash",
                Some("ls"),
                "OpenCode asks to use bash",
                false,
                true,
            ),
            (
                "Execute: ls: it is needed",
                "Execute",
                Some("ls"),
                "Execute: it is needed",
                false,
                true,
            ),
            ("Bash: cargo test --workspace…", "Bash", Some(long), "Allow Bash?", false, true),
            ("Bash: cd a make", "Bash", Some("cd a\nmake"), "Allow Bash?", false, true),
            ("Run `make`?", "shell", Some("make"), "Run `make`?", true, false),
            ("Run the build?", "Bash", Some("make -j2"), "Run the build?", true, true),
            ("Use tools?", "Bash", Some("ls"), "Use tools?", true, true),
            ("Fetch?", "WebFetch", None, "Fetch?", true, false),
            ("", "WebFetch", None, "Allow WebFetch?", false, false),
        ] {
            let tool_shown = shows_tool.then(|| tool.to_owned());
            assert_eq!(
                said(title, tool, about),
                (heading.to_owned(), tool_shown, shows_about),
                "{title}"
            );
        }
    }

    #[test]
    fn the_command_is_never_omitted() {
        // The title has only the beginning of the command.
        let (heading, _, about) = said("Bash: rm", "Bash", Some("rm -rf /"));
        assert_eq!((heading.as_str(), about), ("Bash: rm", true));
        let whole = format!("{}`ls`", "x".repeat(400));
        assert!(said(&whole, "Bash", Some("ls")).2, "a long title is truncated when it is shown");
    }
}
