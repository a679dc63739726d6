//! Version 1 of the protocol, so that agents outlive the upgrade from a program that speaks no other
//! one, and a downgrade to it. **Delete this module with the next version of the protocol,** together
//! with [`Version::Previous`](super::Version) and `tests/process/holder/previous.rs`.
//!
//! Frequent or large data such as lines and commands has a compact form. The rest is JSON.

use std::io;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::frame::invalid_frame;
use super::{HolderAnswer, HolderRequest};
use aetheel_model::agent::{Pipe, Signal};
use aetheel_turn::{Launch, OutputLine, ProcessCommand, Survivor};

/// A message that also has a form in version 1.
pub(in crate::holder) trait PreviousMessage:
    Serialize + DeserializeOwned
{
    /// Returns the kind of the message and its body.
    fn encode(&self) -> Vec<u8>;

    /// Reads a message from its kind and its body.
    ///
    /// # Errors
    /// It is invalid.
    fn decode(message: &[u8]) -> io::Result<Self>;
}

mod kind {
    pub(super) const LAUNCH: u8 = 2;
    pub(super) const ADOPT: u8 = 3;
    pub(super) const SURVIVORS: u8 = 4;
    pub(super) const COMMAND: u8 = 5;
    pub(super) const RECORDED: u8 = 6;
    pub(super) const ABANDON: u8 = 7;
    pub(super) const KEEP: u8 = 8;
    pub(super) const END: u8 = 9;
    pub(super) const UNTIL: u8 = 10;
    pub(super) const STARTED: u8 = 66;
    pub(super) const FAILED: u8 = 67;
    pub(super) const LINES: u8 = 68;
    pub(super) const OUTPUT_LIMIT: u8 = 69;
    pub(super) const EXITED: u8 = 70;
}

impl PreviousMessage for HolderRequest {
    fn encode(&self) -> Vec<u8> {
        match self {
            Self::Launch { stream, launch, sandbox } => {
                let mut out = numbers(kind::LAUNCH, &[*stream]);
                push_text(&mut out, &launch.stdin);
                let launch = Launch { stdin: Vec::new(), ..(**launch).clone() };
                let mut body = json!([launch, sandbox]);
                rename(&mut body, "/0/reach", "read_only", "kept");
                push_json(out, &body)
            }
            Self::Adopt { stream, run, proc, lines } => {
                push_json(vec![kind::ADOPT], &(stream, run, proc, lines))
            }
            Self::Survivors => vec![kind::SURVIVORS],
            Self::Command { stream, number, command } => {
                let mut out = numbers(kind::COMMAND, &[*stream, *number]);
                push_command(&mut out, command);
                out
            }
            Self::Recorded { stream, lines } => numbers(kind::RECORDED, &[*stream, *lines]),
            Self::Abandon { stream } => numbers(kind::ABANDON, &[*stream]),
            Self::Keep { run, keepsake } => {
                let mut out = vec![kind::KEEP];
                push_text(&mut out, run.as_bytes());
                out.extend(keepsake);
                out
            }
            Self::End { run } => {
                let mut out = vec![kind::END];
                push_text(&mut out, run.as_bytes());
                out
            }
            Self::SetDeadline(until_ms) => numbers(kind::UNTIL, &[*until_ms]),
        }
    }

    fn decode(message: &[u8]) -> io::Result<Self> {
        let mut body = Fields(message);
        let request = match body.byte()? {
            kind::LAUNCH => {
                let (stream, stdin) = (body.number()?, body.bytes()?.to_vec());
                let mut json: Value = body.json()?;
                rename(&mut json, "/0/reach", "kept", "read_only");
                add(&mut json, "/0/reach", "agent_folders");
                add(&mut json, "/0", "stdin");
                let (launch, sandbox): (Box<Launch>, _) = from_json(json)?;
                Self::Launch { stream, launch: Box::new(Launch { stdin, ..*launch }), sandbox }
            }
            kind::ADOPT => {
                let (stream, run, proc, lines) = body.json()?;
                Self::Adopt { stream, run, proc, lines }
            }
            kind::SURVIVORS => Self::Survivors,
            kind::COMMAND => Self::Command {
                stream: body.number()?,
                number: body.number()?,
                command: read_command(&mut body)?,
            },
            kind::RECORDED => Self::Recorded { stream: body.number()?, lines: body.number()? },
            kind::UNTIL => Self::SetDeadline(body.number()?),
            kind::ABANDON => Self::Abandon { stream: body.number()? },
            kind::KEEP => Self::Keep { run: body.text()?, keepsake: body.rest().to_vec() },
            kind::END => Self::End { run: body.text()? },
            _ => return Err(invalid_frame("unknown kind")),
        };
        body.end(request)
    }
}

impl PreviousMessage for HolderAnswer {
    fn encode(&self) -> Vec<u8> {
        match self {
            Self::Started { stream, started } => push_json(vec![kind::STARTED], &(stream, started)),
            Self::Failed { stream, failure } => {
                let mut body = json!([stream, failure]);
                rename(&mut body, "/1/Start", "source", "fault");
                push_json(vec![kind::FAILED], &body)
            }
            Self::Survivors(runs) => {
                let runs: Vec<Value> = runs.iter().map(survivor_json).collect();
                push_json(vec![kind::SURVIVORS], &runs)
            }
            Self::Lines { stream, lines } => {
                let mut out = numbers(kind::LINES, &[*stream]);
                for line in lines {
                    out.push(u8::from(line.pipe == Pipe::Stderr) | u8::from(line.truncated) << 1);
                    push_text(&mut out, line.text.as_bytes());
                }
                out
            }
            Self::OutputLimit { stream } => numbers(kind::OUTPUT_LIMIT, &[*stream]),
            Self::Exited { stream, how, stderr_tail } => {
                push_json(vec![kind::EXITED], &(stream, how, stderr_tail))
            }
        }
    }

    fn decode(message: &[u8]) -> io::Result<Self> {
        let mut body = Fields(message);
        let answer = match body.byte()? {
            kind::LINES => Self::Lines { stream: body.number()?, lines: read_lines(&mut body)? },
            kind::STARTED => {
                let (stream, started) = body.json()?;
                Self::Started { stream, started }
            }
            kind::FAILED => {
                let mut json: Value = body.json()?;
                rename(&mut json, "/1/Start", "fault", "source");
                let (stream, failure) = from_json(json)?;
                Self::Failed { stream, failure }
            }
            kind::SURVIVORS => {
                let mut json: Value = body.json()?;
                for run in json.as_array_mut().into_iter().flatten() {
                    rename(run, "", "asked", "attach_count");
                }
                Self::Survivors(from_json(json)?)
            }
            kind::OUTPUT_LIMIT => Self::OutputLimit { stream: body.number()? },
            kind::EXITED => {
                let (stream, how, stderr_tail) = body.json()?;
                Self::Exited { stream, how, stderr_tail }
            }
            _ => return Err(invalid_frame("unknown kind")),
        };
        body.end(answer)
    }
}

fn survivor_json(run: &Survivor) -> Value {
    let processes = run.processes.iter().map(|one| (one.proc, one.commands, one.recorded));
    json!({
        "run": run.run,
        "keepsake": run.keepsake,
        "asked": run.attach_count,
        "processes": processes.collect::<Vec<_>>(),
    })
}

fn push_command(out: &mut Vec<u8>, command: &ProcessCommand) {
    match command {
        ProcessCommand::Write(bytes) => {
            out.push(1);
            out.extend(bytes);
        }
        ProcessCommand::CloseStdin => out.push(2),
        ProcessCommand::Stop { signal, grace } => {
            let signal = match signal {
                Signal::Interrupt => 3,
                Signal::Terminate => 4,
                Signal::Kill => 5,
            };
            let grace_ms = u64::try_from(grace.as_millis()).unwrap_or(u64::MAX);
            out.extend(numbers(signal, &[grace_ms]));
        }
        ProcessCommand::Recorded(lines) => out.extend(numbers(6, &[*lines])),
    }
}

fn read_command(body: &mut Fields<'_>) -> io::Result<ProcessCommand> {
    let signal = match body.byte()? {
        1 => return Ok(ProcessCommand::Write(body.rest().to_vec())),
        2 => return Ok(ProcessCommand::CloseStdin),
        3 => Signal::Interrupt,
        4 => Signal::Terminate,
        5 => Signal::Kill,
        6 => return Ok(ProcessCommand::Recorded(body.number()?)),
        _ => return Err(invalid_frame("unknown command")),
    };
    Ok(ProcessCommand::Stop { signal, grace: Duration::from_millis(body.number()?) })
}

fn read_lines(body: &mut Fields<'_>) -> io::Result<Vec<OutputLine>> {
    let mut lines = Vec::new();
    while !body.0.is_empty() {
        let flags = body.byte()?;
        let pipe = if flags & 1 == 0 { Pipe::Stdout } else { Pipe::Stderr };
        lines.push(OutputLine { pipe, text: body.text()?, truncated: flags & 2 != 0 });
    }
    Ok(lines)
}

/// Renames a field of the object at `pointer`, if there is one.
fn rename(json: &mut Value, pointer: &str, from: &str, to: &str) {
    if let Some(object) = json.pointer_mut(pointer).and_then(Value::as_object_mut)
        && let Some(value) = object.remove(from)
    {
        object.insert(to.to_owned(), value);
    }
}

/// Adds an empty list to the object at `pointer`, unless it has this field.
fn add(json: &mut Value, pointer: &str, field: &str) {
    if let Some(object) = json.pointer_mut(pointer).and_then(Value::as_object_mut) {
        object.entry(field).or_insert_with(|| json!([]));
    }
}

fn numbers(kind: u8, numbers: &[u64]) -> Vec<u8> {
    let mut out = vec![kind];
    out.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
    out
}

fn push_text(out: &mut Vec<u8>, text: &[u8]) {
    out.extend(u32::try_from(text.len()).unwrap_or(u32::MAX).to_le_bytes());
    out.extend(text);
}

fn push_json(mut out: Vec<u8>, value: &impl Serialize) -> Vec<u8> {
    serde_json::to_writer(&mut out, value).expect(super::ENCODES);
    out
}

fn from_json<T: DeserializeOwned>(json: Value) -> io::Result<T> {
    serde_json::from_value(json).map_err(|error| invalid_frame(&error.to_string()))
}

/// Reads the fields of a message in order.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn take<const N: usize>(&mut self) -> io::Result<[u8; N]> {
        let (bytes, rest) =
            self.0.split_first_chunk().ok_or_else(|| invalid_frame("it ends too early"))?;
        self.0 = rest;
        Ok(*bytes)
    }

    fn byte(&mut self) -> io::Result<u8> {
        self.take().map(u8::from_le_bytes)
    }

    fn number(&mut self) -> io::Result<u64> {
        self.take().map(u64::from_le_bytes)
    }

    fn bytes(&mut self) -> io::Result<&'a [u8]> {
        let length = self.take().map(u32::from_le_bytes)? as usize;
        let (bytes, rest) =
            self.0.split_at_checked(length).ok_or_else(|| invalid_frame("it ends too early"))?;
        self.0 = rest;
        Ok(bytes)
    }

    fn text(&mut self) -> io::Result<String> {
        let text =
            str::from_utf8(self.bytes()?).map_err(|_| invalid_frame("text that is not UTF-8"))?;
        Ok(text.to_owned())
    }

    fn json<T: DeserializeOwned>(&mut self) -> io::Result<T> {
        serde_json::from_slice(self.rest()).map_err(|error| invalid_frame(&error.to_string()))
    }

    fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.0)
    }

    fn end<T>(self, message: T) -> io::Result<T> {
        if self.0.is_empty() { Ok(message) } else { Err(invalid_frame("it goes on too long")) }
    }
}
