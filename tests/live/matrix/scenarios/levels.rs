//! Scenarios about the safety levels: actions that an agent takes without asking, actions that it
//! asks for, and actions that it cannot take at all.
//!
//! The outcome of each action is on the page. A question is answered with a refusal. Only the
//! access outside the workspace is allowed, and must fail all the same.

use aetheel_dispatch::Setting;
use aetheel_model::agent::{AskDecision, Mode, Safety};

use super::super::gateway::{Cell, Gateway, Wishes};
use super::Script;
use crate::support::model_server::{Intent, ModelServer, Reply};

/// The actions that are attempted, in the order of the columns of the page. Results are saved under
/// these names.
pub const TRIES: [&str; 5] =
    ["reads a file", "runs a command", "writes a file", "a command writes", "writes outside"];

/// The outcome of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Came {
    /// The action was done without a question.
    Does,
    /// The agent asked, and the action was not done.
    Asks,
    /// The action was not done, and the agent did not ask.
    No,
}

impl Came {
    fn word(self) -> &'static str {
        match self {
            Self::Does => "yes",
            Self::Asks => "asks",
            Self::No => "no",
        }
    }
}

/// An attempted action, and how to find out that it was done.
struct Try {
    name: &'static str,
    prompt: &'static str,
    /// Text in the result that the model received.
    result: Option<&'static str>,
    /// Files that exist afterwards.
    made: &'static [&'static str],
    outside: bool,
}

const ALL: [Try; 5] = [
    Try {
        name: TRIES[0],
        prompt: "Read it.",
        result: Some("words-of-the-file"),
        made: &[],
        outside: false,
    },
    Try { name: TRIES[1], prompt: "Run it.", result: Some("sum-is-42"), made: &[], outside: false },
    Try {
        name: TRIES[2],
        prompt: "Write it.",
        result: None,
        made: &["workspace/written.txt"],
        outside: false,
    },
    Try {
        name: TRIES[3],
        prompt: "Touch it.",
        result: None,
        made: &["workspace/touched.txt"],
        outside: false,
    },
    Try {
        name: TRIES[4],
        prompt: "Leave it.",
        result: None,
        made: &["outside-written.txt", "outside-touched.txt"],
        outside: true,
    },
];

/// Starts the model of all attempts. The last one has two steps.
async fn model(paths: std::sync::Arc<std::sync::OnceLock<[String; 3]>>) -> ModelServer {
    let mut script = Script::default().on("Hello.", [Reply::text("Hello.")]);
    for attempt in &ALL {
        script = script.on(attempt.prompt, [Reply::text("Well.")]);
    }
    ModelServer::answering(move |request| {
        let [note, written, outside] = paths.get().expect("set before the first prompt");
        let (prompts, done) = (request.prompts(), request.tool_results());
        let step =
            |id: &str, intent: Intent| (!done.contains_key(id)).then(|| Reply::does(id, intent));
        let next = match prompts
            .iter()
            .rev()
            .find_map(|prompt| ALL.iter().position(|attempt| prompt.contains(attempt.prompt)))
        {
            Some(0) => step("call_read", Intent::read(note)),
            Some(1) => step("call_run", Intent::shell("printf 'sum-is-%d' 42")),
            Some(2) => step("call_write", Intent::write(written, "written\n")),
            Some(3) => step("call_touch", Intent::shell("touch touched.txt")),
            Some(4) => step("call_out", Intent::write(outside, "out\n"))
                .or_else(|| step("call_out_too", Intent::shell("touch ../outside-touched.txt"))),
            _ => None,
        };
        next.unwrap_or_else(|| script.reply(request))
    })
    .await
}

/// Makes all attempts in one conversation. Also returns the results that the model received.
async fn tries(cell: &Cell, wishes: Wishes, then: Option<&str>) -> ([Came; 5], String) {
    let paths = std::sync::Arc::new(std::sync::OnceLock::new());
    let gateway = cell.open(model(paths.clone()).await, wishes).await;
    gateway.write("workspace/note.txt", "words-of-the-file\n");
    paths
        .set(
            ["workspace/note.txt", "workspace/written.txt", "outside-written.txt"]
                .map(|name| gateway.at(name)),
        )
        .unwrap();
    if let Some(mode) = then {
        gateway.talk("Hello.").await.answers("Hello.");
        gateway.choose(1, Setting::Mode, mode).await;
    }
    let mut came = [Came::No; 5];
    for (attempt, came) in ALL.iter().zip(&mut came) {
        *came = try_it(&gateway, attempt).await;
        cell.found(attempt.name, came.word());
    }
    let told =
        gateway.model.requests().last().map(|request| format!("{:?}", request.tool_results()));
    (came, told.unwrap_or_default())
}

async fn try_it(gateway: &Gateway, attempt: &Try) -> Came {
    gateway.prompt(1, attempt.prompt);
    let mut asked = false;
    let told = loop {
        match gateway.question_or_end(1).await {
            Ok(question) => {
                asked = true;
                // Outside the workspace, permission is not sufficient.
                gateway.decide(
                    &question,
                    if attempt.outside { AskDecision::AllowOnce } else { AskDecision::Deny(None) },
                );
            }
            Err(told) => break told,
        }
    };
    // Some agents end their turn when something is refused.
    let ended = told.answer.failure.as_ref().is_none_or(|failure| asked && failure == "Stopped.");
    assert!(ended, "{}: {told:?}", attempt.name);
    let heard = |words: &str| {
        gateway
            .model
            .requests()
            .iter()
            .any(|request| request.tool_results().values().any(|said| said.contains(words)))
    };
    let done = attempt.result.is_some_and(heard)
        || attempt.made.iter().any(|name| gateway.path(name).exists());
    assert!(
        !(done && asked),
        "{}: the action was done although nobody allowed it: {told:?}",
        attempt.name
    );
    match (done, asked) {
        (true, _) => Came::Does,
        (false, true) => Came::Asks,
        (false, false) => Came::No,
    }
}

/// Makes the attempts at a level, and checks that forbidden actions are not done and allowed ones
/// are.
async fn holds(cell: Cell, wishes: Wishes, then: Option<&str>, never: &[usize], always: &[usize]) {
    let (came, told) = tries(&cell, wishes, then).await;
    let said = || {
        TRIES
            .iter()
            .zip(came)
            .map(|(name, came)| format!("{name}: {}, ", came.word()))
            .collect::<String>()
            + &told
    };
    for at in never {
        assert_ne!(came[*at], Came::Does, "{}", said());
    }
    for at in always {
        assert_eq!(came[*at], Came::Does, "{}", said());
    }
    assert_ne!(came[4], Came::Does, "{}", said());
}

fn at(safety: Safety, mode: Mode) -> Wishes {
    Wishes { safety, mode, ..Wishes::default() }
}

pub(super) async fn plan(cell: Cell) {
    holds(cell, at(Safety::Danger, Mode::Plan), None, &[2, 3], &[]).await;
}

pub(super) async fn plan_later(cell: Cell) {
    holds(cell, at(Safety::Danger, Mode::Build), Some("plan"), &[2, 3], &[]).await;
}

pub(super) async fn default(cell: Cell) {
    holds(cell, at(Safety::Default, Mode::Build), None, &[2, 3], &[]).await;
}

pub(super) async fn edit(cell: Cell) {
    holds(cell, at(Safety::Edit, Mode::Build), None, &[], &[0, 2]).await;
}

pub(super) async fn danger(cell: Cell) {
    holds(cell, at(Safety::Danger, Mode::Build), None, &[], &[0, 1, 2, 3]).await;
}
