//! Formats a change of a file as lines with signs. Agents report a change either as a unified diff
//! or as the texts before and after. Pure, except for the clock that limits a long comparison.

use std::time::Duration;

use similar::{ChangeTag, TextDiff};

use aetheel_model::agent::{FileChange, FileDiff};

/// The number of unchanged lines around a change.
const CONTEXT: usize = 3;
/// The largest total size of both texts, in bytes, for a comparison line by line. If they are
/// larger, all old lines are listed, then all new ones.
const COMPARED: usize = 256 << 10;
/// Time limit for a comparison. Lines that are not compared by then count as changed.
const SPAN: Duration = Duration::from_millis(20);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DiffLineKind {
    Added,
    Removed,
    Around,
    /// The position of the next lines.
    Place,
}

/// Returns the name of the file and the kind of change, in words.
pub(super) fn title(diff: &FileDiff) -> String {
    let path = &diff.path;
    let binary = if diff.binary { ", binary" } else { "" };
    match (diff.change, &diff.old_path) {
        (FileChange::Renamed, Some(from)) => format!("{from} → {path} (renamed{binary})"),
        (FileChange::Added, _) => format!("{path} (new{binary})"),
        (FileChange::Deleted, _) => format!("{path} (deleted{binary})"),
        (FileChange::Edited | FileChange::Renamed, _) => format!("{path} (changed{binary})"),
    }
}

/// Returns the lines of a change, each with its sign in front.
pub(super) fn lines(diff: &FileDiff) -> Vec<(DiffLineKind, String)> {
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

/// Classifies a line of a unified diff.
fn signed(line: &str) -> (DiffLineKind, String) {
    let sign = match line.as_bytes() {
        [b'+', b'+', b'+', b' ', ..] | [b'-', b'-', b'-', b' ', ..] | [b'@', b'@', ..] => {
            DiffLineKind::Place
        }
        [b'+', ..] => DiffLineKind::Added,
        [b'-', ..] => DiffLineKind::Removed,
        _ => DiffLineKind::Around,
    };
    (sign, line.to_owned())
}

fn compared(old: &str, new: &str) -> Vec<(DiffLineKind, String)> {
    let all = |sign, mark: char, text: &str| -> Vec<(DiffLineKind, String)> {
        text.lines().map(|line| (sign, format!("{mark}{line}"))).collect()
    };
    if old.len() + new.len() > COMPARED {
        return [all(DiffLineKind::Removed, '-', old), all(DiffLineKind::Added, '+', new)].concat();
    }
    let compared = TextDiff::configure().timeout(SPAN).diff_lines(old, new);
    let mut lines = Vec::new();
    for group in compared.grouped_ops(CONTEXT) {
        if let (false, Some(first)) = (old.is_empty() || new.is_empty(), group.first()) {
            lines
                .push((DiffLineKind::Place, format!("@@ line {} @@", first.new_range().start + 1)));
        }
        for change in group.iter().flat_map(|part| compared.iter_changes(part)) {
            let (sign, mark) = match change.tag() {
                ChangeTag::Delete => (DiffLineKind::Removed, '-'),
                ChangeTag::Insert => (DiffLineKind::Added, '+'),
                ChangeTag::Equal => (DiffLineKind::Around, ' '),
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

    fn described(diff: &FileDiff) -> Vec<String> {
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
    fn only_changed_lines_and_their_context_are_shown() {
        let old: String = (1..=20).map(|line| format!("{line}\n")).collect();
        let new = old.replace("\n10\n", "\nten\n");
        let lines = described(&diff(Some(&old), Some(&new)));
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
        assert_eq!(described(&diff(None, Some("new\nfile"))), ["Added +new", "Added +file"]);
        assert_eq!(described(&diff(Some("gone\n"), None)), ["Removed -gone"]);
        assert!(described(&diff(Some("same\n"), Some("same\n"))).is_empty());
        assert!(described(&diff(None, None)).is_empty());
    }

    #[test]
    fn large_texts_are_shown_completely_without_a_comparison() {
        let old = "a\n".repeat(COMPARED);
        assert_eq!(lines(&diff(Some(&old), Some("b"))).len(), COMPARED + 1);
    }

    #[test]
    fn the_lines_of_a_unified_diff_are_classified_and_unchanged() {
        let unified = "--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n around\n-old\n+++i;\n+<script>\n";
        let described =
            described(&FileDiff { unified: Some(unified.to_owned()), ..diff(None, None) });
        let wanted = [
            "Place --- a/x",
            "Place +++ b/x",
            "Place @@ -1,2 +1,2 @@",
            "Around  around",
            "Removed -old",
            "Added +++i;",
            "Added +<script>",
        ];
        assert_eq!(described, wanted);
        assert!(lines(&FileDiff { binary: true, ..diff(Some("a"), Some("b")) }).is_empty());
    }

    #[test]
    fn the_title_names_the_file_and_the_kind_of_change() {
        let titled = |change| title(&FileDiff { change, ..diff(None, None) });
        assert_eq!(titled(FileChange::Added), "a.rs (new)");
        let moved = FileDiff { old_path: Some("b.rs".to_owned()), ..diff(None, None) };
        let moved = FileDiff { change: FileChange::Renamed, binary: true, ..moved };
        assert_eq!(title(&moved), "b.rs → a.rs (renamed, binary)");
    }
}
