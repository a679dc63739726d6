//! The protocol between gateway and holder.
//!
//! After the [handshake](hello), messages are encoded by `postcard`. The peer is not trusted: an
//! invalid frame is an error and never a panic.

mod frame;
mod hello;
mod lines;
mod previous;

use std::io;

use bytes::BytesMut;
use serde::{Deserialize, Serialize};

pub(super) use self::frame::FrameReader;
use self::frame::{invalid_frame, push_frame};
pub(super) use self::hello::{HandshakeRefusal, Hello, read_hello_answer};
pub(super) use self::lines::{encode_line, lines_between, lines_message};
pub(super) use self::previous::PreviousMessage;
use crate::Sandbox;
use aetheel_model::agent::Exit;
use aetheel_turn::{Launch, LaunchError, OutputLine, ProcessCommand, Survivor};

/// Largest body of a frame in bytes: the longest possible line, if each of its bytes was replaced
/// because it was not UTF-8, and its header.
pub(super) const MAX_FRAME_BYTES: usize = (3 << 30) + (16 << 20);
/// Largest body in bytes before the peer has identified itself.
pub(super) const MAX_HELLO_BYTES: usize = 4 << 10;
/// The reason why encoding cannot fail.
const ENCODES: &str = "each message has a serialized form, and memory has space";

/// A version of the protocol. Its number increases with every change that an older program cannot
/// read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Version {
    /// See [`previous`].
    Previous = 1,
    #[default]
    Current = 2,
}

impl Version {
    /// All versions, the newest first.
    const ALL: [Self; 2] = [Self::Current, Self::Previous];
    const NEWEST: Self = Self::Current;
    const OLDEST: Self = Self::Previous;
}

/// A message of a gateway. A stream is the gateway's number for one process on this connection.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum HolderRequest {
    Launch {
        stream: u64,
        launch: Box<Launch>,
        /// The sandbox that the gateway expects. The holder refuses the launch if it uses another
        /// one.
        sandbox: Sandbox,
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

#[derive(Debug, Serialize, Deserialize)]
pub(super) enum HolderAnswer {
    Started { stream: u64, started: Started },
    Failed { stream: u64, failure: LaunchError },
    Survivors(Vec<Survivor>),
    Lines { stream: u64, lines: Vec<OutputLine> },
    OutputLimit { stream: u64 },
    Exited { stream: u64, how: Exit, stderr_tail: String },
}

/// A process that was started or adopted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Started {
    pub(super) pid: Option<u32>,
    /// Number of commands so far.
    pub(super) commands: u64,
}

pub(super) fn push_message(message: &impl PreviousMessage, version: Version, out: &mut BytesMut) {
    let encoded = match version {
        Version::Current => postcard::to_stdvec(message).expect(ENCODES),
        Version::Previous => message.encode(),
    };
    push_frame(out, &encoded);
}

pub(super) fn push_lines(message: &[u8], version: Version, out: &mut BytesMut) {
    match version {
        Version::Current => push_frame(out, message),
        Version::Previous => {
            let lines = read_message::<HolderAnswer>(message, Version::Current);
            push_message(&lines.expect("the lines were encoded here"), version, out);
        }
    }
}

/// Reads a message.
///
/// # Errors
/// The message is invalid.
pub(super) fn read_message<M: PreviousMessage>(bytes: &[u8], version: Version) -> io::Result<M> {
    match version {
        Version::Current => match postcard::take_from_bytes(bytes) {
            Ok((message, [])) => Ok(message),
            Ok(_) => Err(invalid_frame("it goes on too long")),
            Err(error) => Err(invalid_frame(&error.to_string())),
        },
        Version::Previous => M::decode(bytes),
    }
}

#[cfg(test)]
mod tests;
