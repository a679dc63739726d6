//! The parts of an answer that are shortened to one line: output and changes of tools, the plan,
//! and thinking. `/open` shows them whole.

use std::collections::HashMap;

use aetheel_model::agent::{
    AgentTask, FileDiff, PlanEntry, PlanStatus, TaskStatus, ToolEnd, ToolStart,
};
use aetheel_model::fold::Transcript;
use aetheel_model::plain::{clean_text, one_line, short_line};

/// Largest number of characters of a line.
const MAX_LINE_CHARS: usize = 120;
/// Largest size of a part, in bytes. The rest is dropped.
const MAX_PART_BYTES: usize = 256 << 10;
/// Largest number of parts of an answer.
const MAX_PARTS: usize = 200;

/// The reason why a part cannot be opened.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NoSuchPart {
    /// Nothing in the last answer was shortened.
    #[error("the last answer has nothing to open")]
    Nothing,
    /// There is no part of this name. `parts` lists the existing ones.
    #[error("the last answer has no {name:?}; it has:\n{}", parts.join("\n"))]
    Unknown { name: String, parts: Vec<String> },
}

/// The folded parts of the last answer.
#[derive(Debug, Default)]
pub(crate) struct Folded {
    /// Title and text of each tool use, in order.
    tools: Vec<(String, String)>,
    /// Output of running tools, by id.
    running: HashMap<String, String>,
    plan: Vec<PlanEntry>,
    thinking: String,
}

impl Folded {
    /// Adds output of a running tool, or replaces it.
    pub(crate) fn add_output(&mut self, id: &str, text: &str, replace: bool) {
        if self.running.len() < MAX_PARTS || self.running.contains_key(id) {
            let output = self.running.entry(id.to_owned()).or_default();
            if replace {
                output.clear();
            }
            add(output, text);
        }
    }

    /// Ends a tool, and returns the lines that represent its output and changes.
    pub(crate) fn end_tool(&mut self, title: &str, end: &ToolEnd) -> Vec<String> {
        let streamed = self.running.remove(&end.id).unwrap_or_default();
        let said =
            end.output.clone().filter(|output| !output.trim().is_empty()).unwrap_or(streamed);
        let said = clean_text(said.trim_matches('\n')).into_owned();
        let changes: Vec<Change> = end.diffs.iter().map(Change::of).collect();
        let texts = changes.iter().map(|change| format!("{}\n{}", change.summary, change.text));
        let whole: Vec<String> = texts.chain((!said.is_empty()).then(|| said.clone())).collect();
        if whole.is_empty() {
            return Vec::new();
        }
        let open = (self.tools.len() < MAX_PARTS).then(|| {
            let mut text = String::new();
            add(&mut text, &whole.join("\n\n"));
            self.tools.push((title.to_owned(), text));
            format!(" (/open {})", self.tools.len())
        });
        let open = open.unwrap_or_default();
        let mut lines: Vec<String> =
            changes.iter().map(|change| format!("± {}{open}", change.summary)).collect();
        // The output is left out if there are changes, which are more informative.
        if let (Some(first), true) =
            (said.lines().find(|line| !line.trim().is_empty()), lines.is_empty())
        {
            let more = said.lines().count() - 1;
            let cut = shortened(first);
            lines.push(match more {
                0 if cut.ends_with('…') => format!("| {cut}{open}"),
                0 => format!("| {cut}"),
                1 => format!("| {cut} … 1 more line{open}"),
                more => format!("| {cut} … {more} more lines{open}"),
            });
        }
        lines
    }

    /// Updates the plan. Returns the line that represents it, if it changed.
    pub(crate) fn update_plan(&mut self, plan: &[PlanEntry]) -> Option<String> {
        if self.plan == plan || plan.is_empty() {
            return None;
        }
        self.plan = plan.to_vec();
        let done = plan.iter().filter(|entry| entry.status == PlanStatus::Done).count();
        let next = plan.iter().find(|entry| entry.status == PlanStatus::Active);
        let next = next.map(|entry| format!(": {}", shortened(&entry.text))).unwrap_or_default();
        Some(format!("☑ {done} of {}{next} (/open plan)", plan.len()))
    }

    /// Saves the thinking of a transcript for `/open thinking`.
    pub(crate) fn keep_thinking(&mut self, transcript: &Transcript) {
        self.thinking.clear();
        add(&mut self.thinking, &clean_text(&transcript.thinking()));
    }

    /// Returns the existing parts. `tool` formats the number and the title of a tool.
    fn parts(&self, tool: impl Fn(usize, &str) -> String) -> Vec<String> {
        let tools = (1..).zip(&self.tools).map(|(number, (title, _))| tool(number, title));
        let plan = (!self.plan.is_empty()).then(|| "plan".to_owned());
        let thinking = (!self.thinking.is_empty()).then(|| "thinking".to_owned());
        tools.chain(plan).chain(thinking).collect()
    }

    /// Returns the names of the existing parts, as accepted by [`Folded::open`].
    pub(crate) fn names(&self) -> Vec<String> {
        self.parts(|number, _| number.to_string())
    }

    /// Returns a whole part, or the list of parts if no name is given.
    ///
    /// # Errors
    /// [`NoSuchPart`] lists the existing parts.
    pub(crate) fn open(&self, what: Option<&str>) -> Result<String, NoSuchPart> {
        let tool = |number: &str| self.tools.get(number.parse::<usize>().ok()?.checked_sub(1)?);
        if let Some((title, text)) = what.and_then(tool) {
            return Ok(format!("{title}\n{text}"));
        }
        let parts = self.parts(|number, title| format!("{number}: {title}"));
        match what {
            Some("plan") if !self.plan.is_empty() => {
                Ok(self.plan.iter().map(step).collect::<Vec<_>>().join("\n"))
            }
            Some("thinking") if !self.thinking.is_empty() => Ok(self.thinking.clone()),
            _ if parts.is_empty() => Err(NoSuchPart::Nothing),
            Some(other) => Err(NoSuchPart::Unknown { name: other.to_owned(), parts }),
            None => Ok(parts.join("\n")),
        }
    }
}

/// Returns the indent of a tool's line. The work of a sub-agent is indented.
pub(crate) fn indent(start: &ToolStart) -> String {
    if start.parent.is_some() { "  ".to_owned() } else { String::new() }
}

/// Returns the line for a sub-agent or a background task.
pub(crate) fn task_line(task: &AgentTask) -> String {
    let sign = match task.status {
        TaskStatus::Running => "⚙",
        TaskStatus::Done => "✓",
        TaskStatus::Failed | TaskStatus::Stopped => "✗",
    };
    let summary = task.summary.as_ref().filter(|summary| **summary != task.title);
    let summary = summary.map(|summary| format!(": {summary}")).unwrap_or_default();
    format!("{sign} {}{summary}", task.title)
}

fn add(to: &mut String, text: &str) {
    let room = MAX_PART_BYTES.saturating_sub(to.len());
    to.push_str(&text[..text.floor_char_boundary(room)]);
}

fn step(entry: &PlanEntry) -> String {
    let mark = match entry.status {
        PlanStatus::Done => '☑',
        PlanStatus::Active => '▶',
        PlanStatus::Pending => '☐',
    };
    format!("{mark} {}", one_line(&entry.text))
}

/// Shortens a text to one line.
pub(crate) fn shortened(line: &str) -> String {
    short_line(line, MAX_LINE_CHARS)
}

/// A change of a file.
struct Change {
    /// The path, with the numbers of added and removed lines.
    summary: String,
    text: String,
}

impl Change {
    fn of(diff: &FileDiff) -> Self {
        let text = diff_text(diff);
        let count = |sign: char, head: &str| {
            text.lines().filter(|line| line.starts_with(sign) && !line.starts_with(head)).count()
        };
        let (added, removed) = (count('+', "+++ "), count('-', "--- "));
        Self { summary: format!("{} +{added} -{removed}", one_line(&diff.path)), text }
    }
}

fn diff_text(diff: &FileDiff) -> String {
    let text = match (&diff.unified, &diff.old_text, &diff.new_text) {
        (Some(unified), ..) => unified.clone(),
        (None, old, new) => {
            let (old, new) =
                (old.as_deref().unwrap_or_default(), new.as_deref().unwrap_or_default());
            similar::TextDiff::from_lines(old, new)
                .unified_diff()
                .context_radius(3)
                // An agent may report only the changed part of a file.
                .missing_newline_hint(false)
                .to_string()
        }
    };
    clean_text(text.trim_end_matches('\n')).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use aetheel_model::agent::ToolStatus;

    fn end(output: Option<&str>, diffs: Vec<FileDiff>) -> ToolEnd {
        ToolEnd {
            id: "t".to_owned(),
            status: ToolStatus::Ok,
            output: output.map(str::to_owned),
            exit_code: None,
            diffs,
        }
    }

    #[test]
    fn output_is_a_line_and_can_be_opened() {
        let mut folded = Folded::default();
        assert_eq!(folded.end_tool("a", &end(None, Vec::new())), Vec::<String>::new());
        assert_eq!(folded.end_tool("b", &end(Some("one\n"), Vec::new())), ["| one"]);
        assert_eq!(
            folded.end_tool("c", &end(Some("one\n\x1b[2Jtwo\nthree"), Vec::new())),
            ["| one … 2 more lines (/open 2)"]
        );
        folded.add_output("t", "strea", false);
        folded.add_output("t", "med\nmore", false);
        assert_eq!(
            folded.end_tool("d", &end(None, Vec::new())),
            ["| streamed … 1 more line (/open 3)"]
        );
        assert_eq!(folded.open(Some("2")).as_deref(), Ok("c\none\ntwo\nthree"));
        assert_eq!(folded.open(None).as_deref(), Ok("1: b\n2: c\n3: d"));
        let error = folded.open(Some("9")).expect_err("there are three parts").to_string();
        assert!(error.contains("no \"9\"") && error.contains("3: d"), "{error}");
    }

    #[test]
    fn changes_are_counted_and_can_be_read() {
        let mut folded = Folded::default();
        let diff = |path: &str, old: Option<&str>, new: &str| FileDiff {
            path: path.to_owned(),
            old_text: old.map(str::to_owned),
            new_text: Some(new.to_owned()),
            ..FileDiff::default()
        };
        let diffs = vec![diff("a.rs", Some("x\ny\n"), "x\nz\nw\n"), diff("b.rs", None, "new\n")];
        assert_eq!(
            folded.end_tool("Edit", &end(Some("done"), diffs)),
            ["± a.rs +2 -1 (/open 1)", "± b.rs +1 -0 (/open 1)"]
        );
        let opened = folded.open(Some("1")).expect("it is there");
        assert!(
            opened.contains("-y\n+z\n+w") && opened.contains("+new") && opened.ends_with("done"),
            "{opened}"
        );
    }

    #[test]
    fn the_plan_is_shown_when_it_changes() {
        let mut folded = Folded::default();
        let entry = |text: &str, status| PlanEntry { text: text.to_owned(), status };
        let plan = vec![
            entry("read", PlanStatus::Done),
            entry("write", PlanStatus::Active),
            entry("rest", PlanStatus::Pending),
        ];
        assert_eq!(folded.update_plan(&plan).as_deref(), Some("☑ 1 of 3: write (/open plan)"));
        assert_eq!(folded.update_plan(&plan), None);
        assert_eq!(folded.names(), ["plan"]);
        assert_eq!(folded.open(Some("plan")).as_deref(), Ok("☑ read\n▶ write\n☐ rest"));
        assert!(Folded::default().open(None).is_err());
    }
}
