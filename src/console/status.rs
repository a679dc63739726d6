//! The status line below the input line: the backend, the activity, the remaining context, and the
//! cost. Pure.

use std::collections::{HashMap, HashSet};
use std::time::Instant;

use crate::agent::{AgentEventKind, Usage};
use crate::dispatch::{LaneStatus, Setting, TurnAnswer};
use crate::fold::Transcript;
use crate::plain::{one_line, short_line};

/// The contract's kind of a tool that runs a sub-agent.
const SUB_AGENT: &str = "agent_spawn";

/// The state of the conversation that the status line shows.
#[derive(Debug, Default)]
pub(super) struct StatusLine {
    backend: String,
    model: Option<String>,
    /// Settings that people chose, such as plan mode.
    chosen: Vec<String>,
    turn: Option<StatusTurn>,
    /// Number of prompts after the running one.
    waiting: u32,
    /// Free part of the context window, in percent.
    context_left: Option<u64>,
    /// Cost of all answers, in dollars.
    cost: f64,
}

#[derive(Debug)]
struct StatusTurn {
    since: Instant,
    activity: String,
    /// The tool that is shown instead of `activity`, if one runs.
    tool: Option<StatusTool>,
    /// Start of each running tool, by id.
    began: HashMap<String, Instant>,
    sub_agents: usize,
    asks: bool,
}

#[derive(Debug)]
struct StatusTool {
    name: String,
    since: Instant,
    /// The last lines of its output, oldest first.
    lines: Vec<String>,
}

/// Number of lines of a running tool's output above the status, and the largest number of
/// characters of each.
pub(super) const OUTPUT_LINES: usize = 3;
const OUTPUT_LINE: usize = 200;

impl StatusLine {
    /// Shows the backend and its settings.
    pub(super) fn set_view(&mut self, view: &LaneStatus) {
        let backend = if view.label.is_empty() { &view.backend } else { &view.label };
        if self.backend != *backend {
            self.backend = one_line(backend);
            self.forget();
        }
        let option = |setting| view.options.iter().find(move |option| option.setting == setting);
        let model = option(Setting::Model)
            .filter(|option| option.current.is_some())
            .map(|option| one_line(option.shown()));
        self.model = model.or(self.model.take());
        let chosen = [Setting::Mode, Setting::Safety, Setting::Effort]
            .into_iter()
            .filter_map(option)
            .filter(|option| option.chosen);
        self.chosen = chosen
            .map(|option| {
                format!("{} {}", option.setting.title().to_lowercase(), one_line(option.shown()))
            })
            .collect();
    }

    /// Shows a new turn.
    pub(super) fn begin(&mut self, now: Instant) {
        self.turn = Some(StatusTurn {
            since: now,
            activity: "working".to_owned(),
            tool: None,
            began: HashMap::new(),
            sub_agents: 0,
            asks: false,
        });
    }

    /// Updates the activity with an event of the agent.
    pub(super) fn observe(
        &mut self,
        event: &AgentEventKind,
        transcript: &Transcript,
        now: Instant,
    ) {
        if let AgentEventKind::Usage(usage) = event {
            self.context_left = context_left(usage).or(self.context_left);
        }
        let Some(turn) = &mut self.turn else { return };
        let open = || transcript.open_tools();
        match event {
            AgentEventKind::Retry(_) => turn.activity = "trying again".to_owned(),
            AgentEventKind::Thinking(_) => turn.activity = "thinking".to_owned(),
            AgentEventKind::Text(_) => turn.activity = "answering".to_owned(),
            AgentEventKind::ToolStart(start) => {
                turn.began.entry(start.id.clone()).or_insert(now);
                turn.activity = "working".to_owned();
            }
            AgentEventKind::ToolEnd(end) => {
                turn.began.remove(&end.id);
                turn.activity = "working".to_owned();
            }
            AgentEventKind::ToolOutput(_) => {}
            _ => return,
        }
        let shown = open().next_back().filter(|_| !matches!(event, AgentEventKind::Retry(_)));
        turn.tool = shown.map(|tool| StatusTool {
            name: one_line(&tool.start.native_name),
            since: turn.began.get(&tool.start.id).copied().unwrap_or(now),
            lines: tool
                .last_lines(OUTPUT_LINES)
                .into_iter()
                .map(|line| short_line(line, OUTPUT_LINE))
                .collect(),
        });
        let spawned =
            open().filter(|tool| tool.start.kind == SUB_AGENT).map(|tool| tool.start.id.as_str());
        let agents: HashSet<&str> =
            spawned.chain(open().filter_map(|tool| tool.start.parent.as_deref())).collect();
        turn.sub_agents = agents.len();
    }

    /// Sets the number of waiting prompts.
    pub(super) fn wait(&mut self, waiting: u32) {
        self.waiting = waiting;
    }

    /// Sets whether the agent waits for an answer of the person.
    pub(super) fn ask(&mut self, asks: bool) {
        if let Some(turn) = &mut self.turn {
            turn.asks = asks;
        }
    }

    /// Ends the turn.
    pub(super) fn end(&mut self, answer: &TurnAnswer) {
        self.turn = None;
        self.model = answer.model.as_deref().map(one_line).or(self.model.take());
        if let Some(usage) = &answer.usage {
            self.context_left = context_left(usage).or(self.context_left);
            self.cost += usage.cost_usd.unwrap_or(0.0);
        }
    }

    /// Forgets the model and the context, because another conversation, model or backend was
    /// chosen.
    pub(super) fn forget(&mut self) {
        (self.model, self.context_left) = (None, None);
    }

    /// Returns the last lines that the running tool printed, oldest first.
    pub(super) fn output(&self) -> &[String] {
        let turn = self.turn.as_ref().filter(|turn| !turn.asks);
        turn.and_then(|turn| turn.tool.as_ref()).map_or(&[], |tool| &tool.lines)
    }

    /// Formats the status line.
    pub(super) fn line(&self, now: Instant) -> String {
        let mut parts: Vec<String> = vec![self.backend.clone()];
        parts.extend(self.model.clone());
        parts.extend(self.chosen.iter().cloned());
        if let Some(turn) = &self.turn {
            let since = |then| format_seconds(now.saturating_duration_since(then).as_secs());
            match &turn.tool {
                _ if turn.asks => parts.push(format!("asks you {}", since(turn.since))),
                Some(tool) => {
                    parts.push(format!("{} {}", tool.name, since(tool.since)));
                    parts.push(format!("turn {}", since(turn.since)));
                }
                None => parts.push(format!("{} {}", turn.activity, since(turn.since))),
            }
            match turn.sub_agents {
                0 => {}
                1 => parts.push("1 sub-agent".to_owned()),
                several => parts.push(format!("{several} sub-agents")),
            }
        }
        parts.extend((self.waiting > 0).then(|| format!("{} waiting", self.waiting)));
        parts.extend(self.context_left.map(|left| format!("{left}% of the context left")));
        parts.extend((self.cost > 0.0).then(|| format!("${:.4}", self.cost)));
        parts.join(" · ")
    }
}

fn format_seconds(seconds: u64) -> String {
    if seconds < 60 {
        format!("{seconds} s")
    } else {
        format!("{} min {} s", seconds / 60, seconds % 60)
    }
}

/// Returns the free part of the context window, in percent.
pub(super) fn context_left(usage: &Usage) -> Option<u64> {
    match (usage.context_used, usage.context_size) {
        (Some(used), Some(size @ 1..)) => {
            Some(100_u64.saturating_sub(u64::from(used) * 100 / u64::from(size)))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::agent::descriptor::DescriptorChoice;
    use crate::agent::{TextEvent, ToolEnd, ToolOutput, ToolStart, ToolStatus};
    use crate::dispatch::SettingOption;

    fn option(setting: Setting, current: Option<&str>, chosen: bool) -> SettingOption {
        let choices = vec![DescriptorChoice { id: "plan".to_owned(), label: "Plan".to_owned() }];
        SettingOption { setting, current: current.map(str::to_owned), chosen, choices, open: true }
    }

    fn tool(id: &str, parent: Option<&str>, kind: &str) -> AgentEventKind {
        let (id, parent, native_name) =
            (id.to_owned(), parent.map(str::to_owned), format!("Do{id}"));
        AgentEventKind::ToolStart(ToolStart {
            id,
            parent,
            kind: kind.to_owned(),
            native_name,
            title: String::new(),
            target: None,
            input: String::new(),
        })
    }

    #[test]
    fn the_line_shows_backend_activity_context_and_cost() {
        let (mut status, now, mut transcript) =
            (StatusLine::default(), Instant::now(), Transcript::default());
        let options = vec![
            option(Setting::Model, Some("opus"), false),
            option(Setting::Mode, Some("plan"), true),
            option(Setting::Safety, None, false),
        ];
        let view = LaneStatus {
            backend: "claude".to_owned(),
            label: "Claude Code".to_owned(),
            options,
            ..LaneStatus::default()
        };
        status.set_view(&view);
        assert_eq!(status.line(now), "Claude Code · opus · mode Plan");
        status.begin(now);
        let later = now + Duration::from_secs(75);
        assert_eq!(status.line(later), "Claude Code · opus · mode Plan · working 1 min 15 s");
        let mut told = |status: &mut StatusLine, event: AgentEventKind| {
            transcript.apply(&event);
            status.observe(&event, &transcript, now);
            status.line(now).split(" · ").skip(3).map(str::to_owned).collect::<Vec<_>>()
        };
        let text =
            |text: &str| TextEvent { part: 0, text: text.to_owned(), replace: false, parent: None };
        assert_eq!(told(&mut status, AgentEventKind::Thinking(text("hm"))), ["thinking 0 s"]);
        assert_eq!(
            told(&mut status, tool("a", None, SUB_AGENT)),
            ["Doa 0 s", "turn 0 s", "1 sub-agent"]
        );
        assert_eq!(
            told(&mut status, tool("b", Some("a"), "bash")),
            ["Dob 0 s", "turn 0 s", "1 sub-agent"]
        );
        assert_eq!(
            told(&mut status, tool("c", Some("x"), "bash")),
            ["Doc 0 s", "turn 0 s", "2 sub-agents"]
        );
        status.ask(true);
        assert_eq!(
            status.line(now),
            "Claude Code · opus · mode Plan · asks you 0 s · 2 sub-agents"
        );
        status.ask(false);
        status.wait(1);
        assert!(status.line(now).ends_with(" · 1 waiting"));
        status.wait(0);
        for id in ["a", "b", "c"] {
            let end = ToolEnd {
                id: id.to_owned(),
                status: ToolStatus::Ok,
                output: None,
                exit_code: None,
                diffs: Vec::new(),
            };
            told(&mut status, AgentEventKind::ToolEnd(end));
        }
        assert_eq!(told(&mut status, AgentEventKind::Text(text("yes"))), ["answering 0 s"]);
        let usage = Usage {
            cost_usd: Some(0.25),
            context_used: Some(50),
            context_size: Some(200),
            ..Usage::default()
        };
        assert_eq!(
            told(&mut status, AgentEventKind::Usage(usage.clone())),
            ["answering 0 s", "75% of the context left"]
        );
        let answer = TurnAnswer {
            model: Some("opus-5".to_owned()),
            usage: Some(usage),
            ..TurnAnswer::default()
        };
        status.end(&answer);
        status.begin(now);
        status.end(&answer);
        assert_eq!(
            status.line(now),
            "Claude Code · opus-5 · mode Plan · 75% of the context left · $0.5000"
        );
        status.forget();
        status.set_view(&LaneStatus { backend: "codex".to_owned(), ..LaneStatus::default() });
        assert_eq!(status.line(now), "codex · $0.5000");
    }

    #[test]
    fn a_running_tool_shows_its_own_time_and_its_last_lines() {
        let (mut status, now, mut transcript) =
            (StatusLine::default(), Instant::now(), Transcript::default());
        status.set_view(&LaneStatus { backend: "demo".to_owned(), ..LaneStatus::default() });
        status.begin(now);
        let mut told = |status: &mut StatusLine, event: AgentEventKind, seconds: u64| {
            transcript.apply(&event);
            status.observe(&event, &transcript, now + Duration::from_secs(seconds));
        };
        let print = |id: &str, text: &str| {
            let (id, text) = (id.to_owned(), text.to_owned());
            AgentEventKind::ToolOutput(ToolOutput { id, text, replace: false })
        };
        told(&mut status, tool("a", None, "bash"), 60);
        told(&mut status, print("a", "1\n2\n3\n4\n"), 70);
        let later = now + Duration::from_secs(90);
        assert_eq!(status.line(later), "demo · Doa 30 s · turn 1 min 30 s");
        assert_eq!(status.output(), ["2", "3", "4"]);
        told(&mut status, tool("b", None, "bash"), 80);
        assert_eq!(status.line(later), "demo · Dob 10 s · turn 1 min 30 s");
        assert_eq!(status.output(), [] as [&str; 0], "the new tool has no output yet");
        status.ask(true);
        told(&mut status, print("b", "x\n"), 81);
        assert_eq!(status.output(), [] as [&str; 0], "no output is shown during a question");
    }
}
