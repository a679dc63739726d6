//! The protocol between gateway and holder.
//!
//! A frame consists of the length of its body (four bytes, little-endian), a kind (one byte) and
//! the body. Frequent or large data such as lines and commands has a compact form. The rest is
//! JSON. The peer is not trusted: an invalid frame is an error and never a panic, and memory is
//! allocated only for bytes that were received.

use std::io;
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncRead, AsyncReadExt as _};

use super::wire::{Started, WireLaunch, WireLaunchError, WireRun, WireSandbox};
use crate::Sandbox;
use aetheel_model::agent::{Exit, Pipe, Signal};
use aetheel_turn::{OutputLine, ProcessCommand};

/// The version of the protocol. It increases with every change that an older program cannot read.
pub(super) const PROTOCOL_VERSION: u32 = 1;
/// Largest body of a frame in bytes: the longest possible line, if each of its bytes was replaced
/// because it was not UTF-8, and its header.
pub(super) const MAX_FRAME_BYTES: usize = (3 << 30) + (16 << 20);
/// Largest body in bytes before the peer has identified itself.
pub(super) const MAX_HELLO_BYTES: usize = 4 << 10;

/// Bytes of a frame before its body.
const HEADER_BYTES: usize = 5;

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

/// Returns the error for an invalid frame.
fn invalid_frame(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("garbled frame: {what}"))
}

/// Appends a frame whose body `write` writes.
pub(super) fn push_frame(out: &mut Vec<u8>, kind: u8, write: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend([0, 0, 0, 0, kind]);
    write(out);
    let length = u32::try_from(out.len() - start - HEADER_BYTES).unwrap_or(u32::MAX);
    out[start..start + 4].copy_from_slice(&length.to_le_bytes());
}

fn push_json(out: &mut Vec<u8>, value: &impl Serialize) {
    // Fails only for maps whose keys are not strings, which these types do not contain.
    let _ = serde_json::to_writer(out, value);
}

fn push_number(out: &mut Vec<u8>, number: u64) {
    out.extend(number.to_le_bytes());
}

fn push_text(out: &mut Vec<u8>, text: &[u8]) {
    out.extend(u32::try_from(text.len()).unwrap_or(u32::MAX).to_le_bytes());
    out.extend(text);
}

/// Reads the fields of a body in order.
struct FrameReader<'a>(&'a [u8]);

impl<'a> FrameReader<'a> {
    fn take(&mut self, count: usize) -> io::Result<&'a [u8]> {
        let (taken, rest) =
            self.0.split_at_checked(count).ok_or_else(|| invalid_frame("it ends too early"))?;
        self.0 = rest;
        Ok(taken)
    }

    fn byte(&mut self) -> io::Result<u8> {
        Ok(self.take(1)?[0])
    }

    fn length(&mut self) -> io::Result<usize> {
        let bytes = self.take(4)?.try_into().map_err(|_| invalid_frame("a length"))?;
        Ok(u32::from_le_bytes(bytes) as usize)
    }

    fn number(&mut self) -> io::Result<u64> {
        let bytes = self.take(8)?.try_into().map_err(|_| invalid_frame("a number"))?;
        Ok(u64::from_le_bytes(bytes))
    }

    fn bytes(&mut self) -> io::Result<&'a [u8]> {
        let length = self.length()?;
        self.take(length)
    }

    fn text(&mut self) -> io::Result<String> {
        let text =
            str::from_utf8(self.bytes()?).map_err(|_| invalid_frame("text that is not UTF-8"))?;
        Ok(text.to_owned())
    }

    fn json<T: DeserializeOwned>(&mut self) -> io::Result<T> {
        let body = std::mem::take(&mut self.0);
        serde_json::from_slice(body).map_err(|error| invalid_frame(&error.to_string()))
    }

    fn rest(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.0).to_vec()
    }

    fn end(self) -> io::Result<()> {
        if self.0.is_empty() { Ok(()) } else { Err(invalid_frame("it goes on too long")) }
    }
}

/// Appends a line in the form in which it is buffered and sent.
pub(super) fn encode_line(out: &mut Vec<u8>, line: &OutputLine) {
    out.push(u8::from(line.pipe == Pipe::Stderr) | u8::from(line.truncated) << 1);
    push_text(out, line.text.as_bytes());
}

/// Reads lines until the end of `bytes`.
///
/// # Errors
/// The bytes are invalid.
pub(super) fn decode_lines(bytes: &[u8]) -> io::Result<Vec<OutputLine>> {
    let (mut body, mut lines) = (FrameReader(bytes), Vec::new());
    while !body.0.is_empty() {
        let flags = body.byte()?;
        let pipe = if flags & 1 == 0 { Pipe::Stdout } else { Pipe::Stderr };
        lines.push(OutputLine { pipe, text: body.text()?, truncated: flags & 2 != 0 });
    }
    Ok(lines)
}

/// Returns the bytes of at most `most` lines after the first `skip` lines.
pub(super) fn lines_between(bytes: &[u8], skip: u64, most: u64) -> &[u8] {
    let place = |from: usize, count: u64| {
        let mut at = from;
        for _ in 0..count {
            let mut body = FrameReader(&bytes[at..]);
            if body.byte().and_then(|_| body.bytes()).is_err() {
                break;
            }
            at = bytes.len() - body.0.len();
        }
        at
    };
    let begin = place(0, skip);
    &bytes[begin..place(begin, most)]
}

/// Appends a frame with lines that are already encoded.
pub(super) fn encode_lines(out: &mut Vec<u8>, stream: u64, lines: &[u8]) {
    push_frame(out, kind::LINES, |out| {
        push_number(out, stream);
        out.extend(lines);
    });
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

/// Reads the next frame into `body` and returns its kind, or `None` at the end of the connection.
///
/// # Errors
/// The connection is broken, it ends within a frame, or a body is longer than `most`.
pub(super) async fn read_frame(
    from: &mut (impl AsyncRead + Unpin),
    body: &mut Vec<u8>,
    most: usize,
) -> io::Result<Option<u8>> {
    let mut head = [0; HEADER_BYTES];
    if from.read(&mut head[..1]).await? == 0 {
        return Ok(None);
    }
    from.read_exact(&mut head[1..]).await?;
    let [a, b, c, d, kind] = head;
    let length = u32::from_le_bytes([a, b, c, d]) as usize;
    if length > most {
        return Err(invalid_frame("it is too long"));
    }
    body.clear();
    // Free the memory of a large body.
    body.shrink_to(64 << 10);
    // The body grows with the received bytes.
    if from.take(length as u64).read_to_end(body).await? < length {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(Some(kind))
}

#[cfg(test)]
mod tests;
