//! Fuzzes backends with any sequence of inputs that a host could send.
//!
//! The input is text with one event per line, so that people can read and write seeds. The first
//! line is `once` or `live`. The other lines are:
//!
//! | line | event |
//! |---|---|
//! | `o TEXT`, `e TEXT` | a line of stdout, of stderr |
//! | `s`, `f`, `x CODE` | the process runs, cannot be started, has exited |
//! | `p KEY` | the following lines are about this process; initially 1 |
//! | `n` | another turn begins |
//! | `i`, `q`, `m TEXT` | an interrupt, a query, a message into the running turn |
//! | `y KEY`, `d KEY` | a question is answered with yes, with no |
//! | `t KEY` | a timer ran out |
//! | `r KEY STATUS BODY` | an HTTP answer |
//! | `v DATA` | an event of the first stream |
//! | `c KEY TEXT` | a call of a tool of the host ended |

use aetheel_backend_sdk::Backend;
use aetheel_backend_sdk::disturb::survive;
use aetheel_backend_sdk::fixture::start;
use aetheel_backend_sdk::wit::{
    Answer, Command, Decision, Exit, Exited, HttpResponse, Input, Line, Part, Pipe, Query,
    QueryKind, SpawnFailed, Spawned, Steer, StreamEvent, StreamOpened, ToolResult, TurnRef,
};

/// Checks the conditions of `disturb::survive`.
pub fn guest<B: Backend>(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let mut lines = text.lines();
    let one_shot = lines.next() != Some("live");
    let mut story = Story { one_shot, proc: 1, turn: 0, key: 0, inputs: Vec::new() };
    story.begin();
    // More inputs cost time and find nothing else.
    lines.take(400).for_each(|line| story.happens(line));
    survive::<B>(story.inputs);
}

struct Story {
    one_shot: bool,
    proc: u32,
    turn: u32,
    key: u32,
    inputs: Vec<Input>,
}

impl Story {
    fn begin(&mut self) {
        self.turn += 1;
        let turn = aetheel_backend_sdk::wit::StartTurn {
            turn: self.turn,
            one_shot: self.one_shot,
            ..start("hello")
        };
        self.inputs.push(Input::Command(Command::StartTurn(turn)));
    }

    fn happens(&mut self, line: &str) {
        let (what, rest) = line.split_once(' ').unwrap_or((line, ""));
        let (proc, key) = (self.proc, rest.parse().unwrap_or(1));
        let turn = TurnRef { session: 1, turn: self.turn };
        self.key += 1;
        let said = |pipe| {
            Input::Line(Line {
                proc,
                pipe,
                text: rest.to_owned(),
                truncated: rest.ends_with("\u{fffd}"),
            })
        };
        let decided = |decision| Input::Command(Command::Answer(Answer { ask: key, decision }));
        let input = match what {
            "o" => said(Pipe::Stdout),
            "e" => said(Pipe::Stderr),
            "s" => Input::Spawned(Spawned { proc, agent_version: None }),
            "f" => Input::SpawnFailed(SpawnFailed {
                proc,
                message: rest.to_owned(),
                not_found: rest.is_empty(),
            }),
            "x" => Input::Exited(Exited {
                proc,
                how: Exit::Code(rest.parse().unwrap_or(0)),
                stderr_tail: rest.to_owned(),
            }),
            "p" => return self.proc = key,
            "n" => return self.begin(),
            "i" => Input::Command(Command::Interrupt(turn)),
            "q" => Input::Command(Command::Query(Query {
                query: self.key,
                session: Some(1),
                kind: QueryKind::Models,
            })),
            "m" => Input::Command(Command::Steer(Steer {
                session: 1,
                turn: self.turn,
                message: self.key,
                parts: vec![Part::Text(rest.to_owned())],
                fresh_id: start("").fresh_id,
            })),
            "y" => decided(Decision::AllowOnce),
            "d" => decided(Decision::Deny(None)),
            "t" => Input::Timer(key),
            "r" => {
                let mut fields = rest.splitn(3, ' ');
                let mut number = || fields.next().and_then(|field| field.parse().ok());
                let (request, status) = (number().unwrap_or(1), number().unwrap_or(200));
                Input::HttpResponse(HttpResponse {
                    request,
                    status,
                    body: fields.next().unwrap_or_default().to_owned(),
                })
            }
            "w" => Input::StreamOpened(StreamOpened { stream: key, status: 200 }),
            "v" => Input::StreamEvent(StreamEvent {
                stream: 1,
                name: None,
                id: None,
                data: rest.to_owned(),
            }),
            "c" => {
                let (call, text) = rest.split_once(' ').unwrap_or((rest, ""));
                let call = call.parse().unwrap_or(1);
                Input::ToolResult(ToolResult {
                    call,
                    text: text.to_owned(),
                    failed: text.is_empty(),
                })
            }
            _ => return,
        };
        self.inputs.push(input);
    }
}
