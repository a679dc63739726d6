//! Converts files to text.

use std::io;

/// Converts the content of a file to text, for a file that is about to be changed. Content that is
/// not UTF-8 is refused, because the change would destroy it.
///
/// # Errors
/// `InvalidData`, with the position of the first byte that is not UTF-8.
pub fn text_of(bytes: Vec<u8>) -> io::Result<String> {
    String::from_utf8(bytes)
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error.utf8_error()))
}
