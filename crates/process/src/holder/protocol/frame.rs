//! Frames: the length of the body (four bytes, little-endian), the kind (one byte) and the body. The
//! kind is the first byte of the message. Memory is allocated only for bytes that were received.

use std::io;

use bytes::BytesMut;
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio_util::codec::{Decoder as _, Encoder as _, LengthDelimitedCodec};

use super::MAX_FRAME_BYTES;

const HEADER_BYTES: usize = 5;
/// Free space of the read buffer, and the largest frame whose memory is kept.
const READ_BUFFER_BYTES: usize = 64 << 10;

pub(super) fn invalid_frame(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("garbled frame: {what}"))
}

/// Returns a codec for bodies of at most `max_bytes` bytes.
fn codec(max_bytes: usize) -> LengthDelimitedCodec {
    LengthDelimitedCodec::builder()
        .little_endian()
        .length_field_type::<u32>()
        .length_adjustment(1)
        .max_frame_length(max_bytes)
        .new_codec()
}

pub(super) fn push_frame(out: &mut BytesMut, message: &[u8]) {
    codec(MAX_FRAME_BYTES).encode(message, out).expect("no message is longer than the limit");
}

#[derive(Debug)]
pub(in crate::holder) struct FrameReader<R> {
    from: R,
    codec: LengthDelimitedCodec,
    buffer: BytesMut,
}

impl<R: AsyncRead + Unpin> FrameReader<R> {
    /// Creates a reader that refuses bodies of more than `max_bytes` bytes.
    pub(in crate::holder) fn new(from: R, max_bytes: usize) -> Self {
        Self { from, codec: codec(max_bytes), buffer: BytesMut::new() }
    }

    pub(in crate::holder) fn set_limit(&mut self, max_bytes: usize) {
        self.codec.set_max_frame_length(max_bytes);
    }

    #[cfg(test)]
    pub(super) fn capacity(&self) -> usize {
        self.buffer.capacity()
    }

    /// Returns the message of the next frame, or `None` at the end of the connection.
    ///
    /// # Errors
    /// The connection is broken, it ends within a frame, or a body is too long.
    pub(in crate::holder) async fn next(&mut self) -> io::Result<Option<BytesMut>> {
        loop {
            let length = self.buffer.first_chunk().map_or(0, |length| u32::from_le_bytes(*length));
            let is_complete = self.buffer.len() >= HEADER_BYTES + length as usize;
            // The codec reserves memory for the whole frame, so it gets only complete frames, and
            // those that it refuses.
            if is_complete || length as usize > self.codec.max_frame_length() {
                let message = self.codec.decode(&mut self.buffer)?;
                if message.as_ref().is_some_and(|message| message.len() > READ_BUFFER_BYTES) {
                    // Frees the memory of the frame together with the message.
                    self.buffer = BytesMut::from(&self.buffer[..]);
                }
                return Ok(message);
            }
            self.buffer.reserve(READ_BUFFER_BYTES);
            if self.from.read_buf(&mut self.buffer).await? == 0 {
                let is_partial = !self.buffer.is_empty();
                return if is_partial {
                    Err(io::ErrorKind::UnexpectedEof.into())
                } else {
                    Ok(None)
                };
            }
        }
    }
}
