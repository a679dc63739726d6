//! Changing what `channels.md` says of a channel, and nothing else in it. Pure.

use super::{Lane, lane, sections};

/// Returns the text with these entries in the section of a lane: an entry with a value is written
/// over the one there is or added, one without is taken out. A lane without a section gets one,
/// with the name people know it by.
///
/// # Errors
/// A value that a line of markdown cannot hold.
pub(super) fn bound(
    text: &str,
    of: &Lane,
    name: Option<&str>,
    entries: &[(&str, Option<&str>)],
) -> Result<String, String> {
    for value in entries.iter().filter_map(|(_, value)| *value) {
        if value.contains(|c: char| c == '`' || c.is_control()) || value.trim().is_empty() {
            return Err(format!("{value:?} cannot stand in channels.md"));
        }
    }
    let written =
        |(key, value): &(&str, Option<&str>)| value.map(|value| format!("- {key}: `{value}`"));
    let (found, _) = sections(text);
    // The last one counts.
    let Some(section) =
        found.iter().rfind(|section| lane(&section.title).is_ok_and(|lane| lane == *of))
    else {
        let mut text = if text.trim().is_empty() {
            "# Channels\n".to_owned()
        } else {
            format!("{}\n", text.trim_end())
        };
        text.push_str(&format!("\n## {}\n", title(of, name)));
        for line in entries.iter().filter_map(written) {
            text.push_str(&line);
            text.push('\n');
        }
        return Ok(text);
    };
    let mut lines: Vec<Option<String>> = text.lines().map(|line| Some(line.to_owned())).collect();
    let mut added = Vec::new();
    for entry in entries {
        let mut new = written(entry);
        for old in section.entries.iter().filter(|old| old.key == entry.0) {
            // A second one of the same key would win over the first: only one is left.
            lines[old.line - 1] = new.take();
        }
        added.extend(new);
    }
    let last = section.entries.iter().map(|entry| entry.line).max().unwrap_or(section.line);
    let (before, after) = lines.split_at(last);
    let kept = before.iter().flatten().cloned();
    let text: Vec<String> = kept.chain(added).chain(after.iter().flatten().cloned()).collect();
    Ok(text.join("\n") + "\n")
}

fn title(of: &Lane, name: Option<&str>) -> String {
    match (of, name) {
        (Lane::Channel(id), Some(name)) => {
            let name: String =
                name.chars().filter(|c| !c.is_control() && !"`<>".contains(*c)).take(100).collect();
            format!("channel #{} {id}", name.trim())
        }
        (Lane::Channel(id), None) => format!("channel {id}"),
        (other, _) => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Channels;
    use super::*;

    const SITE: Lane = Lane::Channel(42);

    #[test]
    fn a_new_channel_gets_a_section_and_what_was_there_stays_as_it_stood() {
        let before = "# Mine\n\nwords\n\n## project p\n- directory: `a`\n\n\n";
        let after = bound(
            before,
            &SITE,
            Some("site `x`"),
            &[("directory", Some("b c")), ("backend", None)],
        )
        .expect("fits");
        assert_eq!(
            after,
            "# Mine\n\nwords\n\n## project p\n- directory: `a`\n\n## channel #site x 42\n- directory: `b c`\n"
        );
        assert_eq!(Channels::parse(&after).of(&SITE).directory.as_deref(), Some("b c"));
        assert_eq!(
            bound("", &Lane::Console, None, &[("backend", Some("codex"))]).expect("fits"),
            "# Channels\n\n## console\n- backend: `codex`\n"
        );
    }

    #[test]
    fn entries_are_written_over_added_and_taken_out_where_they_stand() {
        let before = "## channel #site (42)\nwords\n- Directory: old\n- directory: older\n- safety: edit\n- backend: claude\n\nmore\n## 43\n- directory: x\n";
        let after = bound(
            before,
            &SITE,
            None,
            &[("directory", Some("new")), ("backend", None), ("model", Some("m"))],
        )
        .expect("fits");
        assert_eq!(
            after,
            "## channel #site (42)\nwords\n- directory: `new`\n- safety: edit\n- model: `m`\n\nmore\n## 43\n- directory: x\n"
        );
    }

    #[test]
    fn a_value_cannot_break_out_of_its_line() {
        for bad in ["a\n## project x", "`", " "] {
            assert!(bound("", &SITE, None, &[("directory", Some(bad))]).is_err(), "{bad:?}");
        }
    }
}
