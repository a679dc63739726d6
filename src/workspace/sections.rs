//! Markdown that operators write by hand: `## title` begins a section, `- key: value` is an entry of it.
//!
//! Everything else is for people and passed over: what stands before the first section, paragraphs, indented lines,
//! fenced code and comments. Files whose sections end in a text of their own find it in [`Section::prose`].

/// A part of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Section {
    /// Without backticks, trimmed.
    pub title: String,
    /// Where it begins, from 1.
    pub line: usize,
    pub entries: Vec<Entry>,
    /// Everything from the first line on that is neither blank nor an entry, without comments; bullets among it count as
    /// entries too.
    pub prose: String,
    /// Where that begins, from 1; none: there is nothing of the kind.
    pub prose_line: Option<usize>,
}

impl Section {
    /// Begins or continues the prose.
    fn say(&mut self, number: usize, line: &str) {
        if self.prose_line.is_none() && line.trim().is_empty() {
            return;
        }
        self.prose_line.get_or_insert(number);
        self.prose.push_str(line.trim_end());
        self.prose.push('\n');
    }
}

/// `- key: value`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    /// Lower-case, with `-` for blanks and `_`.
    pub key: String,
    /// Not empty; backticks as they stand.
    value: String,
    /// From 1.
    pub line: usize,
}

impl Entry {
    /// The value, without backticks around it.
    pub(super) fn text(&self) -> &str {
        bare(&self.value)
    }

    /// The parts between commas, each without backticks around it. A comma within braces, as in JSON, separates nothing.
    pub(super) fn list(&self) -> impl Iterator<Item = &str> {
        let mut depth = 0_usize;
        let separates = move |c: char| {
            match c {
                '{' => depth += 1,
                '}' => depth = depth.saturating_sub(1),
                _ => {}
            }
            c == ',' && depth == 0
        };
        self.value.split(separates).map(bare).filter(|item| !item.is_empty())
    }
}

/// Reads a file; the second part is what looks like an entry and is none, with its line.
pub(super) fn sections(text: &str) -> (Vec<Section>, Vec<(usize, String)>) {
    let (mut sections, mut strange): (Vec<Section>, _) = (Vec::new(), Vec::new());
    let (mut fence, mut comment) = (None, false);
    for (number, line) in (1..).zip(text.lines()) {
        if let Some(mark) = ["```", "~~~"].into_iter().find(|mark| line.trim_start().starts_with(mark)) {
            match fence {
                None if !comment => fence = Some(mark),
                Some(open) if open == mark => fence = None,
                _ => {}
            }
            if let Some(section) = sections.last_mut().filter(|_| !comment) {
                section.say(number, line);
            }
            continue;
        }
        if fence.is_some() {
            if let Some(section) = sections.last_mut() {
                section.say(number, line);
            }
            continue;
        }
        let line = uncommented(line, &mut comment);
        if let Some(title) = line.strip_prefix("## ") {
            let title = title.replace('`', "").trim().to_owned();
            sections.push(Section { title, line: number, entries: Vec::new(), prose: String::new(), prose_line: None });
            continue;
        }
        let Some(section) = sections.last_mut() else { continue };
        let item = ["- ", "* ", "+ "].iter().find_map(|bullet| line.strip_prefix(bullet));
        if section.prose_line.is_some() || item.is_none() {
            section.say(number, &line);
        }
        let Some(item) = item else { continue };
        match item.split_once(':') {
            Some((key, value)) if value.trim().is_empty() && !key.trim().is_empty() => {}
            Some((key, value)) if !key.trim().is_empty() => {
                let key = bare(key).to_lowercase().replace([' ', '_'], "-");
                section.entries.push(Entry { key, value: value.trim().to_owned(), line: number });
            }
            _ => strange.push((number, format!("{:?} is not `key: value`", item.trim()))),
        }
    }
    (sections, strange)
}

/// A line without what comments hide; `open` says whether one goes on.
pub(super) fn uncommented(line: &str, open: &mut bool) -> String {
    let (mut rest, mut kept) = (line, String::new());
    loop {
        if *open {
            let Some((_, after)) = rest.split_once("-->") else { return kept };
            (rest, *open) = (after, false);
        } else {
            let Some((before, after)) = rest.split_once("<!--") else { return kept + rest };
            kept.push_str(before);
            (rest, *open) = (after, true);
        }
    }
}

/// Without blanks and a pair of backticks around it.
pub(super) fn bare(text: &str) -> &str {
    let text = text.trim();
    let inner = text.strip_prefix('`').and_then(|text| text.strip_suffix('`'));
    inner.filter(|inner| !inner.contains('`')).unwrap_or(text).trim()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_bullets_of_sections_count() {
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
        let titles: Vec<_> = found.iter().map(|section| (section.title.as_str(), section.line)).collect();
        assert_eq!(titles, [("One", 3), ("Two", 15)]);
        let keys: Vec<_> = found[0].entries.iter().map(|entry| (entry.key.as_str(), entry.text(), entry.line)).collect();
        assert_eq!(keys, [("key-one", "a b", 5), ("list-of", "`a`, b,, `c d`", 7)]);
        assert_eq!(found[0].entries[1].list().collect::<Vec<_>>(), ["a", "b", "c d"]);
        assert_eq!(strange, [(16, "\"strange\" is not `key: value`".to_owned())]);
    }

    #[test]
    fn a_comma_within_braces_separates_nothing() {
        let (found, _) = sections("## One\n- set: A=1, B={\"x\":{\"y\":1,\"z\":2},\"w\":3}, `C={a,b}`, D=}, E=2\n");
        let list: Vec<_> = found[0].entries[0].list().collect();
        assert_eq!(list, ["A=1", "B={\"x\":{\"y\":1,\"z\":2},\"w\":3}", "C={a,b}", "D=}", "E=2"]);
    }

    #[test]
    fn prose_is_all_from_the_first_line_that_is_no_entry() {
        let text =
            "## One\n\n- key: value\n\n\nDo this: <!-- hidden -->\n\n- look: here\n```\n## not a section\n```\n\n## Two\n- key: value\n";
        let (found, _) = sections(text);
        assert_eq!(found[0].prose.trim_end(), "Do this:\n\n- look: here\n```\n## not a section\n```");
        assert_eq!((found[0].prose_line, found[1].prose_line, found[1].prose.as_str()), (Some(6), None, ""));
    }
}
