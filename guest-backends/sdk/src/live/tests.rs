use super::*;
use crate::fixture::start;
use crate::wit::{Chunk, Exit, Line, Pipe, Query, QueryKind, Spawned, ToolResult};

/// An agent with a line protocol: `hello` completes the handshake, `.` ends the turn, `!` stops it,
/// `>` begins one, and everything else is text. Prompts that begin with `~` and queries for models
/// need a new process.
#[derive(Default)]
struct Toy {
    fresh: bool,
}

impl Agent for Toy {
    fn describe() -> String {
        "{}".to_owned()
    }
    fn launch(&mut self, start: Option<&StartTurn>, _: &mut LinkContext) -> Result<Spawn, Failure> {
        if start.is_some_and(|start| start.cwd.is_empty()) {
            return Err(failure(FailureKind::BadRequest, "no place to work"));
        }
        self.fresh = true;
        Ok(spawn("toy", []))
    }
    fn spawned(&mut self, _: Option<String>, context: &mut LinkContext) {
        context.say("hello");
    }
    fn prompt(&mut self, start: &StartTurn, context: &mut LinkContext) -> Step {
        let text = crate::text::prompt(&start.parts);
        if text.starts_with('~') && !std::mem::take(&mut self.fresh) {
            return Step::Restart;
        }
        context.say(&text);
        Step::Prompted
    }
    fn line(&mut self, line: Line, context: &mut LinkContext) {
        match (line.text.as_str(), context.turn()) {
            ("hello", _) => context.ready(),
            ("useless", _) => context.give_up(failure(FailureKind::Protocol, "too old")),
            (">", _) => drop(context.begin(1)),
            (".", Some(turn)) => self.finish(turn, Outcome::Completed, context),
            ("!", Some(turn)) => {
                self.finish(turn, Outcome::Failed(failure(FailureKind::Other, "stopped")), context)
            }
            (text, Some(turn)) if text.starts_with('@') => {
                context.tool_request(turn, &text[1..], "{}".to_owned());
            }
            (text, Some(turn)) => context.emit(turn).text(0, text),
            (text, None) => context.unrecognised("line outside a turn", None, text),
        }
    }
    fn query(&mut self, query: Query, context: &mut LinkContext) {
        match query.kind {
            QueryKind::Health | QueryKind::Models if !context.is_ready() => context.later(query),
            QueryKind::Models => {
                context.answer(query.query, crate::wit::QueryResult::Models(Vec::new()));
                context.restart();
            }
            QueryKind::Health => {
                context.answer(query.query, crate::wit::QueryResult::Health("well".to_owned()))
            }
            _ => context.refuse(query.query, failure(FailureKind::Unsupported, "no such thing")),
        }
    }
    fn tool_result(&mut self, result: ToolResult, context: &mut LinkContext) {
        context.say(&result.text);
    }
    fn save(&self, proc: u32) -> Option<String> {
        Some(proc.to_string())
    }
    fn load(&mut self, state: &str, _: &str) -> Result<u32, String> {
        state.parse().map_err(|_| "no number".to_owned())
    }
}

/// A link to the toy agent whose actions are recorded as words.
#[derive(Default)]
struct Play(Live<Toy>);

impl Play {
    fn feed(&mut self, input: Input) -> Vec<String> {
        let mut out = Vec::new();
        self.0
            .handle(TimedInput { at_ms: 0.0, input }, &mut out)
            .expect("the toy agent never fails");
        out.iter().map(words).collect()
    }
    fn start(&mut self, turn: u32, prompt: &str) -> Vec<String> {
        self.feed(Input::Command(Command::StartTurn(StartTurn {
            turn,
            one_shot: false,
            ..start(prompt)
        })))
    }
    fn line(&mut self, proc: u32, text: &str) -> Vec<String> {
        self.feed(Input::Line(Line {
            proc,
            pipe: Pipe::Stdout,
            text: text.to_owned(),
            truncated: false,
        }))
    }
    fn spawned(&mut self, proc: u32) -> Vec<String> {
        self.feed(Input::Spawned(Spawned { proc, agent_version: None }))
    }
    fn exited(&mut self, proc: u32) -> Vec<String> {
        self.feed(Input::Exited(Exited {
            proc,
            how: Exit::Code(1),
            stderr_tail: "oh no\n".to_owned(),
        }))
    }
    /// Creates a link with a running turn.
    fn running() -> Self {
        let mut play = Self::default();
        assert_eq!(play.start(1, "go"), ["spawn 1 for Some(1)"]);
        assert_eq!(play.spawned(1), ["write hello"]);
        assert_eq!(play.line(1, "hello"), ["write go"]);
        play
    }
}

fn words(action: &Action) -> String {
    match action {
        Action::Spawn(spawn) => format!("spawn {} for {:?}", spawn.proc, spawn.turn),
        Action::Write(write) => match &write.body[..] {
            [Chunk::Text(text)] => format!("write {}", text.trim_end()),
            other => panic!("{other:?}"),
        },
        Action::TurnDone(done) => match &done.outcome {
            Outcome::Failed(why) | Outcome::Lost(why) => {
                format!("done {}: {}", done.turn, why.message)
            }
            other => format!("done {}: {other:?}", done.turn).replace("Outcome::", ""),
        },
        Action::QueryAnswer(answer) => match &answer.answer {
            crate::wit::QueryResult::Models(_) => format!("answer {}: models", answer.query),
            crate::wit::QueryResult::Health(text) => format!("answer {}: {text}", answer.query),
            crate::wit::QueryResult::Failed(why) => {
                format!("answer {}: {}", answer.query, why.message)
            }
            other => panic!("{other:?}"),
        },
        Action::TurnBegun(turn) => format!("begun {:#x}", turn.turn),
        Action::Event(_) => "event".to_owned(),
        Action::Stop(stop) => {
            format!("stop {} {:?}", stop.proc, stop.signal).replace("Signal::", "")
        }
        Action::CloseStdin(proc) => format!("close {proc}"),
        Action::SetTimer(timer) => format!("timer {}", timer.timer),
        Action::CancelTimer(timer) => format!("cancel {timer}"),
        Action::Diagnostic(_) => "log".to_owned(),
        Action::ToolRequest(request) => format!("call {}: {}", request.call, request.name),
        other => panic!("{other:?}"),
    }
}

fn query(kind: QueryKind) -> Input {
    Input::Command(Command::Query(Query { query: 7, session: None, kind }))
}

fn interrupt(turn: u32) -> Input {
    Input::Command(Command::Interrupt(TurnRef { session: 1, turn }))
}

#[test]
fn one_process_serves_several_turns() {
    let mut play = Play::running();
    assert_eq!(play.line(1, "hi"), ["event"]);
    assert_eq!(play.line(1, "."), ["done 1: Completed"]);
    assert_eq!(play.line(1, "."), ["log"], "a second end has no effect");
    assert_eq!(play.start(2, "on"), ["write on"]);
    assert_eq!(play.start(3, "at once"), ["done 3: the session already has an open turn"]);
    assert!(play.start(2, "on").is_empty(), "a repeated command is ignored");
    assert_eq!(play.line(1, "."), ["done 2: Completed"]);
}

#[test]
fn a_turn_is_lost_when_its_agent_exits_and_the_next_starts_another() {
    let mut play = Play::running();
    assert_eq!(play.exited(1), ["done 1: the agent ended (exit code 1): oh no"]);
    assert!(play.exited(1).is_empty() && play.line(1, ".").is_empty());
    assert_eq!(play.start(2, "again"), ["spawn 2 for Some(2)"]);
    let failed = SpawnFailed { proc: 2, message: "not there".to_owned(), not_found: true };
    assert_eq!(play.feed(Input::SpawnFailed(failed)), ["done 2: not there"]);
}

#[test]
fn an_interrupt_ends_a_waiting_turn_and_is_passed_to_the_agent_of_a_running_one() {
    let mut play = Play::default();
    play.start(1, "go");
    assert_eq!(play.feed(interrupt(1)), ["done 1: Interrupted"]);
    play.spawned(1);
    play.line(1, "hello");
    assert_eq!(play.start(2, "go"), ["write go"]);
    assert!(play.feed(interrupt(1)).is_empty(), "the turn has ended");
    assert_eq!(play.feed(interrupt(2)), ["stop 1 Interrupt"]);
    assert_eq!(
        play.line(1, "!"),
        ["done 2: Interrupted"],
        "a failure after an interrupt is reported as interrupted"
    );
    assert_eq!(play.start(3, "go"), ["write go"]);
    play.feed(interrupt(3));
    assert_eq!(play.exited(1), ["done 3: Interrupted"]);
}

#[test]
fn a_turn_that_needs_a_new_process_restarts_the_agent() {
    let mut play = Play::running();
    play.0.agent.fresh = false;
    play.line(1, ".");
    assert_eq!(play.start(2, "~other"), ["close 1", "timer 1"]);
    assert_eq!(play.feed(Input::Timer(1)), ["stop 1 Terminate"], "the agent does not exit");
    assert_eq!(play.exited(1), ["cancel 1", "spawn 2 for Some(2)"]);
    play.spawned(2);
    assert_eq!(play.line(2, "hello"), ["write ~other"]);
}

#[test]
fn a_turn_waits_for_one_that_the_agent_began() {
    let mut play = Play::running();
    assert!(play.line(1, ">").is_empty(), "the session already has a turn");
    play.line(1, ".");
    assert_eq!(play.line(1, ">"), ["begun 0x80000000"]);
    assert_eq!(play.line(1, "hi"), ["event"]);
    assert!(play.start(2, "on").is_empty() && play.start(2, "on").is_empty());
    assert_eq!(play.start(3, "at once"), ["done 3: the session already has an open turn"]);
    assert_eq!(play.feed(interrupt(2)), ["done 2: Interrupted"]);
    assert!(play.start(4, "on").is_empty());
    assert_eq!(play.line(1, "."), ["done 2147483648: Completed", "write on"]);
    assert_eq!(play.line(1, "."), ["done 4: Completed"]);
    assert_eq!(play.line(1, ">"), ["begun 0x80000001"]);
    play.start(5, "on");
    assert_eq!(
        play.exited(1),
        ["done 2147483649: the agent ended (exit code 1): oh no", "spawn 2 for Some(5)"]
    );
    assert!(play.line(2, ">").is_empty(), "the agent is not ready");
}

#[test]
fn queries_and_turns_during_a_restart_go_to_the_next_agent() {
    let mut play = Play::default();
    play.feed(query(QueryKind::Models));
    play.spawned(1);
    assert_eq!(play.line(1, "hello"), ["answer 7: models", "close 1", "timer 1"]);
    assert!(play.feed(query(QueryKind::Health)).is_empty());
    assert_eq!(play.exited(1), ["cancel 1", "spawn 2 for None"]);
    play.spawned(2);
    assert_eq!(play.line(2, "hello"), ["answer 7: well"]);
    play.feed(Input::Command(Command::Shutdown));
    play.feed(query(QueryKind::Health));
    assert_eq!(
        play.exited(2),
        ["cancel 2", "answer 7: the agent ended (exit code 1): oh no"],
        "the agent is not restarted after a shutdown"
    );
}

#[test]
fn queries_wait_for_an_agent_and_are_always_answered() {
    let mut play = Play::default();
    assert_eq!(play.feed(query(QueryKind::Compact)), ["answer 7: no such thing"]);
    assert_eq!(play.feed(query(QueryKind::Health)), ["spawn 1 for None"]);
    play.spawned(1);
    assert_eq!(play.line(1, "hello"), ["answer 7: well"]);
    assert_eq!(play.feed(query(QueryKind::Health)), ["answer 7: well"]);
    let mut play = Play::default();
    play.feed(query(QueryKind::Health));
    assert_eq!(play.exited(1), ["answer 7: the agent ended (exit code 1): oh no"]);
}

#[test]
fn an_agent_that_was_shut_down_is_not_restarted() {
    let mut play = Play::running();
    play.line(1, ".");
    assert_eq!(play.feed(Input::Command(Command::Shutdown)), ["close 1", "timer 1"]);
    assert!(play.feed(Input::Command(Command::Shutdown)).is_empty());
    assert_eq!(play.start(2, "wait"), Vec::<String>::new());
    assert_eq!(
        play.exited(1),
        ["cancel 1", "spawn 2 for Some(2)"],
        "the agent is only restarted for a new turn"
    );
}

#[test]
fn an_unusable_agent_is_stopped_and_fails_waiting_turns() {
    let mut play = Play::default();
    play.start(1, "go");
    play.spawned(1);
    assert_eq!(play.line(1, "useless"), ["done 1: too old", "stop 1 Terminate"]);
    let mut play = Play::default();
    let nowhere = StartTurn { cwd: String::new(), ..start("go") };
    assert_eq!(
        play.feed(Input::Command(Command::StartTurn(nowhere))),
        ["done 1: no place to work"]
    );
}

#[test]
fn only_an_idle_link_can_be_saved_and_restored() {
    let mut play = Play::running();
    assert_eq!(play.0.save(), None);
    play.line(1, ".");
    let state = play.0.save().expect("the link is idle");
    let mut moved = Play::default();
    moved.0.load(&state, "1").expect("it is a valid state");
    assert_eq!(moved.start(5, "on"), ["write on"]);
    assert_eq!(moved.0.load("?", "1"), Err("no number".to_owned()));
}

/// A toy agent that exits slowly and explains its exit on stderr.
#[derive(Default)]
struct Slow(Toy);

impl Agent for Slow {
    const OVERLAPS: bool = true;

    fn describe() -> String {
        Toy::describe()
    }
    fn launch(
        &mut self,
        start: Option<&StartTurn>,
        context: &mut LinkContext,
    ) -> Result<Spawn, Failure> {
        self.0.launch(start, context)
    }
    fn spawned(&mut self, version: Option<String>, context: &mut LinkContext) {
        self.0.spawned(version, context);
    }
    fn prompt(&mut self, start: &StartTurn, context: &mut LinkContext) -> Step {
        self.0.prompt(start, context)
    }
    fn line(&mut self, line: Line, context: &mut LinkContext) {
        self.0.line(line, context);
    }
    fn query(&mut self, query: Query, context: &mut LinkContext) {
        self.0.query(query, context);
    }
    fn lost(&mut self, exited: &Exited, prompted: bool, why: Failure) -> Outcome {
        match exited.stderr_tail.as_str() {
            "" => Outcome::Lost(why),
            message if prompted => Outcome::Lost(failure(FailureKind::Crashed, message)),
            message => Outcome::Failed(failure(FailureKind::Authentication, message)),
        }
    }
}

/// Passes an input and returns the actions as words.
fn feed(slow: &mut Live<Slow>, input: Input) -> Vec<String> {
    let mut out = Vec::new();
    slow.handle(TimedInput { at_ms: 0.0, input }, &mut out).expect("the toy agent never fails");
    out.iter().map(words).collect()
}

#[test]
fn an_overlapping_agent_starts_before_the_last_one_exits() {
    let start = |session, turn, prompt| {
        Input::Command(Command::StartTurn(StartTurn {
            session,
            turn,
            one_shot: false,
            ..start(prompt)
        }))
    };
    let hello = |proc| {
        Input::Line(Line { proc, pipe: Pipe::Stdout, text: "hello".to_owned(), truncated: false })
    };
    let mut slow = Live::<Slow>::default();
    feed(&mut slow, start(1, 1, "go"));
    feed(&mut slow, Input::Spawned(Spawned { proc: 1, agent_version: None }));
    assert_eq!(feed(&mut slow, hello(1)), ["write go"]);
    assert_eq!(feed(&mut slow, Input::Command(Command::Shutdown)), ["close 1", "timer 1"]);
    let next = feed(&mut slow, start(2, 2, "on"));
    assert_eq!(
        next,
        ["cancel 1", "done 1: the agent ended", "stop 1 Terminate", "spawn 2 for Some(2)"]
    );
    let end = Exited { proc: 1, how: Exit::Code(0), stderr_tail: String::new() };
    assert!(
        feed(&mut slow, Input::Exited(end)).is_empty() && feed(&mut slow, hello(1)).is_empty(),
        "the exit of the old process is ignored"
    );
    feed(&mut slow, Input::Spawned(Spawned { proc: 2, agent_version: None }));
    assert_eq!(feed(&mut slow, hello(2)), ["write on"]);
    slow.agent.0.fresh = false;
    let restarted = feed(&mut slow, start(1, 3, "~other"));
    assert_eq!(restarted[..2], ["close 2", "timer 2"]);
    assert_eq!(
        restarted[2..],
        ["cancel 2", "done 2: the agent ended", "stop 2 Terminate", "spawn 3 for Some(3)"]
    );
}

#[test]
fn waiting_queries_fail_with_the_reason_of_a_turn() {
    let mut slow = Live::<Slow>::default();
    feed(&mut slow, query(QueryKind::Health));
    let end = Exited { proc: 1, how: Exit::Code(41), stderr_tail: "sign in first".to_owned() };
    assert_eq!(feed(&mut slow, Input::Exited(end)), ["answer 7: sign in first"]);
}

#[test]
fn giving_up_loses_running_turns_and_ignores_an_exiting_agent() {
    let lost = |play: &mut Play| {
        let mut out = Vec::new();
        let line =
            Line { proc: 1, pipe: Pipe::Stdout, text: "useless".to_owned(), truncated: false };
        play.0
            .handle(TimedInput { at_ms: 0.0, input: Input::Line(line) }, &mut out)
            .expect("the toy agent never fails");
        matches!(&out[0], Action::TurnDone(done) if matches!(done.outcome, Outcome::Lost(_)))
    };
    assert!(lost(&mut Play::running()));
    let mut play = Play::running();
    play.line(1, ".");
    play.feed(Input::Command(Command::Shutdown));
    play.start(2, "wait");
    assert!(play.line(1, "useless").is_empty());
    assert_eq!(play.exited(1), ["cancel 1", "spawn 2 for Some(2)"]);
}

#[test]
fn calls_of_host_tools_are_numbered_also_after_a_move() {
    let mut play = Play::running();
    assert_eq!(play.line(1, "@note"), ["call 1: note"]);
    let result = |call| Input::ToolResult(ToolResult { call, text: "noted".into(), failed: false });
    assert_eq!(play.feed(result(1)), ["write noted"]);
    play.line(1, ".");
    let state = play.0.save().expect("an idle link can be saved");
    let mut moved = Play::default();
    moved.0.load(&state, "1").expect("a saved state can be loaded");
    moved.start(2, "again");
    assert_eq!(moved.line(1, "@note"), ["call 2: note"]);
}

/// A server for all sessions over HTTP that runs a second process for queries.
#[derive(Default)]
struct Inn;

impl Agent for Inn {
    const LEAVE_MS: u32 = 0;
    const SHARED: bool = true;
    fn describe() -> String {
        "{}".to_owned()
    }
    fn launch(&mut self, _: Option<&StartTurn>, _: &mut LinkContext) -> Result<Spawn, Failure> {
        Ok(Spawn { listens: true, keep_open: false, ..spawn("inn", []) })
    }
    fn prompt(&mut self, _: &StartTurn, _: &mut LinkContext) -> Step {
        Step::Prompted
    }
    fn line(&mut self, line: Line, _: &mut LinkContext) {
        assert_eq!(line.proc, 1, "lines of other processes go to `other`");
    }
    fn query(&mut self, _: Query, context: &mut LinkContext) {
        context.action(Action::Spawn(Spawn { proc: BESIDE, ..spawn("cellar", []) }));
    }
    fn other(&mut self, input: Input, context: &mut LinkContext) {
        if let Input::Exited(exited) = input {
            assert_eq!(exited.proc, BESIDE);
            context.answer(7, crate::wit::QueryResult::Health("full".to_owned()));
        }
    }
}

#[test]
fn a_shared_server_belongs_to_no_session_and_is_stopped_at_once() {
    let mut inn = Live::<Inn>::default();
    let mut feed = |input| {
        let mut out = Vec::new();
        inn.handle(TimedInput { at_ms: 0.0, input }, &mut out).expect("the toy agent never fails");
        out.iter().map(words).collect::<Vec<_>>()
    };
    let exited =
        |proc| Input::Exited(Exited { proc, how: Exit::Code(0), stderr_tail: String::new() });
    assert_eq!(
        feed(Input::Command(Command::StartTurn(StartTurn {
            turn: 1,
            one_shot: false,
            ..start("go")
        }))),
        ["spawn 1 for None"]
    );
    feed(Input::Spawned(Spawned { proc: 1, agent_version: None }));
    assert_eq!(feed(query(QueryKind::Models)), [format!("spawn {BESIDE} for None")]);
    feed(Input::Line(Line {
        proc: BESIDE,
        pipe: Pipe::Stdout,
        text: "wine".to_owned(),
        truncated: false,
    }));
    assert_eq!(feed(exited(BESIDE)), ["answer 7: full"]);
    assert_eq!(feed(Input::Command(Command::Shutdown)), ["stop 1 Terminate"]);
    assert_eq!(feed(exited(1)), ["done 1: the agent ended (exit code 0)"]);
}
