//! Writes the output of a guest to the operator's log line by line, with a limited size and escaped
//! control characters.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use parking_lot::Mutex;
use wasmtime_wasi::cli::{IsTerminal, StdoutStream};
use wasmtime_wasi::p2::{OutputStream, Pollable, StreamResult};

/// Maximum output of a link that is logged, in bytes. The rest is dropped.
const LOG_MAX: usize = 64 << 10;
/// Maximum length of a line in bytes. A longer line is broken.
const LINE_MAX: usize = 4 << 10;
/// Number of lines kept to explain a crash.
const TAIL_LINES: usize = 4;

#[derive(Clone, Debug)]
pub(super) struct GuestLog(Arc<Mutex<LogBuffer>>);

#[derive(Debug)]
struct LogBuffer {
    backend: Arc<str>,
    generation: Arc<str>,
    stdout: Vec<u8>,
    stderr: Vec<u8>,
    left: usize,
    last: VecDeque<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PrintStream {
    Stdout,
    Stderr,
}

impl GuestLog {
    pub(super) fn new(backend: Arc<str>, generation: Arc<str>) -> Self {
        let lines = LogBuffer {
            backend,
            generation,
            stdout: Vec::new(),
            stderr: Vec::new(),
            left: LOG_MAX,
            last: VecDeque::with_capacity(TAIL_LINES),
        };
        Self(Arc::new(Mutex::new(lines)))
    }

    pub(super) fn stream(&self, printed: PrintStream) -> LogStream {
        LogStream { log: self.clone(), printed }
    }

    /// Returns the end of stderr as one line, which may be empty. It is often the only text about a
    /// crash.
    pub(super) fn stderr_tail(&self) -> String {
        let mut lines = self.0.lock();
        lines.end();
        lines.last.iter().map(String::as_str).collect::<Vec<_>>().join(" | ")
    }

    fn write(&self, printed: PrintStream, bytes: &[u8]) {
        self.0.lock().write(printed, bytes);
    }
}

impl LogBuffer {
    fn write(&mut self, printed: PrintStream, bytes: &[u8]) {
        for line in bytes.split_inclusive(|&byte| byte == b'\n') {
            let mut rest = line;
            while !rest.is_empty() {
                let buffer = if printed == PrintStream::Stdout {
                    &mut self.stdout
                } else {
                    &mut self.stderr
                };
                let (piece, after) = rest.split_at(rest.len().min(LINE_MAX - buffer.len()));
                buffer.extend_from_slice(piece);
                if buffer.len() == LINE_MAX || (after.is_empty() && line.ends_with(b"\n")) {
                    self.emit(printed);
                }
                rest = after;
            }
        }
    }

    /// Emits lines that have no terminator yet.
    fn end(&mut self) {
        self.emit(PrintStream::Stdout);
        self.emit(PrintStream::Stderr);
    }

    fn emit(&mut self, printed: PrintStream) {
        let buffer =
            if printed == PrintStream::Stdout { &mut self.stdout } else { &mut self.stderr };
        let bytes = std::mem::take(buffer);
        let text = escaped(String::from_utf8_lossy(&bytes).trim_end());
        if text.is_empty() {
            return;
        }
        let (backend, generation) = (&*self.backend, &*self.generation);
        if bytes.len() <= self.left {
            self.left -= bytes.len();
            tracing::info!(target: "aetheel::guest", backend, generation, printed = ?printed, "{text}");
        } else if self.left > 0 {
            self.left = 0;
            tracing::warn!(target: "aetheel::guest", backend, generation, "the backend printed more than {LOG_MAX} bytes: the rest is dropped");
        }
        if printed == PrintStream::Stderr {
            if self.last.len() == TAIL_LINES {
                self.last.pop_front();
            }
            self.last.push_back(text.chars().take(200).collect());
        }
    }
}

impl Drop for LogBuffer {
    fn drop(&mut self) {
        self.end();
    }
}

/// Escapes control characters, with which a guest could forge lines or colours in the operator's
/// terminal.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        let reorders = matches!(character, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        if (character.is_control() && character != '\t') || reorders {
            let _ = write!(escaped, "{}", character.escape_unicode());
        } else {
            escaped.push(character);
        }
    }
    escaped
}

/// One of the two streams. It is never full and never fails: wasmtime's own in-memory pipe traps
/// when it is full.
#[derive(Clone, Debug)]
pub(super) struct LogStream {
    log: GuestLog,
    printed: PrintStream,
}

impl IsTerminal for LogStream {
    fn is_terminal(&self) -> bool {
        false
    }
}

impl StdoutStream for LogStream {
    fn async_stream(&self) -> Box<dyn tokio::io::AsyncWrite + Send + Sync> {
        Box::new(self.clone())
    }

    fn p2_stream(&self) -> Box<dyn OutputStream> {
        Box::new(self.clone())
    }
}

#[wasmtime_wasi::async_trait]
impl Pollable for LogStream {
    async fn ready(&mut self) {}
}

#[wasmtime_wasi::async_trait]
impl OutputStream for LogStream {
    fn write(&mut self, bytes: bytes::Bytes) -> StreamResult<()> {
        self.log.write(self.printed, &bytes);
        Ok(())
    }

    fn flush(&mut self) -> StreamResult<()> {
        Ok(())
    }

    fn check_write(&mut self) -> StreamResult<usize> {
        Ok(LOG_MAX)
    }
}

impl tokio::io::AsyncWrite for LogStream {
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.log.write(self.printed, bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log() -> GuestLog {
        GuestLog::new("mini".into(), "1@abc".into())
    }

    fn left(log: &GuestLog) -> usize {
        log.0.lock().left
    }

    #[test]
    fn output_of_a_link_is_limited_but_its_last_lines_are_kept() {
        let log = log();
        let line = format!("{}\n", "x".repeat(999));
        for _ in 0..200 {
            log.write(PrintStream::Stderr, line.as_bytes());
        }
        assert_eq!(left(&log), 0);
        log.write(PrintStream::Stderr, b"panicked at 7\nbecause\n");
        assert!(log.stderr_tail().ends_with("panicked at 7 | because"), "{}", log.stderr_tail());
    }

    #[test]
    fn pieces_of_a_line_are_joined_and_an_endless_line_is_broken() {
        let log = log();
        for piece in ["pan", "icked", " here\r\nand"] {
            log.write(PrintStream::Stderr, piece.as_bytes());
        }
        assert_eq!(log.stderr_tail(), "panicked here | and");
        log.write(PrintStream::Stdout, &[b'y'; 3 * LINE_MAX]);
        let lines = log.0.lock();
        assert!(lines.stdout.len() <= LINE_MAX, "the buffer has {} bytes", lines.stdout.len());
    }

    #[test]
    fn characters_that_could_forge_a_line_or_a_colour_are_escaped() {
        assert_eq!(
            escaped("a\x1b[31m\rb\u{202e}c\td\u{7f}"),
            "a\\u{1b}[31m\\u{d}b\\u{202e}c\td\\u{7f}"
        );
    }
}
