//! The rows of the matrix. Each is a conversation that uses the gateway from the outside, and is
//! the same for every backend.

mod asks;
mod boundary;
mod budgets;
mod collisions;
mod failures;
mod holder;
mod host_tools;
mod levels;
mod limits;
mod outlive;
mod prompts;
mod sessions;
mod stops;
mod switching;
mod talk;
mod tools;

use std::collections::{HashMap, VecDeque};
use std::pin::Pin;

use aetheel_model::agent::descriptor::Feature;

use self::About::{Boundary, Level, Service, Talk, Team};
use super::gateway::{Cell, Gateway, Wishes};
use crate::support::model_server::{ModelRequest, ModelServer, Reply};

/// One row.
pub struct Scenario {
    /// The name by which `CASE=` selects it and under which results are saved.
    pub name: &'static str,
    /// The row's title in the table.
    pub title: &'static str,
    /// Features that a backend must declare. The row does not apply to other backends.
    pub needs: &'static [Feature],
    /// The subject of the row.
    pub about: About,
    /// Runs the scenario. Panics if it fails.
    pub run: fn(Cell) -> Run,
}

/// The subject of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum About {
    /// Conversation between people and the agent.
    Talk,
    /// The same, with a gateway that is killed.
    Service,
    /// Several agents, conversations and people. These rows have a page of their own.
    Team,
    /// The restrictions of the sandbox.
    Boundary,
    /// The rights of the agent at a level, by the level's name for people. The outcomes are in a
    /// separate table.
    Level(&'static str),
}

pub use budgets::Reports;
pub use levels::TRIES;

pub type Run = Pin<Box<dyn Future<Output = ()> + Send>>;

macro_rules! rows {
    ($($name:literal, $title:literal, [$($needs:ident),*], $about:expr, $run:path;)*) => {
        &[$(Scenario { name: $name, title: $title, needs: &[$(Feature::$needs),*], about: $about, run: |cell| Box::pin($run(cell)) }),*]
    };
}

/// All rows, in the order of the table.
pub const SCENARIOS: &[Scenario] = rows! {
    "hello", "hello twice, with usage", [], Talk, talk::hello_twice;
    "deltas", "text streams in pieces", [Streaming], Talk, talk::deltas;
    "thinking", "thinking is kept apart from the answer", [Thinking], Talk, talk::thinking;
    "system-prompt", "the system prompt reaches the model", [SystemPrompt], Talk, talk::system_prompt;
    "model", "the model is changed in mid-conversation", [Model], Talk, talk::model;
    "tool", "one tool", [], Talk, tools::one;
    "tools", "several tools", [], Talk, tools::several;
    "allowed-tools", "only allowed tools are offered", [AllowedTools], Talk, tools::allowed;
    "default-tools", "no command runs with the default tools", [], Talk, tools::defaults;
    "turn-limit", "the turn limit stops endless rounds", [], Talk, tools::limit;
    "allow-once", "permission: allow", [Permissions], Talk, asks::allow_once;
    "allow-always", "permission: always", [Permissions], Talk, asks::allow_always;
    "deny", "permission: deny", [Permissions], Talk, asks::deny;
    "deny-and-stop", "permission: deny and stop", [Permissions], Talk, asks::deny_and_stop;
    "question", "a question to the user", [Questions], Talk, asks::question;
    "host-file", "a tool of the gateway posts a file", [HostTools], Team, host_tools::file;
    "host-each", "each new conversation has the tools of the gateway", [HostTools], Team, host_tools::each;
    "host-ask", "a tool of the gateway asks people", [HostTools], Team, host_tools::ask;
    "host-later", "tools of the gateway save later turns", [HostTools], Team, host_tools::later;
    "host-team", "tools of the gateway reserve a file, read channels and hand work over", [HostTools], Team, host_tools::team;
    "interrupt-text", "interrupt in text", [Interrupt], Talk, stops::in_text;
    "interrupt-tool", "interrupt in a tool", [Interrupt], Talk, stops::in_tool;
    "interrupt-ask", "interrupt during an ask", [Interrupt, Permissions], Talk, asks::interrupt;
    "steer", "steer", [Steer], Talk, stops::steer;
    "queue", "a prompt waits for the one before", [], Talk, stops::queue;
    "resume", "resume in a new process carries history", [Resume], Talk, sessions::resume;
    "unknown-session", "an unknown session is reported and forgotten", [Resume], Talk, sessions::unknown;
    "two-sessions", "two sessions at once", [], Talk, sessions::two_at_once;
    "switch", "every other agent continues the conversation with a recap", [Resume], Team, switching::each_other;
    "limit-ends", "a usage limit that ends in seconds: answered once", [], Team, limits::that_ends;
    "limit-plan", "the usage limit of a plan that ends in hours: the conversation waits", [], Team, limits::of_a_plan;
    "limit-key", "the usage limit of a key that ends in hours: the conversation waits", [], Team, limits::of_a_key;
    "budget-tokens", "a budget of tokens", [], Team, budgets::tokens;
    "budget-dollars", "a budget of dollars", [], Team, budgets::dollars;
    "collision", "two conversations write one file: both are warned", [], Team, collisions::warned;
    "collision-ask", "the same with `collisions: ask`: people are asked first", [Permissions], Team, collisions::asked;
    "error-400", "model error 400, then alive", [], Talk, failures::error_400;
    "error-401", "model error 401, then alive", [], Talk, failures::error_401;
    "error-429", "model error 429, then alive", [], Talk, failures::error_429;
    "error-500", "model error 500, then alive", [], Talk, failures::error_500;
    "cut", "a cut connection, then alive", [], Talk, failures::cut;
    "killed", "a killed agent, then alive", [], Talk, failures::killed;
    "gateway-killed", "the gateway is killed in mid-answer, then alive", [], Service, outlive::in_text;
    "gateway-killed-ask", "the gateway is killed while a question is open", [Permissions], Service, outlive::during_an_ask;
    "gateway-killed-tool", "the gateway is killed, stopped and away during calls of its tools", [HostTools], Service, outlive::host_tool;
    "gateway-killed-often", "the gateway is killed between turns and in mid-answer, again and again", [], Service, outlive::again_and_again;
    "holder-stopped", "the holder of the agents is stopped, then alive", [], Service, holder::stopped;
    "holder-killed", "the holder of the agents is killed, then alive", [], Service, holder::killed;
    "holder-replaced", "the holder is replaced, then the gateway is killed and upgraded in mid-answer", [], Service, holder::then_the_gateway;
    "agent-terminated", "an agent that is ended from outside, then alive", [], Service, holder::agent_terminated;
    "agent-terminated-first", "an agent that is ended from outside in its first turn, then alive", [], Service, holder::agent_terminated_at_first;
    "agent-terminated-tool", "an agent that is ended from outside during a tool, then alive", [], Service, holder::agent_terminated_in_a_tool;
    "prompt-flags", "prompts that look like flags", [], Talk, prompts::flags;
    "prompt-file", "`@file` is not read", [], Talk, prompts::file;
    "prompt-command", "`/command` is not carried out", [], Talk, prompts::command;
    "prompt-bang", "`!ls` runs nothing", [], Talk, prompts::bang;
    "prompt-empty", "an empty prompt does no harm", [], Talk, prompts::empty;
    "prompt-long", "a prompt of 200 KB", [], Talk, prompts::long;
    "prompt-unicode", "unicode", [], Talk, prompts::unicode;
    "secrets", "cannot read the gateway's secrets", [], Boundary, boundary::secrets;
    "neighbour", "cannot read a neighbour's folder", [], Boundary, boundary::neighbour;
    "outside", "cannot write outside", [], Boundary, boundary::outside;
    "level-plan", "what it may do: plan only", [Plan], Level("Plan only"), levels::plan;
    "level-plan-later", "what it may do: plan only, chosen while everything was allowed", [Plan], Level("Plan only, chosen while everything was allowed"), levels::plan_later;
    "level-default", "what it may do: ask before changes", [], Level("Ask before changes"), levels::default;
    "level-edit", "what it may do: edit files", [], Level("Edit files"), levels::edit;
    "level-danger", "what it may do: everything without asking", [], Level("Everything without asking"), levels::danger;
};

/// The model's replies by prompt. For a prompt that contains the key, they are used in order, and
/// the last one is repeated.
#[derive(Default)]
pub(super) struct Script {
    lines: Vec<&'static str>,
    replies: HashMap<&'static str, VecDeque<Reply>>,
}

impl Script {
    pub(super) fn on(
        mut self,
        prompt: &'static str,
        replies: impl IntoIterator<Item = Reply>,
    ) -> Self {
        self.lines.push(prompt);
        self.replies.insert(prompt, replies.into_iter().collect());
        self
    }

    /// Chooses the reply by the last prompt that matches a line: agents repeat the history, and may
    /// add text of their own.
    fn reply(&mut self, request: &ModelRequest) -> Reply {
        let prompts = request.prompts();
        let line = prompts
            .iter()
            .rev()
            .find_map(|prompt| self.lines.iter().rev().find(|line| prompt.contains(**line)));
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

/// Returns the number in an environment variable.
fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

/// Starts a gateway with default settings whose model follows this script.
async fn open(cell: &Cell, script: Script) -> Gateway {
    cell.open(script.serve().await, Wishes::default()).await
}
