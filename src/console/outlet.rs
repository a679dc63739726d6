//! Printing answers.

use std::collections::HashSet;
use std::io::{self, Write};
use std::sync::Mutex;

use async_trait::async_trait;
use tokio::sync::watch;

use super::questions::Waiting;
use crate::agent::{EventKind, Text, ToolStart, ToolStatus};
use crate::dispatch::{Answer, DeliveryError, OpenQuestion, Outlet, Reply, Settlement, Unseen};
use crate::event::{Event, Origin};
use crate::fold::Transcript;
use crate::plain::{clean_text, one_line};

/// Where the terminal's answers go.
pub struct Console {
    shared: std::sync::Arc<Shared>,
}

pub(super) struct Shared {
    /// Streams and decorates; otherwise only final texts are printed.
    pub(super) live: bool,
    colour: bool,
    out: Mutex<Box<dyn Write + Send>>,
    pub(super) answers: watch::Sender<Answers>,
    pub(super) questions: watch::Sender<Waiting>,
}

/// Answers printed so far.
#[derive(Clone, Copy, Default)]
pub(super) struct Answers {
    pub(super) all: u32,
    pub(super) failed: u32,
}

impl Console {
    /// Makes one that prints to `out`; `live` streams and decorates.
    #[must_use]
    pub fn new(live: bool, out: Box<dyn Write + Send>) -> Self {
        let colour = live && std::env::var_os("NO_COLOR").is_none();
        let shared = Shared { live, colour, out: Mutex::new(out), answers: watch::Sender::default(), questions: watch::Sender::default() };
        Self { shared: std::sync::Arc::new(shared) }
    }

    pub(super) fn shared(&self) -> std::sync::Arc<Shared> {
        self.shared.clone()
    }
}

impl Shared {
    /// Prints text as it is and flushes.
    pub(super) fn print(&self, text: &str) {
        let mut out = self.out.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        // A closed stdout ends the session by its own means (SIGPIPE is ignored by Rust; the reader is gone anyway).
        let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    }

    /// A line beside the answer.
    pub(super) fn aside(&self, text: &str) {
        if self.colour {
            self.print(&format!("\x1b[2m{text}\x1b[0m\n"));
        } else {
            self.print(&format!("{text}\n"));
        }
    }

    pub(super) fn prompt(&self) {
        if self.live {
            self.print(if self.colour { "\x1b[1m>\x1b[0m " } else { "> " });
        }
    }
}

impl Outlet for Console {
    fn open(&self, event: &Event) -> Box<dyn Reply> {
        Box::new(ConsoleReply {
            shared: self.shared.clone(),
            asked: event.origin == Origin::Console,
            printed: Vec::new(),
            at_line_start: true,
            thinking: false,
            announced: HashSet::new(),
        })
    }
}

struct ConsoleReply {
    shared: std::sync::Arc<Shared>,
    /// Whether it answers a prompt of the terminal: only those are counted.
    asked: bool,
    /// What was printed of each text part, in the order of appearance.
    printed: Vec<(u32, String)>,
    at_line_start: bool,
    thinking: bool,
    /// Tools whose line was printed, by id.
    announced: HashSet<String>,
}

impl ConsoleReply {
    fn text(&mut self, text: &Text) {
        let shown = clean_text(&text.text).into_owned();
        let new_part = self.printed.last().is_none_or(|(part, _)| *part != text.part);
        if new_part {
            let known = self.printed.iter().any(|(part, before)| *part == text.part && text.replace && *before == shown);
            if known || shown.is_empty() {
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
            // What stands on the terminal cannot be taken back.
            before.clone_from(&shown);
            format!("\n{shown}")
        };
        self.emit(&addition);
    }

    fn emit(&mut self, text: &str) {
        if let Some(last) = text.chars().last() {
            self.shared.print(text);
            self.at_line_start = last == '\n';
        }
    }

    fn fresh_line(&mut self) {
        if !self.at_line_start {
            self.emit("\n");
        }
    }

    /// Changes what is open, prints what that brings, and only then lets the next line answer it.
    fn questions(&mut self, change: impl FnOnce(&mut Waiting) -> Option<String>) {
        let shared = self.shared.clone();
        shared.questions.send_modify(|waiting| {
            let Some(text) = change(waiting) else { return };
            self.fresh_line();
            self.emit(&text);
            if !waiting.is_empty() {
                self.shared.prompt();
            }
        });
    }

    fn aside(&mut self, text: &str) {
        self.fresh_line();
        self.shared.aside(text);
        self.at_line_start = true;
    }
}

#[async_trait]
impl Reply for ConsoleReply {
    fn update(&mut self, event: &EventKind, transcript: &Transcript) {
        if !self.shared.live {
            return;
        }
        match event {
            EventKind::Text(text) => self.text(text),
            EventKind::Thinking(_) if !self.thinking => {
                self.thinking = true;
                self.aside("… thinking");
            }
            EventKind::ToolStart(start) => {
                self.thinking = false;
                // A tool may be told twice, the second time with what it is about: one line, as soon as that is known.
                if (start.target.is_some() || !start.title.is_empty()) && self.announced.insert(start.id.clone()) {
                    self.aside(&format!("⚙ {}", tool_line(start)));
                }
            }
            EventKind::ToolEnd(end) if end.status != ToolStatus::Ok => {
                let tool = transcript.tool(&end.id);
                let name = tool.map_or("tool".to_owned(), |tool| one_line(&tool.start.native_name));
                self.aside(&format!("✗ {name}: {}", format!("{:?}", end.status).to_lowercase()));
            }
            EventKind::Retry(failure) => self.aside(&format!("↻ the agent is retrying: {}", one_line(&failure.message))),
            EventKind::Notice(notice) => self.aside(&format!("· {}", one_line(notice))),
            _ => {}
        }
    }

    fn ask(&mut self, question: &OpenQuestion, _unseen: Unseen) {
        self.questions(|waiting| waiting.ask(question));
    }

    fn settled(&mut self, id: &str, how: &Settlement) {
        self.questions(|waiting| waiting.settle(id, how));
    }

    async fn finish(mut self: Box<Self>, answer: Answer) -> Result<(), DeliveryError> {
        let text = clean_text(&answer.text);
        if self.shared.live {
            let streamed = self.printed.iter().any(|(_, printed)| printed.trim() == text.trim());
            let in_parts = self.printed.iter().map(|(_, printed)| printed.trim()).collect::<Vec<_>>().join("\n\n") == text.trim();
            if !(streamed || in_parts || text.trim().is_empty()) {
                self.fresh_line();
                self.emit(&text);
            }
            self.fresh_line();
        } else if !text.trim().is_empty() {
            self.emit(&text);
            self.fresh_line();
        }
        for notice in &answer.notices {
            self.aside(&format!("· {}", one_line(notice)));
        }
        if let Some(failure) = &answer.failure {
            self.aside(&format!("✗ {failure}"));
            if let Some(detail) = &answer.detail {
                self.aside(&format!("  {}", one_line(detail)));
            }
            if answer.offer.is_some() {
                self.aside("  what the agent said is kept; /recover delivers it once a newer backend can read it");
            }
        } else if self.shared.live {
            self.aside(&footer(&answer));
        }
        if !self.asked {
            self.shared.prompt();
            return Ok(());
        }
        let failed = u32::from(answer.failure.is_some());
        self.shared.answers.send_modify(|answers| *answers = Answers { all: answers.all + 1, failed: answers.failed + failed });
        Ok(())
    }
}

fn tool_line(start: &ToolStart) -> String {
    let about = if start.title.is_empty() { start.target.as_deref().unwrap_or_default() } else { &start.title };
    let line = one_line(&format!("{} {about}", start.native_name));
    match line.char_indices().nth(120) {
        Some((cut, _)) => format!("{}…", &line[..cut]),
        None => line,
    }
}

fn footer(answer: &Answer) -> String {
    let mut footer = format!("[{} · {:.1} s", answer.backend, answer.took.as_secs_f64());
    if let Some(usage) = answer.usage {
        footer.push_str(&format!(" · {} in, {} out", usage.input + usage.cached, usage.output));
        if let Some(cost) = usage.cost_usd {
            footer.push_str(&format!(" · ${cost:.4}"));
        }
    }
    footer.push(']');
    footer
}

/// Standard output, for [`Console::new`].
#[must_use]
pub fn stdout() -> Box<dyn Write + Send> {
    Box::new(io::stdout())
}
