//! Prints one answer: streamed at a terminal, otherwise only when it is complete.

use std::collections::HashSet;
use std::sync::Arc;

use async_trait::async_trait;

use crate::folded::{self, Folded, shortened};
use crate::markdown::{self, Paragraphs};
use crate::outlet::{AnswerCounts, ConsoleState};
use crate::questions::OpenQuestions;
use crate::terminal::columns;
use aetheel_dispatch::{
    DeliveryError, OpenQuestion, QuestionDismissal, Reply, Settlement, TurnAnswer,
};
use aetheel_model::agent::{
    AgentEventKind, DiagnosticLevel, TaskStatus, TextEvent, ToolEnd, ToolStart, ToolStatus, Usage,
};
use aetheel_model::event::{Event, EventOrigin};
use aetheel_model::fold::Transcript;
use aetheel_model::plain::{clean_text, one_line};

/// The answer to one event.
pub(crate) struct ConsoleReply {
    shared: Arc<ConsoleState>,
    /// Whether it answers a prompt of the terminal. Only such answers are counted.
    asked: bool,
    /// Printed text of each part, in order of appearance.
    printed: Vec<(u32, String)>,
    /// Text that an editor has not printed yet, because it prints whole paragraphs.
    paragraphs: Paragraphs,
    at_line_start: bool,
    thinking: bool,
    /// Ids of tools whose line was printed.
    announced: HashSet<String>,
    /// Ids of tools with a title but without input. A better title usually follows.
    unclear: Vec<String>,
    /// Printed notices.
    noticed: Vec<String>,
    /// Whether the folded parts of the previous answer were discarded.
    is_begun: bool,
    /// The tool in the last printed line, if that line announced one.
    last_tool: Option<String>,
}

impl ConsoleReply {
    pub(crate) fn new(shared: Arc<ConsoleState>, event: &Event) -> Self {
        Self {
            shared,
            asked: event.origin == EventOrigin::Console,
            printed: Vec::new(),
            paragraphs: Paragraphs::default(),
            at_line_start: true,
            thinking: false,
            announced: HashSet::new(),
            unclear: Vec::new(),
            noticed: Vec::new(),
            is_begun: false,
            last_tool: None,
        }
    }

    fn text(&mut self, text: &TextEvent) {
        let shown = clean_text(&text.text).into_owned();
        if self.printed.last().is_none_or(|(part, _)| *part != text.part) {
            let same = |(part, before): &(u32, String)| *part == text.part && *before == shown;
            if shown.is_empty() || text.replace && self.printed.iter().any(same) {
                return;
            }
            self.fresh_line();
            self.printed.push((text.part, String::new()));
        }
        let Some((_, before)) = self.printed.last_mut() else { return };
        let addition = if !text.replace {
            before.push_str(&shown);
            shown
        } else if let Some(rest) = shown.strip_prefix(before.as_str()) {
            let rest = rest.to_owned();
            before.clone_from(&shown);
            rest
        } else {
            // Printed text cannot be removed, so the new text is printed below it.
            before.clone_from(&shown);
            format!("\n{shown}")
        };
        self.emit(&addition);
    }

    /// Prints text of the answer: as Markdown above an edited line, otherwise unchanged.
    fn emit(&mut self, text: &str) {
        let Some(last) = text.chars().last() else { return };
        self.last_tool = None;
        self.at_line_start = last == '\n';
        if !self.shared.screen.has_editor() {
            self.shared.screen.print(text);
        } else if let Some(complete) = self.paragraphs.add(text) {
            self.print_markdown(&complete);
        }
    }

    fn print_markdown(&self, text: &str) {
        self.shared.screen.print(&markdown::render(text, columns(), self.shared.colour));
    }

    /// Prints the rest of the answer or of a part of it.
    fn fresh_line(&mut self) {
        let is_line_open = !std::mem::replace(&mut self.at_line_start, true);
        if self.shared.screen.has_editor() {
            let rest = self.paragraphs.end();
            self.print_markdown(&rest);
        } else if is_line_open {
            self.shared.screen.print("\n");
        }
        if is_line_open {
            self.last_tool = None;
        }
    }

    /// Changes the open questions and prints the result, before a typed line can answer them.
    fn questions(&mut self, change: impl FnOnce(&mut OpenQuestions) -> Option<String>) {
        let shared = self.shared.clone();
        shared.questions.send_modify(|waiting| {
            let Some(text) = change(waiting) else { return };
            self.fresh_line();
            self.shared.screen.print(&text);
            self.last_tool = None;
            if !waiting.is_empty() {
                self.shared.prompt();
            }
        });
    }

    fn aside(&mut self, text: &str) {
        self.fresh_line();
        self.shared.print_note(text);
        self.at_line_start = true;
        self.last_tool = None;
    }

    /// Prints a line that is a failure or news, and in a script not part of the output.
    fn report(&mut self, text: &str) {
        self.fresh_line();
        // Ignored: without stderr there is nobody to report to.
        let _ = self.shared.report(text);
        self.last_tool = None;
    }

    fn notice(&mut self, notice: &str) {
        let line = one_line(notice);
        if !self.noticed.contains(&line) {
            self.report(&format!("· {line}"));
            self.noticed.push(line);
        }
    }

    /// Prints the line of a tool once: when its input is known, when another event follows, or when
    /// it ends.
    fn announce(&mut self, start: &ToolStart) {
        if self.announced.insert(start.id.clone()) {
            let line = tool_line(start);
            self.aside(&format!("{}⚙ {line}", folded::indent(start)));
            self.last_tool = Some(line);
        }
    }

    fn announce_unclear(&mut self, transcript: &Transcript) {
        for id in std::mem::take(&mut self.unclear) {
            if let Some(tool) = transcript.tool(&id) {
                self.announce(&tool.start);
            }
        }
    }

    fn ended(&mut self, end: &ToolEnd, start: Option<&ToolStart>) {
        if let Some(start) = start {
            self.announce(start);
        }
        let (before, title) = start.map_or((String::new(), "tool".to_owned()), |start| {
            (folded::indent(start), tool_line(start))
        });
        let lines = self.shared.folded().end_tool(&title, end);
        for line in lines {
            self.aside(&format!("{before}  {line}"));
        }
        if end.status != ToolStatus::Ok {
            let name = start.map_or("tool".to_owned(), |start| one_line(&start.native_name));
            let code = end.exit_code.map(|code| format!(" with code {code}")).unwrap_or_default();
            self.aside(&format!(
                "{before}✗ {name}: {}{code}",
                format!("{:?}", end.status).to_lowercase()
            ));
        }
    }

    /// Returns whether the whole answer was already streamed, as one part or as the last parts
    /// together.
    fn streamed(&self, text: &str) -> bool {
        let bare =
            |text: &str| text.chars().filter(|letter| !letter.is_whitespace()).collect::<String>();
        let wanted = bare(text);
        let all: String = self.printed.iter().map(|(_, printed)| bare(printed)).collect();
        all.ends_with(&wanted) || self.printed.iter().any(|(_, printed)| bare(printed) == wanted)
    }
}

#[async_trait]
impl Reply for ConsoleReply {
    fn update(&mut self, event: &AgentEventKind, transcript: &Transcript) {
        if !self.shared.live {
            return;
        }
        if !std::mem::replace(&mut self.is_begun, true) {
            *self.shared.folded() = Folded::default();
        }
        if matches!(
            event,
            AgentEventKind::Text(_)
                | AgentEventKind::Thinking(_)
                | AgentEventKind::ToolOutput(_)
                | AgentEventKind::Plan(_)
                | AgentEventKind::Notice(_)
        ) {
            self.announce_unclear(transcript);
        }
        match event {
            AgentEventKind::Text(TextEvent { parent: Some(parent), text, .. }) => {
                self.shared.folded().add_output(parent, text, false)
            }
            AgentEventKind::Text(text) => self.text(text),
            AgentEventKind::Task(task) if task.background || task.status != TaskStatus::Running => {
                self.aside(&folded::task_line(task))
            }
            AgentEventKind::Thinking(_) => {
                self.shared.folded().keep_thinking(transcript);
                if self.thinking {
                    return;
                }
                self.thinking = true;
                self.aside("… thinking (/open thinking)");
            }
            AgentEventKind::ToolStart(start) => {
                self.thinking = false;
                // Some agents report a tool first with a general title ("Terminal") and without
                // input.
                if start.target.is_some() || !matches!(start.input.as_str(), "" | "{}" | "null") {
                    self.announce(start);
                } else if !(start.title.is_empty() || start.title == start.native_name) {
                    self.unclear.push(start.id.clone());
                }
            }
            AgentEventKind::ToolOutput(output) => {
                self.shared.folded().add_output(&output.id, &output.text, output.replace)
            }
            AgentEventKind::ToolEnd(end) => {
                self.ended(end, transcript.tool(&end.id).map(|tool| &tool.start))
            }
            AgentEventKind::Plan(plan) => {
                let line = self.shared.folded().update_plan(plan);
                if let Some(line) = line {
                    self.aside(&line);
                }
            }
            AgentEventKind::Retry(failure) => {
                self.aside(&format!("↻ the agent is retrying: {}", one_line(&failure.message)))
            }
            AgentEventKind::Notice(notice) if notice.level >= DiagnosticLevel::Info => {
                self.notice(&notice.text)
            }
            AgentEventKind::Compaction(compaction) => {
                if let Some(line) = compaction.line() {
                    self.notice(&line);
                }
            }
            _ => {}
        }
    }

    fn ask(&mut self, question: &OpenQuestion, _unseen: QuestionDismissal) {
        let above = self.last_tool.take();
        self.questions(|waiting| waiting.ask(question, above.as_deref()));
    }

    fn question_settled(&mut self, id: &str, how: &Settlement) {
        self.questions(|waiting| waiting.settle(id, how));
    }

    async fn finish(mut self: Box<Self>, answer: TurnAnswer) -> Result<(), DeliveryError> {
        let text = clean_text(&answer.text);
        if self.shared.live {
            if !text.trim().is_empty() && !self.streamed(&text) {
                self.fresh_line();
                self.emit(&text);
            }
            self.fresh_line();
            if self.asked && text.trim().is_empty() && answer.failure.is_none() {
                self.aside("· The agent finished without an answer.");
            }
        } else if !text.trim().is_empty() {
            self.emit(&text);
            self.fresh_line();
        }
        for notice in &answer.notices {
            self.notice(notice);
        }
        for file in &answer.files {
            self.aside(&format!("📎 {} ({})", file.name, file.path.display()));
        }
        if let Some(failure) = &answer.failure {
            self.report(&format!("✗ {failure}"));
            if let Some(detail) = &answer.detail {
                self.report(&format!("  {}", one_line(detail)));
            }
            if answer.offer.is_some() {
                self.report("  the agent's output is kept; /recover delivers it once a newer backend can read it");
            }
        } else if self.shared.live {
            self.aside(&footer(&answer));
        }
        if !self.asked {
            self.shared.prompt();
            return Ok(());
        }
        let failed = u32::from(answer.failure.is_some());
        self.shared.answers.send_modify(|answers| {
            *answers = AnswerCounts { all: answers.all + 1, failed: answers.failed + failed }
        });
        Ok(())
    }
}

fn tool_line(start: &ToolStart) -> String {
    let about = if start.title.is_empty() {
        start.target.as_deref().unwrap_or_default()
    } else {
        &start.title
    };
    let name = start.native_name.as_str();
    let repeated = about.get(..name.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(name));
    match repeated.then(|| &about[name.len()..]) {
        Some("") => shortened(name),
        // A title such as "Edit code.py" already names the tool.
        Some(rest) if rest.starts_with(' ') => shortened(about),
        _ => shortened(&format!("{name} {about}")),
    }
}

/// Returns the free part of the context window, in percent.
fn context_left(usage: &Usage) -> Option<u64> {
    match (usage.context_used, usage.context_size) {
        (Some(used), Some(size @ 1..)) => {
            Some(100_u64.saturating_sub(u64::from(used) * 100 / u64::from(size)))
        }
        _ => None,
    }
}

fn footer(answer: &TurnAnswer) -> String {
    let mut footer = format!("[{}", answer.backend);
    if let Some(model) = &answer.model {
        footer.push_str(&format!(" · {model}"));
    }
    footer.push_str(&format!(" · {:.1} s", answer.took.as_secs_f64()));
    if let Some(usage) = &answer.usage {
        footer.push_str(&format!(
            " · {} in, {} out",
            usage.input.saturating_add(usage.cached),
            usage.output
        ));
        if let Some(cost) = usage.cost_usd {
            footer.push_str(&format!(" · ${cost:.4} list price"));
        }
        if let Some(left) = context_left(usage) {
            footer.push_str(&format!(" · {left}% of the context left"));
        }
    }
    footer.push(']');
    footer
}

#[cfg(test)]
mod tests {
    use parking_lot::Mutex;
    use std::io::Write;
    use std::time::Duration;

    use super::*;
    use crate::outlet::Console;
    use aetheel_dispatch::Outlet as _;
    use aetheel_model::agent::{AgentFailure, FailureKind, PlanEntry, PlanStatus, ToolOutput};
    use aetheel_model::event::{EventKind as Kind, Lane, NewEvent};

    #[derive(Clone, Default)]
    struct Paper(Arc<Mutex<Vec<u8>>>);

    impl Write for Paper {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().write(bytes)
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    /// Prints an answer with these events and this final text, and returns the terminal's contents.
    async fn shown(events: &[AgentEventKind], answer: TurnAnswer) -> (String, Console) {
        let paper = Paper::default();
        let console = Console::printing_to(Box::new(paper.clone()));
        let event = NewEvent::new(
            Kind::Message,
            Lane::Console,
            EventOrigin::Internal { channel: None },
            "",
        )
        .accepted(1, 0);
        let (mut reply, mut transcript) = (console.open(&event), Transcript::default());
        for event in events {
            transcript.apply(event);
            reply.update(event, &transcript);
        }
        reply.finish(answer).await.unwrap();
        let shown = String::from_utf8(paper.0.lock().clone()).unwrap();
        (shown.trim_end_matches("> ").to_owned(), console)
    }

    fn answer(text: &str) -> TurnAnswer {
        TurnAnswer {
            text: text.to_owned(),
            failure: None,
            notices: Vec::new(),
            backend: "Agent".to_owned(),
            model: None,
            detail: None,
            agent_lost: false,
            paused: false,
            limit: None,
            cut: None,
            usage: None,
            took: Duration::from_millis(1500),
            tools: None,
            offer: None,
            ping: None,
            continuation: None,
            turn: None,
            files: vec![],
        }
    }

    fn text(part: u32, text: &str) -> AgentEventKind {
        AgentEventKind::Text(TextEvent {
            part,
            text: text.to_owned(),
            replace: false,
            parent: None,
        })
    }

    fn tool(id: &str, parent: Option<&str>, title: &str, target: Option<&str>) -> AgentEventKind {
        let (id, parent) = (id.to_owned(), parent.map(str::to_owned));
        let (kind, native_name, title, input) =
            ("bash".to_owned(), "Bash".to_owned(), title.to_owned(), "{}".to_owned());
        AgentEventKind::ToolStart(ToolStart {
            id,
            parent,
            kind,
            native_name,
            title,
            target: target.map(str::to_owned),
            input,
        })
    }

    fn end(id: &str, status: ToolStatus, output: Option<&str>) -> AgentEventKind {
        let (id, output) = (id.to_owned(), output.map(str::to_owned));
        AgentEventKind::ToolEnd(ToolEnd { id, status, output, exit_code: None, diffs: Vec::new() })
    }

    #[tokio::test]
    async fn a_tool_is_shown_once_when_its_input_is_known() {
        let events = [
            tool("1", None, "Bash", None),
            tool("1", None, "ls -l", Some("ls -l")),
            AgentEventKind::ToolOutput(ToolOutput {
                id: "1".to_owned(),
                text: "a\nb\n".to_owned(),
                replace: false,
            }),
            end("1", ToolStatus::Ok, None),
            tool("2", None, "Bash", None),
            end("2", ToolStatus::Failed, Some("no")),
            tool("3", Some("2"), "make", Some("make")),
        ];
        let (shown, console) = shown(&events, answer("")).await;
        assert_eq!(
            shown,
            "⚙ Bash ls -l\n  | a … 1 more line (/open 1)\n⚙ Bash\n  | no\n✗ Bash: failed\n  ⚙ Bash make\n[Agent · 1.5 s]\n"
        );
        assert_eq!(console.shared().folded().open(Some("1")).as_deref(), Ok("Bash ls -l\na\nb"));
    }

    #[tokio::test]
    async fn a_general_title_is_replaced_by_the_command_that_runs() {
        let events = [
            tool("1", None, "Terminal", None),
            tool("2", None, "Terminal", None),
            tool("1", None, "make test", Some("make test")),
            tool("2", None, "bash build.sh", Some("bash build.sh")),
            tool("3", None, "Wait", None),
            text(0, "Running.\n"),
            end("1", ToolStatus::Ok, None),
        ];
        let (shown, _) = shown(&events, answer("Running.\n")).await;
        assert!(
            shown.starts_with("⚙ Bash make test\n⚙ bash build.sh\n⚙ Bash Wait\nRunning.\n"),
            "{shown}"
        );
    }

    #[tokio::test]
    async fn a_notice_is_shown_once() {
        let notice = || "The limit is near.".to_owned();
        let notices = vec![notice(), "Another.".to_owned()];
        let (shown, _) =
            shown(&[AgentEventKind::Notice(notice().into())], TurnAnswer { notices, ..answer("") })
                .await;
        assert_eq!(shown, "· The limit is near.\n· Another.\n[Agent · 1.5 s]\n");
    }

    #[tokio::test]
    async fn an_answer_in_several_parts_is_not_repeated() {
        let events = [
            text(0, "Let me see."),
            tool("1", None, "ls", Some("ls")),
            text(1, "The first half of it"),
            text(2, ", and the second."),
        ];
        let (shown, _) = shown(&events, answer("The first half of it, and the second.")).await;
        assert_eq!(
            shown,
            "Let me see.\n⚙ Bash ls\nThe first half of it\n, and the second.\n[Agent · 1.5 s]\n"
        );
        let (shown, _) = self::shown(&[text(0, "What came")], answer("What counts")).await;
        assert_eq!(
            shown, "What came\nWhat counts\n[Agent · 1.5 s]\n",
            "a different answer is printed"
        );
    }

    #[tokio::test]
    async fn plan_thinking_and_remaining_context_are_shown_in_one_line_each() {
        let entry = |text: &str, status| PlanEntry { text: text.to_owned(), status };
        let thought = |text: &str| {
            AgentEventKind::Thinking(TextEvent {
                part: 0,
                text: text.to_owned(),
                replace: false,
                parent: None,
            })
        };
        let plan = AgentEventKind::Plan(vec![
            entry("look", PlanStatus::Done),
            entry("write", PlanStatus::Active),
        ]);
        let retry = AgentEventKind::Retry(AgentFailure {
            kind: FailureKind::Overloaded,
            message: "busy".to_owned(),
            retry_after_ms: None,
        });
        let events = [thought("Hm"), thought(", well."), plan.clone(), plan, retry];
        let usage = Usage {
            input: 10,
            output: 5,
            cached: 90,
            cost_usd: Some(0.012),
            context_used: Some(50_000),
            context_size: Some(200_000),
            ..Usage::default()
        };
        let answer = TurnAnswer { usage: Some(usage), model: Some("m-1".to_owned()), ..answer("") };
        let (shown, console) = shown(&events, answer).await;
        let wanted = "… thinking (/open thinking)\n☑ 1 of 2: write (/open plan)\n↻ the agent is retrying: busy\n\
                      [Agent · m-1 · 1.5 s · 100 in, 5 out · $0.0120 list price · 75% of the context left]\n";
        assert_eq!(shown, wanted);
        assert_eq!(console.shared().folded().open(Some("thinking")).as_deref(), Ok("Hm, well."));
    }
}
