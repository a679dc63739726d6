//! Short forms of text for people and logs.

use crate::wit::Part;

/// Bytes an unrecognised piece of output is cut to, as the contract has it.
pub const SAMPLE_BYTES: usize = 2048;

/// Returns the longest beginning of `text` that has at most `bytes` bytes.
#[must_use]
pub fn head(text: &str, bytes: usize) -> &str {
    &text[..text.floor_char_boundary(bytes)]
}

/// Returns one line for people: the first line with something in it, at most `bytes` bytes, with an
/// ellipsis where something was left out.
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

/// Returns a prompt as one text: pieces with a blank line between them, files by their names and
/// where they are.
#[must_use]
pub fn prompt(parts: &[Part]) -> String {
    let said = parts.iter().map(|part| match part {
        Part::Text(text) => text.clone(),
        Part::Image(file) | Part::File(file) => {
            format!(
                "[Attached file: {} ({}, {} bytes) at {}]",
                file.name, file.media_type, file.size, file.path
            )
        }
    });
    said.collect::<Vec<_>>().join("\n\n")
}

/// Returns the end of stderr as it stands: without blank lines, at most the last `lines` lines and
/// 1 KiB. Backends add it to their word about a process that ended, so that it is the same in every
/// language; the host leaves out lines that are no reason before people see it.
#[must_use]
pub fn stderr_end(tail: &str, lines: usize) -> String {
    let said: Vec<&str> = tail.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let end = said[said.len().saturating_sub(lines)..].join("\n");
    end[end.ceil_char_boundary(end.len().saturating_sub(1024))..].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cuts_keep_whole_characters() {
        assert_eq!(head("añb", 2), "a");
        assert_eq!(one_line("\n  déjà vu\nagain", 2), "d …");
        assert_eq!(one_line("ls -la", 80), "ls -la");
        let long = "é".repeat(2000);
        assert!(stderr_end(&long, 3).len() <= 1024);
    }

    #[test]
    fn the_end_of_stderr_is_what_counts() {
        assert_eq!(stderr_end("warning\n\n  at x\nError: no\n\n", 2), "at x\nError: no");
        assert_eq!(stderr_end("", 2), "");
    }
}
