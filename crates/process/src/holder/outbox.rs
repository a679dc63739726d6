//! A buffer of frames for the other side. Any task can add frames, and one task writes them in
//! batches.

use std::collections::BTreeMap;
use std::io;

use parking_lot::Mutex;
use tokio::io::{AsyncWrite, AsyncWriteExt as _};
use tokio::sync::Notify;

use super::protocol::Request;

/// Capacity in bytes that is kept between two writes.
const ROOM: usize = 256 << 10;

/// A buffer of frames to write. Its size is limited by the callers.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    waiting: Mutex<Waiting>,
    ready: Notify,
}

#[derive(Debug, Default)]
struct Waiting {
    bytes: Vec<u8>,
    /// The number of recorded lines for each stream. Only the highest is sent.
    recorded: BTreeMap<u64, u64>,
    closed: bool,
}

impl Outbox {
    /// Adds the frames that `write` appends. Does nothing if the outbox is closed.
    pub(super) fn put(&self, write: impl FnOnce(&mut Vec<u8>)) {
        let mut waiting = self.waiting.lock();
        if waiting.closed {
            return;
        }
        write(&mut waiting.bytes);
        drop(waiting);
        self.ready.notify_one();
    }

    /// Adds the number of recorded lines of a stream.
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

    /// Closes the outbox. Frames that were added before are still written.
    pub(super) fn close(&self) {
        self.waiting.lock().closed = true;
        self.ready.notify_one();
    }

    /// Writes frames until the outbox is closed and empty.
    ///
    /// # Errors
    /// The connection is broken.
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
