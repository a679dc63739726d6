//! Markdown that operators write: `## title` begins a section, and `- key: value` is an entry of
//! it.
//!
//! Everything else is for people and is skipped: text before the first section, paragraphs,
//! indented lines, fenced code and comments. Sections that end with a text of their own have it in
//! [`Section::prose`].

use super::{KeyValue, MarkdownLine, lines};

/// A part of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Section {
    /// The text of the heading, without backticks, trimmed.
    pub title: String,
    /// The line at which it begins, from 1.
    pub line: usize,
    /// Its entries, in order.
    pub entries: Vec<KeyValue>,
    /// All lines from the first one that is neither blank nor an entry, without comments. Bullets
    /// in it are entries, too.
    pub prose: String,
    /// The line at which the prose begins, from 1, or `None` without prose.
    pub prose_line: Option<usize>,
}

impl Section {
    /// Appends a line to the prose. A blank line at its beginning is ignored.
    fn push_prose(&mut self, number: usize, line: &str) {
        if self.prose_line.is_none() && line.trim().is_empty() {
            return;
        }
        self.prose_line.get_or_insert(number);
        self.prose.push_str(line.trim_end());
        self.prose.push('\n');
    }
}

/// Parses a file. The second part contains the bullets that are not `key: value`, with their line
/// numbers.
#[must_use]
pub fn sections(text: &str) -> (Vec<Section>, Vec<(usize, String)>) {
    let (mut sections, mut strange): (Vec<Section>, _) = (Vec::new(), Vec::new());
    for (number, line) in lines(text) {
        let line = match line {
            MarkdownLine::Text(line) => line,
            MarkdownLine::Code(line) => {
                if let Some(section) = sections.last_mut() {
                    section.push_prose(number, line);
                }
                continue;
            }
        };
        if let Some(title) = line.strip_prefix("## ") {
            let title = title.replace('`', "").trim().to_owned();
            sections.push(Section {
                title,
                line: number,
                entries: Vec::new(),
                prose: String::new(),
                prose_line: None,
            });
            continue;
        }
        let Some(section) = sections.last_mut() else { continue };
        let item = ["- ", "* ", "+ "].iter().find_map(|bullet| line.strip_prefix(bullet));
        if section.prose_line.is_some() || item.is_none() {
            section.push_prose(number, &line);
        }
        let Some(item) = item else { continue };
        match item.split_once(':') {
            Some((key, value)) if value.trim().is_empty() && !key.trim().is_empty() => {}
            Some((key, value)) if !key.trim().is_empty() => {
                let key = KeyValue::key_of(key);
                section.entries.push(KeyValue {
                    key,
                    value: value.trim().to_owned(),
                    line: number,
                });
            }
            _ => strange.push((number, format!("{:?} is not `key: value`", item.trim()))),
        }
    }
    (sections, strange)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_bullets_of_sections_are_entries() {
        let text = "\
# Title
- before: the first section
## `One` <!-- hidden -->
A paragraph: with a colon.
- Key One: `a b`
  - indented: no
* list_of: `a`, b,, `c d`
<!-- - commented: no
- too: no -->
+ empty:
```
## Two
- fenced: no
```
## Two
- strange
";
        let (found, strange) = sections(text);
        let titles: Vec<_> =
            found.iter().map(|section| (section.title.as_str(), section.line)).collect();
        assert_eq!(titles, [("One", 3), ("Two", 15)]);
        let keys: Vec<_> = found[0]
            .entries
            .iter()
            .map(|entry| (entry.key.as_str(), entry.text(), entry.line))
            .collect();
        assert_eq!(keys, [("key-one", "a b", 5), ("list-of", "`a`, b,, `c d`", 7)]);
        assert_eq!(found[0].entries[1].list().collect::<Vec<_>>(), ["a", "b", "c d"]);
        assert_eq!(strange, [(16, "\"strange\" is not `key: value`".to_owned())]);
    }

    /// A fence of four backticks is not closed by one of three. Otherwise an example inside an
    /// example would be parsed as settings.
    #[test]
    fn an_example_of_a_file_is_not_settings() {
        let (found, strange) = sections(
            "## One\n- a: 1\n````markdown\n```\n```\n## Two\n- secret: x\n- odd\n````\n- b: 2\n",
        );
        assert_eq!(found.len(), 1);
        let keys: Vec<_> = found[0].entries.iter().map(|entry| entry.key.as_str()).collect();
        assert_eq!((keys, strange), (vec!["a", "b"], vec![]));
    }

    #[test]
    fn a_comma_within_braces_separates_nothing() {
        let (found, _) = sections(
            "## One\n- set: A=1, B={\"x\":{\"y\":1,\"z\":2},\"w\":3}, `C={a,b}`, D=}, E=2\n",
        );
        let list: Vec<_> = found[0].entries[0].list().collect();
        assert_eq!(list, ["A=1", "B={\"x\":{\"y\":1,\"z\":2},\"w\":3}", "C={a,b}", "D=}", "E=2"]);
    }

    #[test]
    fn prose_begins_with_the_first_line_that_is_not_an_entry() {
        let text = "## One\n\n- key: value\n\n\nDo this: <!-- hidden -->\n\n- look: here\n```\n## not a section\n```\n\n## Two\n- key: value\n";
        let (found, _) = sections(text);
        assert_eq!(
            found[0].prose.trim_end(),
            "Do this:\n\n- look: here\n```\n## not a section\n```"
        );
        assert_eq!(
            (found[0].prose_line, found[1].prose_line, found[1].prose.as_str()),
            (Some(6), None, "")
        );
    }
}
