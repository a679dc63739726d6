//! The protocol between gateway and holder.
//!
//! A frame consists of the length of its body (four bytes, little-endian), a kind (one byte) and
//! the body. Frequent or large data such as lines and commands has a compact form. The rest is
//! JSON. The peer is not trusted: an invalid frame is an error and never a panic, and memory is
//! allocated only for bytes that were received.

mod frame;

use std::io;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use self::frame::{FrameReader, invalid_frame, push_json, push_number, push_text};
pub(super) use self::frame::{
    decode_lines, encode_line, encode_lines, lines_between, push_frame, read_frame,
};
use super::wire::{Started, WireLaunch, WireLaunchError, WireRun, WireSandbox};
use crate::Sandbox;
use aetheel_model::agent::{Exit, Signal};
use aetheel_turn::{OutputLine, ProcessCommand};

/// The version of the protocol. It increases with every change that an older program cannot read.
pub(super) const PROTOCOL_VERSION: u32 = 1;
/// Largest body of a frame in bytes: the longest possible line, if each of its bytes was replaced
/// because it was not UTF-8, and its header.
pub(super) const MAX_FRAME_BYTES: usize = (3 << 30) + (16 << 20);
/// Largest body in bytes before the peer has identified itself.
pub(super) const MAX_HELLO_BYTES: usize = 4 << 10;

/// The first message of each side. Its form never changes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Hello {
    /// [`PROTOCOL_VERSION`].
    pub(super) protocol: u32,
    /// The version of the program.
    pub(super) program: String,
    /// The prefix of the names of temporary folders that are removed with the holder; empty from a
    /// gateway.
    #[serde(default)]
    pub(super) scratch: String,
    /// The key in the state folder, which proves that the gateway can read it; empty from a holder.
    #[serde(default)]
    pub(super) key: String,
    /// Whether the holder ends agents at the time given by [`HolderRequest::SetDeadline`].
    #[serde(default)]
    pub(super) fences: bool,
    /// The sandbox in which the holder starts agents. `None` from a gateway, and from a holder of
    /// an earlier version, which uses the sandbox that each request names.
    #[serde(default)]
    pub(super) sandbox: Option<WireSandbox>,
    /// Whether the holder exits when there is neither a gateway nor an agent.
    #[serde(default)]
    pub(super) leaves_when_empty: bool,
    /// The port of the holder's tool relay. A gateway and an older holder send `None`.
    #[serde(default)]
    pub(super) tool_port: Option<u16>,
}

impl Hello {
    /// Returns the hello of a gateway.
    pub(super) fn gateway(key: String) -> Self {
        Self { protocol: PROTOCOL_VERSION, program: program_version(), key, ..Self::default() }
    }

    /// Returns the hello of a holder.
    pub(super) fn holder(
        scratch: String,
        sandbox: &Sandbox,
        leaves_when_empty: bool,
        tool_port: Option<u16>,
    ) -> Self {
        Self {
            scratch,
            fences: true,
            sandbox: Some(sandbox.into()),
            leaves_when_empty,
            tool_port,
            ..Self::gateway(String::new())
        }
    }
}

fn program_version() -> String {
    env!("CARGO_PKG_VERSION").to_owned()
}

/// The reason why a holder refuses a gateway.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct HandshakeRefusal {
    /// Whether another gateway is connected, which may be about to leave.
    pub(super) busy: bool,
    /// A message for people.
    pub(super) why: String,
}

/// A message of a gateway. A stream is the gateway's number for one process on this connection.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum HolderRequest {
    Hello(Hello),
    Launch {
        stream: u64,
        launch: Box<WireLaunch>,
        /// The sandbox that the gateway expects. The holder refuses the launch if it uses another
        /// one.
        sandbox: WireSandbox,
    },
    Adopt {
        stream: u64,
        run: String,
        proc: u32,
        lines: u64,
    },
    Survivors,
    /// A command to a process. `number` counts the commands to this process from 1, including those
    /// of previous gateways.
    Command {
        stream: u64,
        number: u64,
        command: ProcessCommand,
    },
    Recorded {
        stream: u64,
        lines: u64,
    },
    /// Kills the process and forgets it.
    Abandon {
        stream: u64,
    },
    Keep {
        run: String,
        keepsake: Vec<u8>,
    },
    End {
        run: String,
    },
    /// Agents may run until this time of [`boot_ms`](aetheel_runtime::lease::boot_ms), also without a
    /// gateway. A later request can extend the time.
    SetDeadline(u64),
}

/// A message of the holder.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum HolderAnswer {
    Hello(Hello),
    Refused(HandshakeRefusal),
    Started { stream: u64, started: Started },
    Failed { stream: u64, failure: WireLaunchError },
    Survivors(Vec<WireRun>),
    Lines { stream: u64, lines: Vec<OutputLine> },
    OutputLimit { stream: u64 },
    Exited { stream: u64, how: Exit, stderr_tail: String },
}

mod kind {
    pub(super) const HELLO: u8 = 1;
    pub(super) const LAUNCH: u8 = 2;
    pub(super) const ADOPT: u8 = 3;
    pub(super) const SURVIVORS: u8 = 4;
    pub(super) const COMMAND: u8 = 5;
    pub(super) const RECORDED: u8 = 6;
    pub(super) const ABANDON: u8 = 7;
    pub(super) const KEEP: u8 = 8;
    pub(super) const END: u8 = 9;
    pub(super) const UNTIL: u8 = 10;
    pub(super) const REFUSED: u8 = 65;
    pub(super) const STARTED: u8 = 66;
    pub(super) const FAILED: u8 = 67;
    pub(super) const LINES: u8 = 68;
    pub(super) const OUTPUT_LIMIT: u8 = 69;
    pub(super) const EXITED: u8 = 70;
}

impl HolderRequest {
    /// Appends the frame of this request.
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Hello(hello) => push_frame(out, kind::HELLO, |out| push_json(out, hello)),
            Self::Launch { stream, launch, sandbox } => push_frame(out, kind::LAUNCH, |out| {
                push_number(out, *stream);
                push_text(out, &launch.stdin);
                push_json(out, &(launch, sandbox));
            }),
            Self::Adopt { stream, run, proc, lines } => {
                push_frame(out, kind::ADOPT, |out| push_json(out, &(stream, run, proc, lines)));
            }
            Self::Survivors => push_frame(out, kind::SURVIVORS, |_| {}),
            Self::Command { stream, number: count, command } => {
                push_frame(out, kind::COMMAND, |out| {
                    push_number(out, *stream);
                    push_number(out, *count);
                    encode_command(out, command);
                })
            }
            Self::Recorded { stream, lines } => push_frame(out, kind::RECORDED, |out| {
                push_number(out, *stream);
                push_number(out, *lines);
            }),
            Self::Abandon { stream } => {
                push_frame(out, kind::ABANDON, |out| push_number(out, *stream))
            }
            Self::Keep { run, keepsake } => push_frame(out, kind::KEEP, |out| {
                push_text(out, run.as_bytes());
                out.extend(keepsake);
            }),
            Self::End { run } => push_frame(out, kind::END, |out| push_text(out, run.as_bytes())),
            Self::SetDeadline(until_ms) => {
                push_frame(out, kind::UNTIL, |out| push_number(out, *until_ms))
            }
        }
    }

    /// Reads a request from the body of a frame.
    ///
    /// # Errors
    /// The body is invalid.
    pub(super) fn decode(kind: u8, body: &[u8]) -> io::Result<Self> {
        let mut body = FrameReader(body);
        let request = match kind {
            kind::HELLO => Self::Hello(body.json()?),
            kind::LAUNCH => {
                let (stream, stdin) = (body.number()?, body.bytes()?.to_vec());
                let (mut launch, sandbox): (Box<WireLaunch>, _) = body.json()?;
                launch.stdin = stdin;
                Self::Launch { stream, launch, sandbox }
            }
            kind::ADOPT => {
                let (stream, run, proc, lines) = body.json()?;
                Self::Adopt { stream, run, proc, lines }
            }
            kind::SURVIVORS => Self::Survivors,
            kind::COMMAND => Self::Command {
                stream: body.number()?,
                number: body.number()?,
                command: decode_command(&mut body)?,
            },
            kind::RECORDED => Self::Recorded { stream: body.number()?, lines: body.number()? },
            kind::UNTIL => Self::SetDeadline(body.number()?),
            kind::ABANDON => Self::Abandon { stream: body.number()? },
            kind::KEEP => Self::Keep { run: body.text()?, keepsake: body.rest() },
            kind::END => Self::End { run: body.text()? },
            _ => return Err(invalid_frame("unknown kind")),
        };
        body.end()?;
        Ok(request)
    }
}

fn encode_command(out: &mut Vec<u8>, command: &ProcessCommand) {
    match command {
        ProcessCommand::Write(bytes) => {
            out.push(1);
            out.extend(bytes);
        }
        ProcessCommand::CloseStdin => out.push(2),
        ProcessCommand::Stop { signal, grace } => {
            out.push(match signal {
                Signal::Interrupt => 3,
                Signal::Terminate => 4,
                Signal::Kill => 5,
            });
            push_number(out, u64::try_from(grace.as_millis()).unwrap_or(u64::MAX));
        }
        ProcessCommand::Recorded(lines) => {
            out.push(6);
            push_number(out, *lines);
        }
    }
}

fn decode_command(body: &mut FrameReader<'_>) -> io::Result<ProcessCommand> {
    let signal = match body.byte()? {
        1 => return Ok(ProcessCommand::Write(body.rest())),
        2 => return Ok(ProcessCommand::CloseStdin),
        3 => Signal::Interrupt,
        4 => Signal::Terminate,
        5 => Signal::Kill,
        6 => return Ok(ProcessCommand::Recorded(body.number()?)),
        _ => return Err(invalid_frame("unknown command")),
    };
    Ok(ProcessCommand::Stop { signal, grace: Duration::from_millis(body.number()?) })
}

impl HolderAnswer {
    /// Appends the frame of this answer.
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Hello(hello) => push_frame(out, kind::HELLO, |out| push_json(out, hello)),
            Self::Refused(refusal) => push_frame(out, kind::REFUSED, |out| push_json(out, refusal)),
            Self::Started { stream, started } => {
                push_frame(out, kind::STARTED, |out| push_json(out, &(stream, started)));
            }
            Self::Failed { stream, failure } => {
                push_frame(out, kind::FAILED, |out| push_json(out, &(stream, failure)));
            }
            Self::Survivors(runs) => push_frame(out, kind::SURVIVORS, |out| push_json(out, runs)),
            Self::Lines { stream, lines } => push_frame(out, kind::LINES, |out| {
                push_number(out, *stream);
                lines.iter().for_each(|line| encode_line(out, line));
            }),
            Self::OutputLimit { stream } => {
                push_frame(out, kind::OUTPUT_LIMIT, |out| push_number(out, *stream));
            }
            Self::Exited { stream, how, stderr_tail } => {
                push_frame(out, kind::EXITED, |out| push_json(out, &(stream, how, stderr_tail)));
            }
        }
    }

    /// Reads an answer from the body of a frame.
    ///
    /// # Errors
    /// The body is invalid.
    pub(super) fn decode(kind: u8, body: &[u8]) -> io::Result<Self> {
        let mut body = FrameReader(body);
        let answer = match kind {
            kind::LINES => {
                let stream = body.number()?;
                let lines = decode_lines(std::mem::take(&mut body.0))?;
                Self::Lines { stream, lines }
            }
            kind::HELLO => Self::Hello(body.json()?),
            kind::REFUSED => Self::Refused(body.json()?),
            kind::STARTED => {
                let (stream, started) = body.json()?;
                Self::Started { stream, started }
            }
            kind::FAILED => {
                let (stream, failure) = body.json()?;
                Self::Failed { stream, failure }
            }
            kind::SURVIVORS => Self::Survivors(body.json()?),
            kind::OUTPUT_LIMIT => Self::OutputLimit { stream: body.number()? },
            kind::EXITED => {
                let (stream, how, stderr_tail) = body.json()?;
                Self::Exited { stream, how, stderr_tail }
            }
            _ => return Err(invalid_frame("unknown kind")),
        };
        body.end()?;
        Ok(answer)
    }
}

#[cfg(test)]
mod tests;
