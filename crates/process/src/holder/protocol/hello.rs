//! The handshake. Its messages are JSON, which the programs of all versions can read.

use std::io;

use bytes::BytesMut;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::frame::{invalid_frame, push_frame};
use super::{ENCODES, Version};
use crate::Sandbox;

const HELLO: u8 = 1;
const REFUSED: u8 = 65;

/// The first message of each side. Later versions only add fields.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::holder) struct Hello {
    /// From a gateway, the oldest version of the protocol that it speaks; from a holder, the version
    /// of this connection.
    pub(in crate::holder) protocol: u32,
    /// The newest version of the protocol that a gateway speaks. A holder, and a gateway that speaks
    /// only one version, send 0.
    #[serde(default)]
    pub(in crate::holder) newest: u32,
    /// The version of the program.
    pub(in crate::holder) program: String,
    /// The prefix of the names of temporary folders that are removed with the holder; empty from a
    /// gateway.
    #[serde(default)]
    pub(in crate::holder) scratch: String,
    /// The key in the state folder, which proves that the gateway can read it; empty from a holder.
    #[serde(default)]
    pub(in crate::holder) key: String,
    /// Whether the holder ends agents at the time given by
    /// [`SetDeadline`](super::HolderRequest::SetDeadline).
    #[serde(default)]
    pub(in crate::holder) fences: bool,
    /// The sandbox in which the holder starts agents. `None` from a gateway, and from a holder of
    /// an earlier version, which uses the sandbox that each request names.
    #[serde(default)]
    pub(in crate::holder) sandbox: Option<Sandbox>,
    /// Whether the holder exits when there is neither a gateway nor an agent.
    #[serde(default)]
    pub(in crate::holder) leaves_when_empty: bool,
    /// The port of the holder's tool relay. A gateway and an older holder send `None`.
    #[serde(default)]
    pub(in crate::holder) tool_port: Option<u16>,
}

impl Hello {
    pub(in crate::holder) fn gateway(key: String) -> Self {
        let (protocol, newest) = (Version::OLDEST as u32, Version::NEWEST as u32);
        Self { protocol, newest, program: program_version(), key, ..Self::default() }
    }

    /// Returns the hello of a holder for a connection of this version.
    pub(in crate::holder) fn holder(
        version: Version,
        scratch: String,
        sandbox: &Sandbox,
        leaves_when_empty: bool,
        tool_port: Option<u16>,
    ) -> Self {
        Self {
            protocol: version as u32,
            program: program_version(),
            scratch,
            fences: true,
            sandbox: Some(sandbox.clone()),
            leaves_when_empty,
            tool_port,
            ..Self::default()
        }
    }

    /// Returns the newest version of the protocol that both sides speak.
    pub(in crate::holder) fn version(&self) -> Option<Version> {
        let offered = self.protocol..=self.newest.max(self.protocol);
        Version::ALL.into_iter().find(|version| offered.contains(&(*version as u32)))
    }

    pub(in crate::holder) fn frame(&self) -> BytesMut {
        json_frame(HELLO, self)
    }

    /// Reads the hello of a gateway.
    ///
    /// # Errors
    /// It is another message, or invalid.
    pub(in crate::holder) fn read(message: &[u8]) -> io::Result<Self> {
        match message {
            [HELLO, body @ ..] => read_json(body),
            _ => Err(invalid_frame("unknown kind")),
        }
    }
}

fn program_version() -> String {
    env!("CARGO_PKG_VERSION").to_owned()
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::holder) struct HandshakeRefusal {
    /// Whether another gateway is connected, which may be about to leave.
    pub(in crate::holder) busy: bool,
    /// A message for people.
    pub(in crate::holder) why: String,
}

impl HandshakeRefusal {
    pub(in crate::holder) fn frame(&self) -> BytesMut {
        json_frame(REFUSED, self)
    }
}

/// Reads the answer of a holder to the hello of a gateway.
///
/// # Errors
/// It is another message, or invalid.
pub(in crate::holder) fn read_hello_answer(
    message: &[u8],
) -> io::Result<Result<Hello, HandshakeRefusal>> {
    match message {
        [REFUSED, body @ ..] => read_json(body).map(Err),
        _ => Hello::read(message).map(Ok),
    }
}

fn json_frame(kind: u8, value: &impl Serialize) -> BytesMut {
    let (mut message, mut frame) = (vec![kind], BytesMut::new());
    serde_json::to_writer(&mut message, value).expect(ENCODES);
    push_frame(&mut frame, &message);
    frame
}

fn read_json<T: DeserializeOwned>(body: &[u8]) -> io::Result<T> {
    serde_json::from_slice(body).map_err(|error| invalid_frame(&error.to_string()))
}
