//! Changes the entries of a channel in `channels.md` and nothing else in it. Pure.

use super::{Lane, keyword, lane, sections};

/// A name or value that cannot be written on one line of `channels.md`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} cannot be written in channels.md")]
pub struct UnwritableValue(pub String);

/// Returns the text with a new section for a project at its end, or `None` if the project already
/// has one.
///
/// # Errors
/// [`UnwritableValue`] if the name or a value cannot be written on one line of markdown.
pub fn with_project(
    text: &str,
    name: &str,
    entries: &[(&str, Option<&str>)],
) -> Result<Option<String>, UnwritableValue> {
    let (found, _) = sections(text);
    let called = |title: &str| keyword(title, "project").map(str::to_lowercase);
    if found.iter().any(|section| called(&section.title) == Some(name.to_lowercase())) {
        return Ok(None);
    }
    check(entries)?;
    check(&[("project", Some(name))])?;
    Ok(Some(with_section(text, &format!("project {name}"), entries)))
}

/// Returns the text with these entries in the section of a lane. An entry with a value replaces the
/// present one or is added; an entry without one is removed. A lane without a section gets one,
/// whose title contains `name`.
///
/// # Errors
/// [`UnwritableValue`] if a value cannot be written on one line of markdown.
pub fn with_channel(
    text: &str,
    of: &Lane,
    name: Option<&str>,
    entries: &[(&str, Option<&str>)],
) -> Result<String, UnwritableValue> {
    check(entries)?;
    let (found, _) = sections(text);
    // The last section of a lane is the one that is used.
    let Some(section) =
        found.iter().rfind(|section| lane(&section.title).is_some_and(|lane| lane == *of))
    else {
        return Ok(with_section(text, &title(of, name), entries));
    };
    let mut lines: Vec<Option<String>> = text.lines().map(|line| Some(line.to_owned())).collect();
    let mut added = Vec::new();
    for (key, value) in entries {
        let mut new = written(key, *value);
        for old in section.entries.iter().filter(|old| old.key == *key) {
            // A second entry with the same key would override the first, so only one is kept.
            lines[old.line - 1] = new.take();
        }
        added.extend(new);
    }
    let last = section.entries.iter().map(|entry| entry.line).max().unwrap_or(section.line);
    let (before, after) = lines.split_at(last);
    let head = before.iter().flatten().cloned();
    let text: Vec<String> = head.chain(added).chain(after.iter().flatten().cloned()).collect();
    Ok(text.join("\n") + "\n")
}

fn check(entries: &[(&str, Option<&str>)]) -> Result<(), UnwritableValue> {
    let fits = |value: &str| {
        !value.contains(|c: char| c == '`' || c.is_control()) && !value.trim().is_empty()
    };
    match entries.iter().filter_map(|(_, value)| *value).find(|value| !fits(value)) {
        Some(value) => Err(UnwritableValue(value.to_owned())),
        None => Ok(()),
    }
}

fn written(key: &str, value: Option<&str>) -> Option<String> {
    value.map(|value| format!("- {key}: `{value}`"))
}

/// Returns the text with a new section at its end.
fn with_section(text: &str, title: &str, entries: &[(&str, Option<&str>)]) -> String {
    let mut text = match text.trim_end() {
        "" => "# Channels\n".to_owned(),
        text => format!("{text}\n"),
    };
    text.push_str(&format!("\n## {title}\n"));
    for line in entries.iter().filter_map(|(key, value)| written(key, *value)) {
        text.push_str(&line);
        text.push('\n');
    }
    text
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
    use aetheel_model::id::ChannelId;

    const SITE: Lane = Lane::Channel(ChannelId::discord(42));

    #[test]
    fn a_new_channel_gets_a_section_and_the_rest_stays_unchanged() {
        let before = "# Mine\n\nwords\n\n## project p\n- directory: `a`\n\n\n";
        let after = with_channel(
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
            with_channel("", &Lane::Console, None, &[("backend", Some("codex"))]).expect("fits"),
            "# Channels\n\n## console\n- backend: `codex`\n"
        );
    }

    #[test]
    fn entries_are_replaced_added_and_removed_in_place() {
        let before = "## channel #site (42)\nwords\n- Directory: old\n- directory: older\n- safety: edit\n- backend: claude\n\nmore\n## 43\n- directory: x\n";
        let after = with_channel(
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
    fn a_new_project_gets_a_section_and_an_existing_one_stays() {
        let entries = [("directory", Some("/srv/site"))];
        let text = with_project("# Mine\n", "Site", &entries).expect("fits").expect("new");
        assert_eq!(text, "# Mine\n\n## project Site\n- directory: `/srv/site`\n");
        assert_eq!(with_project(&text, "site", &entries), Ok(None));
        assert!(with_project("", "a\n## channel 1", &entries).is_err());
        assert!(with_project("", "a", &[("directory", Some("`"))]).is_err());
    }

    #[test]
    fn a_value_cannot_span_lines() {
        for bad in ["a\n## project x", "`", " "] {
            assert!(with_channel("", &SITE, None, &[("directory", Some(bad))]).is_err(), "{bad:?}");
        }
    }
}
