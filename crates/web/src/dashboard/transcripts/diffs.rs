//! A change of a file as lines with their signs, whichever way the agent told it. Pure but for
//! the clock that ends a long comparison.

use std::time::Duration;

use similar::{ChangeTag, TextDiff};

use aetheel_model::agent::{FileChange, FileDiff};

/// Lines around a change that are shown.
const CONTEXT: usize = 3;
/// Bytes of both texts up to which they are compared line by line; larger ones stand one behind the
/// other.
const COMPARED: usize = 256 << 10;
/// Longest comparison: what is then not compared counts as changed.
const SPAN: Duration = Duration::from_millis(20);

/// What a line of a change is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sign {
    /// It came.
    Added,
    /// It went.
    Removed,
    /// It stands around what changed.
    Around,
    /// It says where the next lines are.
    Place,
}

/// The name of the file and what became of it, in words.
pub(super) fn title(diff: &FileDiff) -> String {
    let path = &diff.path;
    let binary = if diff.binary { ", no text" } else { "" };
    match (diff.change, &diff.old_path) {
        (FileChange::Renamed, Some(from)) => format!("{from} → {path} (renamed{binary})"),
        (FileChange::Added, _) => format!("{path} (new{binary})"),
        (FileChange::Deleted, _) => format!("{path} (deleted{binary})"),
        (FileChange::Edited | FileChange::Renamed, _) => format!("{path} (changed{binary})"),
    }
}

/// The lines of a change, each with its sign in front.
pub(super) fn lines(diff: &FileDiff) -> Vec<(Sign, String)> {
    if diff.binary {
        return Vec::new();
    }
    match &diff.unified {
        Some(unified) => unified.trim_end().lines().map(signed).collect(),
        None => compared(
            diff.old_text.as_deref().unwrap_or_default(),
            diff.new_text.as_deref().unwrap_or_default(),
        ),
    }
}

/// A line of a unified diff.
fn signed(line: &str) -> (Sign, String) {
    let sign = match line.as_bytes() {
        [b'+', b'+', b'+', b' ', ..] | [b'-', b'-', b'-', b' ', ..] | [b'@', b'@', ..] => {
            Sign::Place
        }
        [b'+', ..] => Sign::Added,
        [b'-', ..] => Sign::Removed,
        _ => Sign::Around,
    };
    (sign, line.to_owned())
}

fn compared(old: &str, new: &str) -> Vec<(Sign, String)> {
    let all = |sign, mark: char, text: &str| -> Vec<(Sign, String)> {
        text.lines().map(|line| (sign, format!("{mark}{line}"))).collect()
    };
    if old.len() + new.len() > COMPARED {
        return [all(Sign::Removed, '-', old), all(Sign::Added, '+', new)].concat();
    }
    let compared = TextDiff::configure().timeout(SPAN).diff_lines(old, new);
    let mut lines = Vec::new();
    for group in compared.grouped_ops(CONTEXT) {
        if let (false, Some(first)) = (old.is_empty() || new.is_empty(), group.first()) {
            lines.push((Sign::Place, format!("@@ line {} @@", first.new_range().start + 1)));
        }
        for change in group.iter().flat_map(|part| compared.iter_changes(part)) {
            let (sign, mark) = match change.tag() {
                ChangeTag::Delete => (Sign::Removed, '-'),
                ChangeTag::Insert => (Sign::Added, '+'),
                ChangeTag::Equal => (Sign::Around, ' '),
            };
            let line = change.value();
            lines.push((sign, format!("{mark}{}", line.strip_suffix('\n').unwrap_or(line))));
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(diff: &FileDiff) -> Vec<String> {
        lines(diff).into_iter().map(|(sign, line)| format!("{sign:?} {line}")).collect()
    }

    fn diff(old: Option<&str>, new: Option<&str>) -> FileDiff {
        let text = |text: &str| text.to_owned();
        FileDiff {
            path: "a.rs".to_owned(),
            old_text: old.map(text),
            new_text: new.map(text),
            ..FileDiff::default()
        }
    }

    #[test]
    fn two_texts_are_compared_and_only_what_changed_is_shown_with_what_is_around() {
        let old: String = (1..=20).map(|line| format!("{line}\n")).collect();
        let new = old.replace("\n10\n", "\nten\n");
        let lines = told(&diff(Some(&old), Some(&new)));
        let wanted = [
            "Place @@ line 7 @@",
            "Around  7",
            "Around  8",
            "Around  9",
            "Removed -10",
            "Added +ten",
            "Around  11",
            "Around  12",
            "Around  13",
        ];
        assert_eq!(lines, wanted);
        assert_eq!(told(&diff(None, Some("new\nfile"))), ["Added +new", "Added +file"]);
        assert_eq!(told(&diff(Some("gone\n"), None)), ["Removed -gone"]);
        assert!(told(&diff(Some("same\n"), Some("same\n"))).is_empty());
        assert!(told(&diff(None, None)).is_empty());
    }

    #[test]
    fn large_texts_are_not_compared_and_none_is_lost() {
        let old = "a\n".repeat(COMPARED);
        assert_eq!(lines(&diff(Some(&old), Some("b"))).len(), COMPARED + 1);
    }

    #[test]
    fn a_unified_diff_is_read_as_it_is_whatever_stands_in_it() {
        let unified = "--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n around\n-old\n+++i;\n+<script>\n";
        let told = told(&FileDiff { unified: Some(unified.to_owned()), ..diff(None, None) });
        let wanted = [
            "Place --- a/x",
            "Place +++ b/x",
            "Place @@ -1,2 +1,2 @@",
            "Around  around",
            "Removed -old",
            "Added +++i;",
            "Added +<script>",
        ];
        assert_eq!(told, wanted);
        assert!(lines(&FileDiff { binary: true, ..diff(Some("a"), Some("b")) }).is_empty());
    }

    #[test]
    fn the_title_says_what_became_of_the_file() {
        let titled = |change| title(&FileDiff { change, ..diff(None, None) });
        assert_eq!(titled(FileChange::Added), "a.rs (new)");
        let moved = FileDiff { old_path: Some("b.rs".to_owned()), ..diff(None, None) };
        let moved = FileDiff { change: FileChange::Renamed, binary: true, ..moved };
        assert_eq!(title(&moved), "b.rs → a.rs (renamed, no text)");
    }
}
