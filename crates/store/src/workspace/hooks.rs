//! The section "Hooks" of `agents.md`: instructions for the agent when the gateway starts or stops,
//! and around each turn.
//!
//! Pure. `docs/hooks.md` has the format.

use std::collections::BTreeMap;
use std::ops::Range;

use super::agents_layout::AgentsSection;
use super::fields::parse_channel;
use aetheel_model::id::ChannelId;
use aetheel_model::markdown::layout::{
    HiddenHeadings, MarkdownError, block_faults, is_failed_heading, key_of,
};
use aetheel_model::markdown::outline::{
    ListItem, OutlineSection, TextLine, descendants, outline, strip_bullet,
};
use aetheel_model::markdown::trim_backticks;

/// An occasion for a hook.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Hook {
    /// Discord and the agent are ready.
    Startup,
    /// An event's turn is about to begin.
    AgentBegin,
    /// An event's answer was delivered.
    AgentStop,
    /// The gateway is about to stop.
    Shutdown,
}

impl Hook {
    /// Every hook that `agents.md` may name.
    pub const ALL: [Self; 4] = [Self::Startup, Self::AgentBegin, Self::AgentStop, Self::Shutdown];

    /// Returns its name in `agents.md`, in lanes and in logs.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Startup => "startup",
            Self::AgentBegin => "agent_begin",
            Self::AgentStop => "agent_stop",
            Self::Shutdown => "shutdown",
        }
    }

    /// Finds a hook by its name in any spelling: `agent_stop`, `Agent Stop`, `agent-stop`.
    fn by_name(name: &str) -> Option<Self> {
        let plain = |name: &str| name.to_lowercase().replace([' ', '-'], "_");
        Self::ALL.into_iter().find(|hook| plain(name) == hook.name())
    }
}

/// The operator's instruction for the agent of a hook.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HookInstruction {
    /// The prompt for the agent.
    pub text: String,
    /// The channel for its answer, or `None` for the operator's output channel.
    pub channel: Option<ChannelId>,
}

/// The content of the section.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hooks {
    instructions: BTreeMap<Hook, HookInstruction>,
    lines: BTreeMap<Hook, Range<usize>>,
    faults: Vec<usize>,
    /// A line for each part that could not be read.
    pub warnings: Vec<String>,
}

impl Hooks {
    /// Parses the text of `agents.md`. A hook with an invalid part is left out with a warning.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let mut hooks = Self::default();
        let parts = outline(text);
        let line_after = |line: usize| parts.iter().map(|part| part.line).find(|next| *next > line);
        for index in (0..parts.len())
            .filter(|index| parts[*index].plain_title().eq_ignore_ascii_case("hooks"))
        {
            hooks.unread(&parts[index], &|key| Hook::by_name(key).is_some());
            hooks.read_items(parts[index].items(), line_after(parts[index].line));
            for part in descendants(&parts, index) {
                let title = part.plain_title();
                let Some(hook) = Hook::by_name(&title) else {
                    hooks.unknown(&title, part.line);
                    continue;
                };
                hooks.unread(part, &|key| key == "channel" || key == "instruction");
                let instruction = hooks.read(part.items());
                if instruction.text.is_empty() {
                    let fault = format!(
                        "hook {} has no `- instruction: …`, so nothing is done",
                        hook.name()
                    );
                    hooks.warn(part.line, &fault);
                } else {
                    let end = line_after(part.line).unwrap_or(usize::MAX);
                    hooks.put(hook, instruction, part.line..end);
                }
            }
        }
        let section = AgentsSection {
            titles: &["hooks"],
            is_part: &is_hook_part,
            is_item: &|line| is_entry_of(&line.text, &|key| Hook::by_name(key).is_some()),
            word: "hook",
        };
        hooks.leave_out_faulty(text);
        hooks.warnings.extend(section.faults(text));
        hooks
    }

    /// Reads the list items of the section, which ends before the line `end`.
    fn read_items(&mut self, items: Vec<ListItem>, end: Option<usize>) {
        let begins: Vec<usize> = items.iter().map(|item| item.line).collect();
        for (index, item) in items.into_iter().enumerate() {
            let end = begins.get(index + 1).copied().or(end).unwrap_or(usize::MAX);
            match Hook::by_name(&item.key) {
                Some(hook) if !item.value.is_empty() => {
                    let instruction = HookInstruction { text: item.value, channel: None };
                    self.put(hook, instruction, item.line..end);
                }
                Some(hook) => {
                    self.warn(item.line, &format!("`{}` has no instruction", hook.name()));
                }
                None => self.unknown(&item.key, item.line),
            }
        }
    }

    /// Removes the hooks with a line that is not read, because it may belong to their instruction or
    /// name their channel.
    fn leave_out_faulty(&mut self, text: &str) {
        let blocks = block_faults(text, &|_| false, HiddenHeadings::AreAllowed);
        let faults: Vec<usize> =
            self.faults.drain(..).chain(blocks.into_iter().map(|(line, _)| line)).collect();
        for (hook, lines) in std::mem::take(&mut self.lines) {
            if faults.iter().any(|line| lines.contains(line)) {
                self.instructions.remove(&hook);
                self.warn(
                    lines.start,
                    &format!("hook {} is left out: it has a line that is not read", hook.name()),
                );
            }
        }
        self.faults.clear();
    }

    /// Warns of the lines of a part that are written like entries but are not list items.
    fn unread(&mut self, part: &OutlineSection, is_known: &dyn Fn(&str) -> bool) {
        for TextLine { number, text } in &part.body {
            let key = key_of(text).filter(|key| is_known(key));
            if let Some(key) = key.filter(|_| strip_bullet(text).is_none()) {
                self.warn(*number, &format!("`{key}` is not read; begin the line with `- {key}:`"));
            }
            let title = text.trim_matches(|c: char| c.is_whitespace() || "#>`:".contains(c));
            if is_failed_heading(text) && Hook::by_name(title).is_some() {
                self.warn(*number, &MarkdownError::NotAHeading.to_string());
            }
        }
    }

    /// Returns the instruction of a hook, or `None` if the operator defined none.
    #[must_use]
    pub fn of(&self, hook: Hook) -> Option<&HookInstruction> {
        self.instructions.get(&hook)
    }

    fn read(&mut self, items: Vec<ListItem>) -> HookInstruction {
        let mut instruction = HookInstruction::default();
        for item in items {
            match item.key.to_lowercase().as_str() {
                "instruction" => instruction.text = item.value,
                "channel" if item.value.is_empty() => {
                    self.warn(item.line, "`channel` has no value")
                }
                "channel" => match parse_channel(trim_backticks(&item.value)) {
                    Ok(channel) => instruction.channel = Some(channel),
                    Err(fault) => self.warn(item.line, &fault.to_string()),
                },
                other => self.warn(item.line, &format!("`{other}` is unknown here")),
            }
        }
        instruction
    }

    fn put(&mut self, hook: Hook, instruction: HookInstruction, lines: Range<usize>) {
        if self.instructions.insert(hook, instruction).is_some() {
            self.warn(lines.start, &format!("there is an earlier hook {}", hook.name()));
        }
        self.lines.insert(hook, lines);
    }

    fn unknown(&mut self, name: &str, line: usize) {
        let names = Hook::ALL.map(Hook::name).join(", ");
        self.warn(line, &format!("there is no hook {name:?}; there are: {names}"));
    }

    fn warn(&mut self, line: usize, fault: &str) {
        self.faults.push(line);
        self.warnings.push(format!("agents.md line {line}: {fault}"));
    }
}

fn is_hook_part(part: &OutlineSection) -> bool {
    let is_instruction = |line: &TextLine| is_entry_of(&line.text, &|key| key == "instruction");
    let title = part.plain_title();
    // Marks before the name make it another heading than the operator meant.
    let name = title.trim_start_matches(|c: char| c.is_whitespace() || "#>*+-_~`".contains(c));
    Hook::by_name(name).is_some() && part.body.iter().any(is_instruction)
}

fn is_entry_of(line: &str, is_known: &dyn Fn(&str) -> bool) -> bool {
    key_of(line).is_some_and(|key| is_known(&key))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(hooks: &Hooks) -> Vec<(&'static str, &str, Option<ChannelId>)> {
        Hook::ALL
            .iter()
            .filter_map(|hook| {
                hooks.of(*hook).map(|told| (hook.name(), told.text.as_str(), told.channel))
            })
            .collect()
    }

    #[test]
    fn hooks_are_read_at_any_level_and_in_both_forms() {
        let hooks = Hooks::parse(
            "# Agents\n\n## Rules\n\n- startup: not here\n\n## Hooks\n\nFor people.\n\n- shutdown: Say goodbye.\n\n\
### Agent-Begin\n\n- channel: <#42>\n- instruction: Look at the calendar.\n  Then be brief.\n\n### `startup`\n\n- Instruction: Say hello.\n\n\
```\n### agent_stop\n- instruction: only an example\n```\n\n## Other\n\n### agent_stop\n\nnot here either\n",
        );
        let expected = [
            ("startup", "Say hello.", None),
            ("agent_begin", "Look at the calendar.\nThen be brief.", Some(ChannelId::discord(42))),
            ("shutdown", "Say goodbye.", None),
        ];
        assert_eq!((told(&hooks), hooks.warnings.as_slice()), (expected.to_vec(), &[][..]));
        let deep = Hooks::parse("#### HOOKS ####\n- agent_stop: Tidy up.\n");
        assert_eq!(told(&deep), [("agent_stop", "Tidy up.", None)]);
        assert_eq!(Hooks::parse(""), Hooks::default());
    }

    #[test]
    fn an_invalid_hook_is_reported_and_affects_no_other() {
        let hooks = Hooks::parse(
            "# Hooks\n- begin: x\n- startup: One\n## agent_boot\n- instruction: x\n## startup\n- instruction: Two\n- channel: general\n\
- when: later\n## shutdown\nSay goodbye.\n## agent_stop\n- instruction: Three\n",
        );
        assert_eq!(told(&hooks), [("agent_stop", "Three", None)]);
        let lines: Vec<_> = hooks
            .warnings
            .iter()
            .map(|warning| warning.split(": ").next().unwrap_or_default())
            .collect();
        assert_eq!(
            lines,
            [2, 4, 8, 9, 6, 10, 6].map(|line| format!("agents.md line {line}")),
            "{:?}",
            hooks.warnings
        );
        for (warning, part) in hooks.warnings.iter().zip([
            "\"begin\"",
            "\"agent_boot\"",
            "general",
            "`when`",
            "earlier",
            "instruction",
            "left out",
        ]) {
            assert!(warning.contains(part), "{warning}");
        }
    }
}
