//! A buffer of frames for the other side. Any task can add frames, and one task writes them in
//! batches.

use std::collections::BTreeMap;
use std::io;

use bytes::BytesMut;
use parking_lot::Mutex;
use tokio::io::{AsyncWrite, AsyncWriteExt as _};
use tokio::sync::Notify;

use super::protocol::{HolderRequest, PreviousMessage, Version, push_lines, push_message};

/// Capacity in bytes that is kept between two writes.
const MAX_IDLE_CAPACITY: usize = 256 << 10;

/// A buffer of frames to write. Its size is limited by the callers.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    version: Version,
    pending: Mutex<PendingFrames>,
    ready: Notify,
}

#[derive(Debug, Default)]
struct PendingFrames {
    bytes: BytesMut,
    /// The number of recorded lines for each stream. Only the highest is sent.
    recorded: BTreeMap<u64, u64>,
    closed: bool,
}

impl Outbox {
    pub(super) fn new(version: Version) -> Self {
        Self { version, ..Self::default() }
    }

    /// Adds a message. Does nothing if the outbox is closed.
    pub(super) fn push(&self, message: &impl PreviousMessage) {
        self.write(|out| push_message(message, self.version, out));
    }

    /// Adds a message with lines that are already encoded.
    pub(super) fn push_lines(&self, message: &[u8]) {
        self.write(|out| push_lines(message, self.version, out));
    }

    fn write(&self, write: impl FnOnce(&mut BytesMut)) {
        let mut waiting = self.pending.lock();
        if waiting.closed {
            return;
        }
        write(&mut waiting.bytes);
        drop(waiting);
        self.ready.notify_one();
    }

    pub(super) fn push_recorded(&self, stream: u64, lines: u64) {
        let mut waiting = self.pending.lock();
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
        self.pending.lock().closed = true;
        self.ready.notify_one();
    }

    /// Writes frames until the outbox is closed and empty.
    ///
    /// # Errors
    /// The connection is broken.
    pub(super) async fn write_to(&self, to: &mut (impl AsyncWrite + Unpin)) -> io::Result<()> {
        let mut bytes = BytesMut::new();
        loop {
            self.ready.notified().await;
            let closed = {
                let mut waiting = self.pending.lock();
                std::mem::swap(&mut bytes, &mut waiting.bytes);
                for (stream, lines) in std::mem::take(&mut waiting.recorded) {
                    let request = HolderRequest::Recorded { stream, lines };
                    push_message(&request, self.version, &mut bytes);
                }
                waiting.closed
            };
            to.write_all(&bytes).await?;
            if closed {
                return to.shutdown().await;
            }
            bytes.clear();
            if bytes.capacity() > MAX_IDLE_CAPACITY {
                bytes = BytesMut::new();
            }
        }
    }
}
