//! Markdown by its headings, of whatever level: what stands below each, its entries `- key: value`, its fenced code.
//!
//! An entry goes on in the indented lines behind it. Comments are for people and left out, also where they hide headings.

use super::sections::uncommented;
use crate::split::Fence;

/// A heading and what stands below it, up to the next one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Part {
    /// From 1.
    pub level: usize,
    /// Without backticks and marks at its end.
    pub title: String,
    /// Where it stands, from 1.
    pub line: usize,
    lines: Vec<Line>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Line {
    number: usize,
    text: String,
    fenced: bool,
}

/// `- key: value`, or an item without a colon, whose value is empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Item {
    /// Lower-case, without backticks, with `-` for blanks and `_`.
    pub key: String,
    /// Lines are separated by `\n`.
    pub value: String,
    /// The first word as written, without backticks and a colon.
    pub word: String,
    /// From 1.
    pub line: usize,
}

/// Reads a text. What stands before the first heading is left out.
pub(super) fn outline(text: &str) -> Vec<Part> {
    let mut parts: Vec<Part> = Vec::new();
    let (mut fence, mut comment): (Option<Fence<'_>>, _) = (None, false);
    for (number, line) in (1..).zip(text.lines()) {
        let fenced = fence.is_some() || (!comment && Fence::opened_by(line).is_some());
        let text = if fenced {
            fence = match fence {
                Some(open) => Some(open).filter(|open| !open.closed_by(line)),
                None => Fence::opened_by(line),
            };
            line.to_owned()
        } else {
            uncommented(line, &mut comment)
        };
        match heading(&text) {
            Some((level, title)) if !fenced => parts.push(Part { level, title, line: number, lines: Vec::new() }),
            _ => parts.last_mut().into_iter().for_each(|part| part.lines.push(Line { number, text: text.clone(), fenced })),
        }
    }
    parts
}

/// The parts below one, down to the next of its level or a higher one.
pub(super) fn below(parts: &[Part], index: usize) -> &[Part] {
    let rest = &parts[index + 1..];
    &rest[..rest.iter().take_while(|part| part.level > parts[index].level).count()]
}

impl Part {
    /// Its list items outside fenced code.
    pub(super) fn items(&self) -> Vec<Item> {
        let mut items: Vec<Item> = Vec::new();
        let mut open = false;
        for line in &self.lines {
            if line.fenced || line.text.trim().is_empty() {
                open &= !line.fenced;
                continue;
            }
            let at_margin = !line.text.starts_with([' ', '\t']);
            if let Some(item) = ["- ", "* ", "+ "].iter().find_map(|bullet| line.text.strip_prefix(bullet)) {
                let (key, value) = item.split_once(':').unwrap_or((item, ""));
                let key = key.replace('`', "");
                let word = key.split_whitespace().next().unwrap_or_default().to_owned();
                let key = key.trim().to_lowercase().replace([' ', '_'], "-");
                items.push(Item { key, value: value.trim().to_owned(), word, line: line.number });
                open = true;
            } else if let Some(item) = items.last_mut().filter(|_| open && !at_margin) {
                let gap = if item.value.is_empty() { "" } else { "\n" };
                item.value = format!("{}{gap}{}", item.value, line.text.trim());
            } else {
                open = false;
            }
        }
        items
    }

    /// The content of its first fenced code.
    pub(super) fn code(&self) -> Option<String> {
        let mut lines = self.lines.iter().skip_while(|line| !line.fenced);
        let fence = Fence::opened_by(&lines.next()?.text)?;
        Some(lines.take_while(|line| line.fenced && !fence.closed_by(&line.text)).map(|line| format!("{}\n", line.text)).collect())
    }

    /// Everything below its heading, as it stands.
    pub(super) fn text(&self) -> String {
        self.lines.iter().map(|line| format!("{}\n", line.text)).collect()
    }

    /// Its heading, as it would be written.
    pub(super) fn heading(&self) -> String {
        format!("{} {}\n", "#".repeat(self.level), self.title)
    }
}

/// Level and title of an ATX heading.
fn heading(line: &str) -> Option<(usize, String)> {
    let unindented = line.trim_start_matches(' ');
    let title = unindented.trim_start_matches('#');
    let level = unindented.len() - title.len();
    let fits = line.len() - unindented.len() <= 3 && (1..=6).contains(&level) && (title.is_empty() || title.starts_with([' ', '\t']));
    fits.then(|| (level, title.replace('`', "").trim().trim_end_matches(['#', ':', ' ']).to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
before
# Top
- outside: yes
<!-- ## hidden
-->
## `One`: ##
A paragraph.
* Key_one: first
  second line

  - third
- bare
  ## not a heading's sibling
no longer: part of it
  nor this
````markdown
## fenced
```
- fenced: yes
```
````
### Deep
## Two
";

    #[test]
    fn headings_of_every_level_part_a_text() {
        let parts = outline(TEXT);
        let found: Vec<_> = parts.iter().map(|part| (part.level, part.title.as_str(), part.line)).collect();
        assert_eq!(found, [(1, "Top", 2), (2, "One", 6), (2, "not a heading's sibling", 13), (3, "Deep", 22), (2, "Two", 23)]);
        let titles = |index| below(&parts, index).iter().map(|part| part.title.as_str()).collect::<Vec<_>>();
        assert_eq!(titles(0), ["One", "not a heading's sibling", "Deep", "Two"]);
        assert_eq!((titles(2), titles(4)), (vec!["Deep"], vec![]));
    }

    #[test]
    fn items_go_on_in_indented_lines_and_code_is_verbatim() {
        let parts = outline(TEXT);
        let items = parts[1].items();
        let found: Vec<_> = items.iter().map(|item| (item.key.as_str(), item.word.as_str(), item.value.as_str(), item.line)).collect();
        assert_eq!(found, [("key-one", "Key_one", "first\nsecond line\n- third", 8), ("bare", "bare", "", 12)]);
        assert_eq!(parts[2].code().as_deref(), Some("## fenced\n```\n- fenced: yes\n```\n"));
        assert_eq!((parts[2].items(), parts[1].code()), (vec![], None));
        assert!(parts[0].text().starts_with("- outside: yes\n"));
    }
}
