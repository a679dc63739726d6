//! Finds what the Tab key completes: commands, the names after them, or paths. Pure.

/// The kind of word at the cursor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CompletionKind {
    /// A command, including its `/`.
    Command,
    /// A name after a command.
    Name(NameKind),
    /// The path of a file.
    Path,
}

/// A set of names that a command accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NameKind {
    Backend,
    Model,
    Effort,
    Safety,
    Mode,
    Folded,
}

/// Returns the start of the word at the end of the text, and its kind, or `None` if it cannot be
/// completed.
pub(super) fn completion_at(before: &str) -> Option<(usize, CompletionKind)> {
    let word = before.rfind(char::is_whitespace).map_or(0, |at| at + 1);
    if before.starts_with('/') {
        let Some((command, rest)) = before.split_once(char::is_whitespace) else {
            return Some((0, CompletionKind::Command));
        };
        let named = match command {
            "/file" | "/project" => {
                return Some((before.len() - rest.trim_start().len(), CompletionKind::Path));
            }
            "/backend" | "/ping" => NameKind::Backend,
            "/model" => NameKind::Model,
            "/thinking" => NameKind::Effort,
            "/safety" => NameKind::Safety,
            "/mode" => NameKind::Mode,
            "/open" => NameKind::Folded,
            _ => return None,
        };
        return rest[..rest.len() - (before.len() - word)]
            .trim()
            .is_empty()
            .then_some((word, CompletionKind::Name(named)));
    }
    let quoted = before.rfind("@\"").filter(|at| !before[at + 2..].contains('"'));
    let begins = quoted.unwrap_or(word);
    before[begins..].starts_with('@').then_some((begins + 1, CompletionKind::Path))
}

/// Returns the names that start with a text, ignoring case.
pub(super) fn matching_names(names: impl IntoIterator<Item = String>, begun: &str) -> Vec<String> {
    let begun = begun.to_lowercase();
    names.into_iter().filter(|name| name.to_lowercase().starts_with(&begun)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_names_and_paths_are_completed_and_prompts_are_not() {
        for (before, wanted) in [
            ("/", Some((0, CompletionKind::Command))),
            ("/back", Some((0, CompletionKind::Command))),
            ("/backend cl", Some((9, CompletionKind::Name(NameKind::Backend)))),
            ("/ping  ", Some((7, CompletionKind::Name(NameKind::Backend)))),
            ("/model ", Some((7, CompletionKind::Name(NameKind::Model)))),
            ("/mode p", Some((6, CompletionKind::Name(NameKind::Mode)))),
            ("/model a b", None),
            ("/steer wri", None),
            ("/file no", Some((6, CompletionKind::Path))),
            ("/file two w", Some((6, CompletionKind::Path))),
            ("compare @src/ma", Some((9, CompletionKind::Path))),
            ("compare @\"two w", Some((9, CompletionKind::Path))),
            ("compare @\"two words\" wi", None),
            ("me@exam", None),
            ("hello wor", None),
            ("", None),
        ] {
            assert_eq!(super::completion_at(before), wanted, "{before:?}");
        }
        let names = ["claude", "codex", "Opus"].map(str::to_owned);
        assert_eq!(
            (matching_names(names.clone(), "C"), matching_names(names, "op")),
            (vec!["claude".to_owned(), "codex".to_owned()], vec!["Opus".to_owned()])
        );
    }
}
