//! Sums up the tools of a turn in one line, which is shown below the answer. Pure.

use std::collections::BTreeSet;

use crate::agent::ToolStatus;
use crate::fold::{ToolUse, Transcript};
use crate::plain::{counted, one_line, short_line};
use crate::redact::Redactor;

const MAX_COMMAND_CHARS: usize = 40;
/// Kinds of tools that the line never mentions: their effect is shown elsewhere.
const LEFT_OUT: [&str; 2] = ["todo", "ask_user"];
/// Part of the names of the gateway's own tools. Each of their calls has a notice of its own.
const HOST_TOOL: &str = "aetheel_";

/// Returns what the tools of a finished turn did, in Markdown and without secrets:
/// ``3 files read, 1 changed, `make test` ✓``. Returns `None` if no tool ran.
///
/// A file counts once, however often it was used. Uses that failed or were denied count only if
/// they are commands. A tool without an end was stopped, as the host reports it at the end of a
/// turn.
#[must_use]
pub fn tool_summary(transcript: &Transcript, redactor: &Redactor) -> Option<String> {
    let mut uses = ToolCounts::default();
    for tool in transcript.tools() {
        uses.add(tool);
    }
    let parts = uses.parts(redactor);
    (!parts.is_empty()).then(|| parts.join(", "))
}

#[derive(Default)]
struct ToolCounts<'a> {
    read: BTreeSet<&'a str>,
    changed: BTreeSet<&'a str>,
    searches: usize,
    pages: usize,
    web_searches: usize,
    sub_agents: usize,
    others: usize,
    commands: Vec<&'a ToolUse>,
}

impl<'a> ToolCounts<'a> {
    fn add(&mut self, tool: &'a ToolUse) {
        let start = &tool.start;
        let kind = start.kind.as_str();
        if LEFT_OUT.contains(&kind)
            || start.native_name.contains(HOST_TOOL)
            || tool.status == Some(ToolStatus::Denied)
        {
            return;
        }
        if kind == "bash" {
            self.commands.push(tool);
            return;
        }
        if !matches!(tool.status, Some(ToolStatus::Ok | ToolStatus::Unknown)) {
            return;
        }
        // Without a target, every use is a file of its own.
        let file = start.target.as_deref().unwrap_or(&start.id);
        match kind {
            "file_read" => drop(self.read.insert(file)),
            "file_write" | "file_edit" if tool.changed.is_empty() => {
                self.changed.insert(file);
            }
            "file_write" | "file_edit" => {
                self.changed.extend(tool.changed.iter().map(String::as_str));
            }
            "file_search" | "content_search" => self.searches += 1,
            "web_search" => self.web_searches += 1,
            "web_fetch" => self.pages += 1,
            "agent_spawn" => self.sub_agents += 1,
            _ => self.others += 1,
        }
    }

    fn parts(&self, redactor: &Redactor) -> Vec<String> {
        let mut parts = Vec::new();
        if !self.read.is_empty() {
            parts.push(format!("{} read", counted(self.read.len(), "file")));
        }
        match (self.changed.len(), self.read.is_empty()) {
            (0, _) => {}
            (changed, true) => parts.push(format!("{} changed", counted(changed, "file"))),
            (changed, false) => parts.push(format!("{changed} changed")),
        }
        for (count, words) in [
            (self.searches, plural(self.searches, "search", "searches")),
            (self.web_searches, plural(self.web_searches, "web search", "web searches")),
            (self.pages, format!("{} fetched", counted(self.pages, "page"))),
            (self.sub_agents, counted(self.sub_agents, "sub-agent")),
            (self.others, counted(self.others, "other tool")),
        ] {
            if count > 0 {
                parts.push(words);
            }
        }
        parts.extend(self.commands(redactor));
        parts
    }

    /// Returns the only command with its result, or the number of commands.
    fn commands(&self, redactor: &Redactor) -> Option<String> {
        let count = |result| self.commands.iter().filter(|tool| result_of(tool) == result).count();
        match self.commands[..] {
            [] => None,
            [tool] => {
                let name =
                    command(tool, redactor).map_or("1 command".to_owned(), |it| format!("`{it}`"));
                Some(match result_of(tool) {
                    CommandResult::Succeeded => format!("{name} ✓"),
                    CommandResult::Failed => format!("{name} ✗"),
                    CommandResult::Stopped => format!("{name} stopped"),
                    CommandResult::Unknown => name,
                })
            }
            _ if count(CommandResult::Succeeded) == self.commands.len() => {
                Some(format!("{} commands ✓", self.commands.len()))
            }
            _ => {
                let mut text = format!("{} commands", self.commands.len());
                for (result, word) in
                    [(CommandResult::Failed, "failed"), (CommandResult::Stopped, "stopped")]
                {
                    match count(result) {
                        0 => {}
                        number => text.push_str(&format!(", {number} {word}")),
                    }
                }
                Some(text)
            }
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum CommandResult {
    Succeeded,
    Failed,
    Stopped,
    Unknown,
}

fn result_of(tool: &ToolUse) -> CommandResult {
    match (tool.status, tool.exit_code) {
        (None | Some(ToolStatus::Cancelled), _) => CommandResult::Stopped,
        (Some(ToolStatus::Failed | ToolStatus::Denied), _) | (_, Some(1..)) => {
            CommandResult::Failed
        }
        (Some(ToolStatus::Ok), _) | (_, Some(0)) => CommandResult::Succeeded,
        (Some(ToolStatus::Unknown), None) => CommandResult::Unknown,
    }
}

/// Returns a command on one line, for a code span. Secrets are removed before it is cut, because a
/// part of one would no longer be recognised.
fn command(tool: &ToolUse, redactor: &Redactor) -> Option<String> {
    let texts = [tool.start.target.as_deref(), Some(tool.start.title.as_str())];
    let text = texts.into_iter().flatten().find(|text| !text.trim().is_empty())?;
    let text = redactor.redact(one_line(text)).replace('`', "'");
    Some(short_line(&text, MAX_COMMAND_CHARS)).filter(|text| !text.is_empty())
}

fn plural(number: usize, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}

#[cfg(test)]
mod tests {
    use secrecy::SecretString;

    use super::*;
    use crate::agent::{AgentEventKind, FileDiff, ToolEnd, ToolStart};

    fn start(id: usize, kind: &str, target: &str) -> AgentEventKind {
        AgentEventKind::ToolStart(ToolStart {
            id: id.to_string(),
            parent: None,
            kind: kind.to_owned(),
            native_name: "Tool".to_owned(),
            title: String::new(),
            target: Some(target.to_owned()),
            input: "{}".to_owned(),
        })
    }

    fn end(id: usize, status: ToolStatus, exit_code: Option<u32>) -> AgentEventKind {
        let (id, output, diffs) = (id.to_string(), None, Vec::new());
        AgentEventKind::ToolEnd(ToolEnd { id, status, output, exit_code, diffs })
    }

    /// Returns the line about these tools: kind, target and result of each.
    fn line(tools: &[(&str, &str, Option<ToolStatus>)]) -> Option<String> {
        let mut transcript = Transcript::default();
        for (id, (kind, target, status)) in tools.iter().enumerate() {
            transcript.apply(&start(id, kind, target));
            if let Some(status) = status {
                transcript.apply(&end(id, *status, None));
            }
        }
        tool_summary(&transcript, &Redactor::default())
    }

    const OK: Option<ToolStatus> = Some(ToolStatus::Ok);
    const FAILED: Option<ToolStatus> = Some(ToolStatus::Failed);

    #[test]
    fn files_count_once_and_a_single_command_is_named() {
        let read = |path| ("file_read", path, OK);
        assert_eq!(
            line(&[
                read("a"),
                read("b"),
                read("c"),
                read("a"),
                ("file_edit", "a", OK),
                ("bash", "make test", OK)
            ])
            .as_deref(),
            Some("3 files read, 1 changed, `make test` ✓")
        );
        assert_eq!(line(&[("file_write", "a", OK)]).as_deref(), Some("1 file changed"));
        assert_eq!(line(&[("bash", "make\ttest", FAILED)]).as_deref(), Some("`make test` ✗"));
        assert_eq!(line(&[("bash", "sleep 9", None)]).as_deref(), Some("`sleep 9` stopped"));
        assert_eq!(line(&[("bash", "", OK)]).as_deref(), Some("1 command ✓"));
    }

    #[test]
    fn several_commands_are_counted_with_their_failures() {
        let ran = |status| ("bash", "make", status);
        assert_eq!(line(&[ran(OK), ran(OK)]).as_deref(), Some("2 commands ✓"));
        assert_eq!(
            line(&[ran(OK), ran(OK), ran(FAILED), ran(OK)]).as_deref(),
            Some("4 commands, 1 failed")
        );
        assert_eq!(
            line(&[ran(FAILED), ran(None)]).as_deref(),
            Some("2 commands, 1 failed, 1 stopped")
        );
    }

    #[test]
    fn an_exit_status_decides_if_the_agent_reports_no_result() {
        for (status, exit_code, mark) in [
            (ToolStatus::Unknown, Some(0), " ✓"),
            (ToolStatus::Unknown, None, ""),
            (ToolStatus::Ok, Some(2), " ✗"),
        ] {
            let mut transcript = Transcript::default();
            transcript.apply(&start(0, "bash", "make"));
            transcript.apply(&end(0, status, exit_code));
            let line = tool_summary(&transcript, &Redactor::default());
            assert_eq!(line, Some(format!("`make`{mark}")));
        }
    }

    #[test]
    fn all_files_of_one_change_count() {
        let mut transcript = Transcript::default();
        transcript.apply(&start(0, "file_edit", "a, b"));
        let diff = |path: &str| FileDiff { path: path.to_owned(), ..FileDiff::default() };
        transcript.apply(&AgentEventKind::ToolEnd(ToolEnd {
            id: "0".to_owned(),
            status: ToolStatus::Ok,
            output: None,
            exit_code: None,
            diffs: vec![diff("a"), diff("b")],
        }));
        transcript.apply(&start(1, "file_edit", "a"));
        transcript.apply(&end(1, ToolStatus::Ok, None));
        let line = tool_summary(&transcript, &Redactor::default());
        assert_eq!(line.as_deref(), Some("2 files changed"));
    }

    #[test]
    fn tools_that_did_not_run_are_left_out() {
        assert_eq!(line(&[]), None);
        assert_eq!(line(&[("bash", "rm -r x", Some(ToolStatus::Denied)), ("todo", "", OK)]), None);
        assert_eq!(line(&[("file_read", "a", FAILED), ("file_edit", "a", None)]), None);
    }

    #[test]
    fn other_tools_are_counted_by_kind() {
        let kinds =
            ["content_search", "file_search", "web_search", "web_fetch", "agent_spawn", "mcp"];
        assert_eq!(
            line(&kinds.map(|kind| (kind, "x", OK))).as_deref(),
            Some("2 searches, 1 web search, 1 page fetched, 1 sub-agent, 1 other tool")
        );
    }

    #[test]
    fn a_command_is_one_short_line_without_secrets() {
        let secret = SecretString::from("correct-horse-battery-staple".to_owned());
        let mut transcript = Transcript::default();
        // The cut would be within the secret.
        let said = "curl `url` -H token:xxxxxxxx correct-horse-battery-staple\n\nand more of it";
        transcript.apply(&start(0, "bash", said));
        transcript.apply(&end(0, ToolStatus::Ok, None));
        assert_eq!(
            tool_summary(&transcript, &Redactor::new([&secret])).as_deref(),
            Some("`curl 'url' -H token:xxxxxxxx *** and mo…` ✓")
        );
    }
}
