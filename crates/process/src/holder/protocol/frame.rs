//! The bytes of frames and of their fields.

use std::io;

use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::io::{AsyncRead, AsyncReadExt as _};

use super::kind;
use aetheel_model::agent::Pipe;
use aetheel_turn::OutputLine;

/// Bytes of a frame before its body.
const HEADER_BYTES: usize = 5;

/// Returns the error for an invalid frame.
pub(super) fn invalid_frame(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("garbled frame: {what}"))
}

/// Appends a frame whose body `write` writes.
pub(in crate::holder) fn push_frame(out: &mut Vec<u8>, kind: u8, write: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend([0, 0, 0, 0, kind]);
    write(out);
    let length = u32::try_from(out.len() - start - HEADER_BYTES).unwrap_or(u32::MAX);
    out[start..start + 4].copy_from_slice(&length.to_le_bytes());
}

pub(super) fn push_json(out: &mut Vec<u8>, value: &impl Serialize) {
    // Fails only for maps whose keys are not strings, which these types do not contain.
    let _ = serde_json::to_writer(out, value);
}

pub(super) fn push_number(out: &mut Vec<u8>, number: u64) {
    out.extend(number.to_le_bytes());
}

pub(super) fn push_text(out: &mut Vec<u8>, text: &[u8]) {
    out.extend(u32::try_from(text.len()).unwrap_or(u32::MAX).to_le_bytes());
    out.extend(text);
}

/// Reads the fields of a body in order.
pub(super) struct FrameReader<'a>(pub(super) &'a [u8]);

impl<'a> FrameReader<'a> {
    pub(super) fn take(&mut self, count: usize) -> io::Result<&'a [u8]> {
        let (taken, rest) =
            self.0.split_at_checked(count).ok_or_else(|| invalid_frame("it ends too early"))?;
        self.0 = rest;
        Ok(taken)
    }

    pub(super) fn byte(&mut self) -> io::Result<u8> {
        Ok(self.take(1)?[0])
    }

    pub(super) fn length(&mut self) -> io::Result<usize> {
        let bytes = self.take(4)?.try_into().map_err(|_| invalid_frame("a length"))?;
        Ok(u32::from_le_bytes(bytes) as usize)
    }

    pub(super) fn number(&mut self) -> io::Result<u64> {
        let bytes = self.take(8)?.try_into().map_err(|_| invalid_frame("a number"))?;
        Ok(u64::from_le_bytes(bytes))
    }

    pub(super) fn bytes(&mut self) -> io::Result<&'a [u8]> {
        let length = self.length()?;
        self.take(length)
    }

    pub(super) fn text(&mut self) -> io::Result<String> {
        let text =
            str::from_utf8(self.bytes()?).map_err(|_| invalid_frame("text that is not UTF-8"))?;
        Ok(text.to_owned())
    }

    pub(super) fn json<T: DeserializeOwned>(&mut self) -> io::Result<T> {
        let body = std::mem::take(&mut self.0);
        serde_json::from_slice(body).map_err(|error| invalid_frame(&error.to_string()))
    }

    pub(super) fn rest(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.0).to_vec()
    }

    pub(super) fn end(self) -> io::Result<()> {
        if self.0.is_empty() { Ok(()) } else { Err(invalid_frame("it goes on too long")) }
    }
}

/// Appends a line in the form in which it is buffered and sent.
pub(in crate::holder) fn encode_line(out: &mut Vec<u8>, line: &OutputLine) {
    out.push(u8::from(line.pipe == Pipe::Stderr) | u8::from(line.truncated) << 1);
    push_text(out, line.text.as_bytes());
}

/// Reads lines until the end of `bytes`.
///
/// # Errors
/// The bytes are invalid.
pub(in crate::holder) fn decode_lines(bytes: &[u8]) -> io::Result<Vec<OutputLine>> {
    let (mut body, mut lines) = (FrameReader(bytes), Vec::new());
    while !body.0.is_empty() {
        let flags = body.byte()?;
        let pipe = if flags & 1 == 0 { Pipe::Stdout } else { Pipe::Stderr };
        lines.push(OutputLine { pipe, text: body.text()?, truncated: flags & 2 != 0 });
    }
    Ok(lines)
}

/// Returns the bytes of at most `most` lines after the first `skip` lines.
pub(in crate::holder) fn lines_between(bytes: &[u8], skip: u64, most: u64) -> &[u8] {
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
pub(in crate::holder) fn encode_lines(out: &mut Vec<u8>, stream: u64, lines: &[u8]) {
    push_frame(out, kind::LINES, |out| {
        push_number(out, stream);
        out.extend(lines);
    });
}

/// Reads the next frame into `body` and returns its kind, or `None` at the end of the connection.
///
/// # Errors
/// The connection is broken, it ends within a frame, or a body is longer than `most`.
pub(in crate::holder) async fn read_frame(
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
