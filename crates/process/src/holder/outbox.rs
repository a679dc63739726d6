//! What is to be written to the other side: put down by anyone, written together by one task.

use std::collections::BTreeMap;
use std::io;

use parking_lot::Mutex;
use tokio::io::{AsyncWrite, AsyncWriteExt as _};
use tokio::sync::Notify;

use super::protocol::Request;

/// What was once needed for much is not kept.
const ROOM: usize = 256 << 10;

/// See the module. How much waits in it is bounded by whoever puts something down.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    waiting: Mutex<Waiting>,
    ready: Notify,
}

#[derive(Debug, Default)]
struct Waiting {
    bytes: Vec<u8>,
    /// The last word for each stream says it all.
    recorded: BTreeMap<u64, u64>,
    closed: bool,
}

impl Outbox {
    /// Puts something down; nothing any more once it is closed.
    pub(super) fn put(&self, write: impl FnOnce(&mut Vec<u8>)) {
        let mut waiting = self.waiting.lock();
        if waiting.closed {
            return;
        }
        write(&mut waiting.bytes);
        drop(waiting);
        self.ready.notify_one();
    }

    /// Puts down that so many lines of a stream are recorded.
    pub(super) fn put_recorded(&self, stream: u64, lines: u64) {
        let mut waiting = self.waiting.lock();
        if waiting.closed {
            return;
        }
        let most = waiting.recorded.entry(stream).or_default();
        *most = lines.max(*most);
        drop(waiting);
        self.ready.notify_one();
    }

    /// Takes nothing more; what is there is still written.
    pub(super) fn close(&self) {
        self.waiting.lock().closed = true;
        self.ready.notify_one();
    }

    /// Writes until it is closed and empty.
    ///
    /// # Errors
    /// The other side is gone.
    pub(super) async fn write_to(&self, to: &mut (impl AsyncWrite + Unpin)) -> io::Result<()> {
        let mut bytes = Vec::new();
        loop {
            self.ready.notified().await;
            let closed = {
                let mut waiting = self.waiting.lock();
                std::mem::swap(&mut bytes, &mut waiting.bytes);
                for (stream, lines) in std::mem::take(&mut waiting.recorded) {
                    Request::Recorded { stream, lines }.encode(&mut bytes);
                }
                waiting.closed
            };
            to.write_all(&bytes).await?;
            if closed {
                return to.shutdown().await;
            }
            bytes.clear();
            bytes.shrink_to(ROOM);
        }
    }
}
