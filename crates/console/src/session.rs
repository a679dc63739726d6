//! Reads prompts and commands, and runs them.

use std::path::PathBuf;
use std::sync::Arc;

use tokio::task::JoinSet;

use crate::audit::{note, stop};
use crate::commands::TypedCommand;
use crate::error::{LineError, TERMINAL_LINE_BYTES};
use crate::files;
use crate::help::HELP;
use crate::input::{LineReader, TerminalInput};
use crate::names::names;
use crate::outlet::{Console, ConsoleState};
use crate::questions::AnswerLine as Reading;
use crate::waiting;
use aetheel_dispatch::{
    AnswerRefusal, Dispatcher, Person, PromptRefusal, Settlement, SteeringResult,
};
use aetheel_model::agent::AskDecision;
use aetheel_model::audit::AuditKind;
use aetheel_model::event::{AttachedFile, EventKind, EventOrigin, Lane, NewEvent};
use aetheel_model::plain::one_line;

/// The reason why a session ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionEnd {
    /// The input ended, `/quit` or Ctrl-C twice was entered, or the terminal was closed.
    Done {
        /// Number of prompts that failed.
        failed: u32,
    },
    /// SIGTERM was received.
    Terminated,
}

/// Delay before `/stop` is tried again while a turn is about to start.
const STOP_RETRY_DELAY: std::time::Duration = std::time::Duration::from_millis(20);

/// Runs a session until the input ends and every prompt is answered. Does not shut down the
/// dispatcher.
///
/// # Errors
/// Signals cannot be received.
pub async fn run(dispatcher: &Dispatcher, console: &Console) -> std::io::Result<SessionEnd> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut hangup = signal(SignalKind::hangup())?;
    let mut session = ConsoleSession {
        dispatcher,
        shared: console.shared(),
        submitted: 0,
        failed: 0,
        steering: JoinSet::new(),
        files: Vec::new(),
    };
    let mut answers = session.shared.answers.subscribe();
    let mut questions = session.shared.questions.subscribe();
    let mut input = LineReader::start(&session.shared, names(dispatcher, &session.shared));
    session.greet().await;
    (session.submitted, session.failed) = waiting::submit(dispatcher, &session.shared);
    let (mut open, mut leaving) = (true, false);
    // In a script, the line that waits for the previous answer.
    let mut held: Option<String> = None;
    // A person leaves at once. A script ends when all its lines are answered.
    let end = loop {
        if !(open || held.is_some() || session.waiting() && !session.shared.live) {
            break SessionEnd::Done { failed: session.failures() };
        }
        // In a script, a line is processed only when the previous one is answered, so that a long
        // script does not fill the queue, or when the agent asks a question. `/stop` is processed
        // at once.
        let free = session.shared.live || !session.waiting() || session.is_asked();
        if let Some(line) = held.take_if(|line| free || (is_stop(line) && stop(dispatcher))) {
            if free && !session.take(&line).await {
                open = false;
            }
            continue;
        }
        if !open && held.is_none() {
            session.dismiss();
        }
        tokio::select! {
            typed = input.next(), if open && held.is_none() => match typed {
                TerminalInput::Line(line) => {
                    leaving = false;
                    if session.shared.live {
                        open = session.take(&line).await;
                    } else {
                        held = Some(line);
                    }
                }
                TerminalInput::Interrupt => open = session.interrupted(&mut leaving),
                TerminalInput::End => open = false,
            },
            // A turn that has left the queue but has not started cannot be stopped yet.
            () = tokio::time::sleep(STOP_RETRY_DELAY), if held.as_deref().is_some_and(is_stop) => {}
            _ = answers.changed() => if open && !session.waiting() {
                session.shared.prompt();
            },
            _ = questions.changed() => {}
            Some(steered) = session.steering.join_next() => session.steered(steered.unwrap_or(Ok(SteeringResult::Dropped))),
            _ = interrupt.recv() => {
                if !session.shared.live {
                    // Skips the rest of the script. A running turn is stopped and reported first.
                    session.failed += 1;
                    if !open || !stop(dispatcher) {
                        break SessionEnd::Done { failed: session.failures() };
                    }
                    (open, held) = (false, None);
                    continue;
                }
                open = session.interrupted(&mut leaving);
            }
            _ = terminate.recv() => break SessionEnd::Terminated,
            // The terminal was closed, so nobody waits for the answer.
            _ = hangup.recv() => break SessionEnd::Done { failed: session.failures() },
        }
    };
    waiting::save(dispatcher, &session.shared);
    Ok(end)
}

struct ConsoleSession<'a> {
    dispatcher: &'a Dispatcher,
    shared: Arc<ConsoleState>,
    /// Prompts that the dispatcher accepted.
    submitted: u32,
    /// Lines that failed before they became prompts.
    failed: u32,
    /// Messages that are being sent to the running turn.
    steering: JoinSet<Result<SteeringResult, PromptRefusal>>,
    /// Files that are attached to the next prompt.
    files: Vec<AttachedFile>,
}

impl ConsoleSession<'_> {
    /// Prints the first line and the prompt at a terminal.
    async fn greet(&self) {
        if self.shared.live {
            let backend = self.dispatcher.settings.backend_of(&Lane::Console).await;
            self.shared.print_note(&format!("aetheel console · {backend} · /help for commands"));
            self.shared.prompt();
        }
    }

    /// Handles Ctrl-C at a terminal: stops the answer, or ends the session the second time. Returns
    /// whether the session continues.
    fn interrupted(&self, leaving: &mut bool) -> bool {
        // A prompt that only waits must not keep a person here.
        let is_running = self.dispatcher.observer.queue_of(&Lane::Console).running.is_some();
        if is_running && stop(self.dispatcher) {
            *leaving = false;
        } else if *leaving {
            return false;
        } else {
            *leaving = true;
            if !self.shared.screen.has_editor() {
                self.shared.screen.print("\n");
            }
            self.shared.print_note("Ctrl-C again or Ctrl-D to leave");
            self.shared.prompt();
        }
        true
    }

    /// Returns the number of lines and prompts that failed.
    fn failures(&self) -> u32 {
        self.failed + self.shared.answers.borrow().failed
    }

    fn waiting(&self) -> bool {
        self.shared.answers.borrow().all < self.submitted || !self.steering.is_empty()
    }

    fn is_asked(&self) -> bool {
        !self.shared.questions.borrow().is_empty()
    }

    /// Dismisses all open questions when nobody can answer them any more.
    fn dismiss(&self) {
        let open = self.shared.questions.borrow().ids();
        for id in open {
            // An error means that the question was settled in the meantime.
            let _ =
                self.dispatcher.questions.answer(&id, &Person::Terminal, AskDecision::Dismissed);
        }
    }

    /// Answers a question with a line.
    ///
    /// # Errors
    /// Returns an error if the line is not a valid answer, or if the question is closed.
    fn answer(&self, line: &str) -> Result<(), LineError> {
        let mut typed = None;
        self.shared.questions.send_modify(|waiting| typed = waiting.answer(line));
        match typed {
            Some(Reading::Decision(id, decision)) => {
                self.dispatcher.questions.answer(&id, &Person::Terminal, decision).map_err(
                    |refusal| {
                        if refusal == AnswerRefusal::Gone {
                            // The turn has just ended, so the question is closed, and the next line
                            // does not answer it.
                            self.shared.questions.send_modify(|waiting| {
                                self.shared.screen.print(
                                    &waiting
                                        .settle(&id, &Settlement::TurnEnded)
                                        .unwrap_or_default(),
                                );
                            });
                        }
                        refusal.into()
                    },
                )
            }
            Some(Reading::More(next)) => {
                self.shared.screen.print(&next);
                self.shared.prompt();
                Ok(())
            }
            Some(Reading::Unclear(why)) => Err(LineError::Unclear(why)),
            None => Err(LineError::NoQuestion),
        }
    }

    fn steered(&mut self, steered: Result<SteeringResult, PromptRefusal>) {
        match steered {
            Ok(steered) => {
                self.submitted += u32::from(steered.is_prompt());
                if let Some(message) = steered.message() {
                    self.shared.print_note(message);
                }
            }
            Err(refusal) => self.fail(&refusal.to_string()),
        }
    }

    fn fail(&mut self, why: &str) {
        self.failed += 1;
        // Ignored: without stderr there is nobody to report to.
        let _ = self.shared.report(&format!("✗ {why}"));
    }

    /// Processes a line. Returns `false` to end the session.
    async fn take(&mut self, line: &str) -> bool {
        let mut words = line.split_whitespace();
        let command = if line.starts_with('/') { words.next() } else { None };
        let said: Result<String, LineError> = match command {
            Some("/quit" | "/exit") => return false,
            Some("/help") => Ok(HELP.to_owned()),
            Some("/reset") => self
                .dispatcher
                .conversations
                .reset(&Lane::Console)
                .await
                .inspect(|had| had.then(|| note(AuditKind::ConversationReset)).unwrap_or_default())
                .map(|_| "the conversation is forgotten".to_owned())
                .map_err(LineError::from),
            Some("/stop") if stop(self.dispatcher) => return true,
            Some("/stop") => Ok("nothing is running".to_owned()),
            Some("/steer") => match line.trim_start_matches("/steer").trim() {
                "" => Err(LineError::NoMessage),
                text => {
                    let (dispatcher, event) = (self.dispatcher.clone(), event(text));
                    self.steering.spawn(async move {
                        Ok(dispatcher.intake.steer(event).await?.outcome().await)
                    });
                    return true;
                }
            },
            Some("/open") => self.shared.folded().open(words.next()).map_err(LineError::from),
            Some("/file") => self.add_file(
                line.trim().split_once(char::is_whitespace).map_or("", |(_, path)| path.trim()),
            ),
            Some(other) => match TypedCommand::parse(line) {
                Some(command) => command.run(self.dispatcher).await.map_err(LineError::from),
                None if other == "/settings" => Err(LineError::UnknownSetting),
                None => Err(LineError::UnknownCommand(other.to_owned())),
            },
            None if line.trim().is_empty() => Ok(String::new()),
            None if self.is_asked() => match self.answer(line) {
                Ok(()) => return true,
                Err(unclear) => Err(unclear),
            },
            None if self.is_cut(line) => Err(LineError::Cut),
            None => match self.submit(line) {
                // The prompt is printed again after the answer.
                Ok(()) => return true,
                Err(rejection) => Err(rejection),
            },
        };
        match said {
            Ok(text) if text.is_empty() => {}
            Ok(text) => self.shared.print_note(&text),
            Err(error) => self.fail(&error.to_string()),
        }
        if !self.waiting() || self.is_asked() {
            self.shared.prompt();
        }
        true
    }

    fn submit(&mut self, line: &str) -> Result<(), LineError> {
        // Piped input is not changed.
        let (text, named) = if self.shared.live {
            files::extract_files(line, home().as_deref())
        } else {
            (line.to_owned(), Vec::new())
        };
        let attached = self.files.iter().cloned().chain(named).collect();
        self.dispatcher.intake.submit(NewEvent { attached, ..event(&text) })?;
        self.files.clear();
        self.submitted += 1;
        Ok(())
    }

    fn add_file(&mut self, path: &str) -> Result<String, LineError> {
        let file = files::attach(path.trim_matches('"'), home().as_deref())?;
        let message = format!(
            "{} ({} bytes) goes along with the next prompt",
            one_line(&file.name),
            file.size
        );
        self.files.push(file);
        Ok(message)
    }

    /// Returns whether a terminal in line mode dropped the end of a line.
    fn is_cut(&self, line: &str) -> bool {
        self.shared.live && !self.shared.screen.has_editor() && line.len() >= TERMINAL_LINE_BYTES
    }
}

fn is_stop(line: &str) -> bool {
    line.starts_with('/') && line.split_whitespace().next() == Some("/stop")
}

fn event(text: &str) -> NewEvent {
    let (kind, lane, origin) = (EventKind::Message, Lane::Console, EventOrigin::Console);
    NewEvent::new(kind, lane, origin, text)
}

fn home() -> Option<PathBuf> {
    std::env::var_os("HOME").map(PathBuf::from)
}
