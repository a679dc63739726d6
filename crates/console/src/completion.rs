//! Finds what the Tab key completes: commands, the names after them, or paths. Pure.

use aetheel_dispatch::Setting;

/// The kind of word at the cursor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CompletionKind {
    /// A command, including its `/`.
    Command,
    /// The path of a file.
    Path,
    /// The name of a backend.
    Backend,
    /// A value of a setting.
    Value(Setting),
    /// A folded part of the last answer.
    Folded,
}

/// Returns the start of the word at the end of the text, and its kind, or `None` if it cannot be
/// completed.
pub(crate) fn completion_at(before: &str) -> Option<(usize, CompletionKind)> {
    let word = before.rfind(char::is_whitespace).map_or(0, |at| at + 1);
    if before.starts_with('/') {
        let Some((command, rest)) = before.split_once(char::is_whitespace) else {
            return Some((0, CompletionKind::Command));
        };
        let kind = match command {
            "/file" | "/project" => {
                return Some((before.len() - rest.trim_start().len(), CompletionKind::Path));
            }
            "/backend" | "/ping" => CompletionKind::Backend,
            "/model" => CompletionKind::Value(Setting::Model),
            "/thinking" => CompletionKind::Value(Setting::Effort),
            "/safety" => CompletionKind::Value(Setting::Safety),
            "/mode" => CompletionKind::Value(Setting::Mode),
            "/open" => CompletionKind::Folded,
            _ => return None,
        };
        let is_first = rest[..rest.len() - (before.len() - word)].trim().is_empty();
        return is_first.then_some((word, kind));
    }
    let quoted = before.rfind("@\"").filter(|at| !before[at + 2..].contains('"'));
    let begins = quoted.unwrap_or(word);
    before[begins..].starts_with('@').then_some((begins + 1, CompletionKind::Path))
}

/// Returns the names that start with a text, ignoring case.
pub(crate) fn matching_names(
    names: impl IntoIterator<Item = String>,
    beginning: &str,
) -> Vec<String> {
    let beginning = beginning.to_lowercase();
    names.into_iter().filter(|name| name.to_lowercase().starts_with(&beginning)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_names_and_paths_are_completed_and_prompts_are_not() {
        for (before, wanted) in [
            ("/", Some((0, CompletionKind::Command))),
            ("/back", Some((0, CompletionKind::Command))),
            ("/backend cl", Some((9, CompletionKind::Backend))),
            ("/ping  ", Some((7, CompletionKind::Backend))),
            ("/model ", Some((7, CompletionKind::Value(Setting::Model)))),
            ("/mode p", Some((6, CompletionKind::Value(Setting::Mode)))),
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
