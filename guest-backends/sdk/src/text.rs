//! Short forms of text for users and logs.

use crate::wit::Part;

/// Maximum length of the sample of unrecognised output, in bytes, as the contract requires.
pub const SAMPLE_BYTES: usize = 2048;

/// Returns the longest prefix of `text` that has at most `bytes` bytes and ends at a character
/// boundary.
#[must_use]
pub fn head(text: &str, bytes: usize) -> &str {
    &text[..text.floor_char_boundary(bytes)]
}

/// Returns the first line that is not blank, cut to `bytes` bytes. Appends an ellipsis if anything
/// was left out.
#[must_use]
pub fn one_line(text: &str, bytes: usize) -> String {
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let line = lines.next().unwrap_or_default();
    let short = head(line, bytes).trim_end();
    if short.len() < line.len() || lines.next().is_some() {
        format!("{short} …")
    } else {
        short.to_owned()
    }
}

/// Returns a prompt as one text: the parts separated by blank lines, files as their names and
/// paths.
#[must_use]
pub fn prompt(parts: &[Part]) -> String {
    let texts = parts.iter().map(|part| match part {
        Part::Text(text) => text.clone(),
        Part::Image(file) | Part::File(file) => {
            format!(
                "[Attached file: {} ({}, {} bytes) at {}]",
                file.name, file.media_type, file.size, file.path
            )
        }
    });
    texts.collect::<Vec<_>>().join("\n\n")
}

/// Returns the end of stderr: at most the last `lines` lines and 1 KiB, without blank lines.
/// Backends append it to their message about a process that ended, so that the messages of all
/// agents have the same format. The host removes lines that do not explain the end before users see
/// it.
#[must_use]
pub fn stderr_end(tail: &str, lines: usize) -> String {
    let shown: Vec<&str> = tail.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let end = shown[shown.len().saturating_sub(lines)..].join("\n");
    end[end.ceil_char_boundary(end.len().saturating_sub(1024))..].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_cut_at_character_boundaries() {
        assert_eq!(head("añb", 2), "a");
        assert_eq!(one_line("\n  déjà vu\nagain", 2), "d …");
        assert_eq!(one_line("ls -la", 80), "ls -la");
        let long = "é".repeat(2000);
        assert!(stderr_end(&long, 3).len() <= 1024);
    }

    #[test]
    fn the_end_of_stderr_is_kept() {
        assert_eq!(stderr_end("warning\n\n  at x\nError: no\n\n", 2), "at x\nError: no");
        assert_eq!(stderr_end("", 2), "");
    }
}
