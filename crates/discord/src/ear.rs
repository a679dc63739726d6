//! Who takes what logins hear: this node, or whoever has the channel.

use tokio::sync::mpsc;

use super::handler::Takes;
use super::heard::Heard;
use super::reader::{Parts, Reader};
use super::receipt::Receipt;
use super::sharing::Out;

/// Who takes what logins hear.
#[derive(Clone)]
pub(super) enum Ear {
    /// This node, in the login's own runtime.
    Here(Parts),
    /// Whoever has the channel.
    Nodes(mpsc::UnboundedSender<Heard>),
}

impl Ear {
    /// Opens it in the runtime of a login.
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
