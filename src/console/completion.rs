//! Finds what the Tab key completes: commands, the names after them, or paths. Pure.

/// The kind of word at the cursor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    /// A command, including its `/`.
    Command,
    /// A name after a command.
    Name(Named),
    /// The path of a file.
    Path,
}

/// A set of names that a command accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Named {
    Backend,
    Model,
    Effort,
    Safety,
    Mode,
    Folded,
}

/// Returns the start of the word at the end of the text, and its kind, or `None` if it cannot be
/// completed.
pub(super) fn wanted(before: &str) -> Option<(usize, Wanted)> {
    let word = before.rfind(char::is_whitespace).map_or(0, |at| at + 1);
    if before.starts_with('/') {
        let Some((command, rest)) = before.split_once(char::is_whitespace) else {
            return Some((0, Wanted::Command));
        };
        let named = match command {
            "/file" | "/project" => {
                return Some((before.len() - rest.trim_start().len(), Wanted::Path));
            }
            "/backend" | "/ping" => Named::Backend,
            "/model" => Named::Model,
            "/thinking" => Named::Effort,
            "/safety" => Named::Safety,
            "/mode" => Named::Mode,
            "/open" => Named::Folded,
            _ => return None,
        };
        return rest[..rest.len() - (before.len() - word)]
            .trim()
            .is_empty()
            .then_some((word, Wanted::Name(named)));
    }
    let quoted = before.rfind("@\"").filter(|at| !before[at + 2..].contains('"'));
    let begins = quoted.unwrap_or(word);
    before[begins..].starts_with('@').then_some((begins + 1, Wanted::Path))
}

/// Returns the names that start with a text, ignoring case.
pub(super) fn fitting(names: impl IntoIterator<Item = String>, begun: &str) -> Vec<String> {
    let begun = begun.to_lowercase();
    names.into_iter().filter(|name| name.to_lowercase().starts_with(&begun)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_names_and_paths_are_completed_and_prompts_are_not() {
        for (before, wanted) in [
            ("/", Some((0, Wanted::Command))),
            ("/back", Some((0, Wanted::Command))),
            ("/backend cl", Some((9, Wanted::Name(Named::Backend)))),
            ("/ping  ", Some((7, Wanted::Name(Named::Backend)))),
            ("/model ", Some((7, Wanted::Name(Named::Model)))),
            ("/mode p", Some((6, Wanted::Name(Named::Mode)))),
            ("/model a b", None),
            ("/steer wri", None),
            ("/file no", Some((6, Wanted::Path))),
            ("/file two w", Some((6, Wanted::Path))),
            ("compare @src/ma", Some((9, Wanted::Path))),
            ("compare @\"two w", Some((9, Wanted::Path))),
            ("compare @\"two words\" wi", None),
            ("me@exam", None),
            ("hello wor", None),
            ("", None),
        ] {
            assert_eq!(super::wanted(before), wanted, "{before:?}");
        }
        let names = ["claude", "codex", "Opus"].map(str::to_owned);
        assert_eq!(
            (fitting(names.clone(), "C"), fitting(names, "op")),
            (vec!["claude".to_owned(), "codex".to_owned()], vec!["Opus".to_owned()])
        );
    }
}
