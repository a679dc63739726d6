//! The rows of the matrix: each a conversation, written against the gateway's outside and the same for every backend.

mod asks;
mod failures;
mod prompts;
mod sessions;
mod stops;
mod talk;
mod tools;

use std::collections::{HashMap, VecDeque};
use std::pin::Pin;

use aetheel::agent::descriptor::Feature;

use super::gateway::{Cell, Gateway, Wishes};
use crate::support::model_server::{ModelRequest, ModelServer, Reply};

/// One row.
pub struct Scenario {
    /// `CASE=` selects by it; results are kept under it.
    pub name: &'static str,
    /// What the table says.
    pub title: &'static str,
    /// What a backend must declare, or the row does not apply to it.
    pub needs: &'static [Feature],
    /// Panics where it does not hold.
    pub run: fn(Cell) -> Run,
}

pub type Run = Pin<Box<dyn Future<Output = ()> + Send>>;

macro_rules! rows {
    ($($name:literal, $title:literal, [$($needs:ident),*], $run:path;)*) => {
        &[$(Scenario { name: $name, title: $title, needs: &[$(Feature::$needs),*], run: |cell| Box::pin($run(cell)) }),*]
    };
}

/// All rows, in the order of the table.
pub const SCENARIOS: &[Scenario] = rows! {
    "hello", "hello twice, with usage", [], talk::hello_twice;
    "deltas", "text streams in pieces", [Streaming], talk::deltas;
    "thinking", "thinking is told apart", [Thinking], talk::thinking;
    "system-prompt", "the system prompt reaches the model", [SystemPrompt], talk::system_prompt;
    "model", "the model is changed in mid-conversation", [Model], talk::model;
    "tool", "one tool", [], tools::one;
    "tools", "several tools", [], tools::several;
    "allowed-tools", "only allowed tools are offered", [AllowedTools], tools::allowed;
    "default-tools", "no command runs with the default tools", [], tools::defaults;
    "turn-limit", "the turn limit stops endless rounds", [], tools::limit;
    "allow-once", "permission: allow", [Permissions], asks::allow_once;
    "allow-always", "permission: always", [Permissions], asks::allow_always;
    "deny", "permission: deny", [Permissions], asks::deny;
    "deny-and-stop", "permission: deny and stop", [Permissions], asks::deny_and_stop;
    "question", "a question to the user", [Questions], asks::question;
    "interrupt-text", "interrupt in text", [Interrupt], stops::in_text;
    "interrupt-tool", "interrupt in a tool", [Interrupt], stops::in_tool;
    "interrupt-ask", "interrupt during an ask", [Interrupt, Permissions], asks::interrupt;
    "steer", "steer", [Steer], stops::steer;
    "queue", "a prompt waits for the one before", [], stops::queue;
    "resume", "resume in a new process carries history", [Resume], sessions::resume;
    "unknown-session", "an unknown session is told and forgotten", [Resume], sessions::unknown;
    "two-sessions", "two sessions at once", [], sessions::two_at_once;
    "error-400", "model error 400, then alive", [], failures::error_400;
    "error-401", "model error 401, then alive", [], failures::error_401;
    "error-429", "model error 429, then alive", [], failures::error_429;
    "error-500", "model error 500, then alive", [], failures::error_500;
    "cut", "a cut connection, then alive", [], failures::cut;
    "killed", "a killed agent, then alive", [], failures::killed;
    "prompt-flags", "prompts that look like flags", [], prompts::flags;
    "prompt-file", "`@file` is not read", [], prompts::file;
    "prompt-command", "`/command` is no command", [], prompts::command;
    "prompt-bang", "`!ls` runs nothing", [], prompts::bang;
    "prompt-empty", "an empty prompt does no harm", [], prompts::empty;
    "prompt-long", "a prompt of 200 KB", [], prompts::long;
    "prompt-unicode", "unicode", [], prompts::unicode;
};

/// What the model says to which prompt: the replies to one that contains the key, in order, the last again and again.
#[derive(Default)]
pub(super) struct Script {
    lines: Vec<&'static str>,
    replies: HashMap<&'static str, VecDeque<Reply>>,
}

impl Script {
    pub(super) fn on(mut self, prompt: &'static str, replies: impl IntoIterator<Item = Reply>) -> Self {
        self.lines.push(prompt);
        self.replies.insert(prompt, replies.into_iter().collect());
        self
    }

    /// Decides by the last prompt that has a line here: agents repeat the history, and may add words of their own.
    fn reply(&mut self, request: &ModelRequest) -> Reply {
        let prompts = request.prompts();
        let line = prompts.iter().rev().find_map(|prompt| self.lines.iter().rev().find(|line| prompt.contains(**line)));
        let Some(replies) = line.and_then(|line| self.replies.get_mut(line)) else {
            return Reply::refusing(400, &format!("the script has nothing for {prompts:?}"));
        };
        let reply = replies.front().expect("every line has a reply").clone();
        if replies.len() > 1 {
            replies.pop_front();
        }
        reply
    }

    pub(super) async fn serve(mut self) -> ModelServer {
        ModelServer::answering(move |request| self.reply(request)).await
    }
}

/// A gateway with default settings whose model follows this script.
async fn open(cell: &Cell, script: Script) -> Gateway {
    cell.open(script.serve().await, Wishes::default()).await
}
