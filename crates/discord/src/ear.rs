//! The destination of the events that logins receive: this node, or the nodes that have their
//! channels.

use tokio::sync::mpsc;

use super::handler::Takes;
use super::heard::Heard;
use super::reader::{Parts, Reader};
use super::receipt::Receipt;
use super::sharing::Out;

/// The destination of the events that logins receive.
#[derive(Clone)]
pub(super) enum Ear {
    /// Reads events on this node, in the login's own runtime.
    Here(Parts),
    /// Sends events to the nodes that have their channels.
    Nodes(mpsc::UnboundedSender<Heard>),
}

impl Ear {
    /// Creates the function that accepts events. Must be called in the runtime of the login.
    pub(super) fn open(self) -> Result<Takes, reqwest::Error> {
        Ok(match self {
            Self::Here(parts) => {
                let reader = Reader::new(parts, None)?;
                Box::new(move |heard| reader.read(&heard, Receipt::none()))
            }
            Self::Nodes(out) => {
                let out = Out::new(out);
                Box::new(move |heard| out.send(heard))
            }
        })
    }
}
