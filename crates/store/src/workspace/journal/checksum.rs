//! The checksum at the end of a line of `state/queue.md`. Pure.

use sha2::{Digest as _, Sha256};

use aetheel_model::plain::hex;

pub(super) fn with_checksum(mut content: String) -> String {
    let check = check(&content);
    content.push_str(" `#");
    content.push_str(&check);
    content.push('`');
    content
}

/// Returns the part of a line before its checksum.
pub(super) fn content_of(line: &str) -> &str {
    line.rsplit_once(" `#").map_or(line, |(content, _)| content)
}

/// Returns whether a line, given without its end, has a matching checksum, so that it is complete.
pub(super) fn is_checked(line: &str) -> bool {
    let parts = line
        .trim_end()
        .rsplit_once(" `#")
        .and_then(|(content, noted)| Some((content, noted.strip_suffix('`')?)));
    parts.is_some_and(|(content, noted)| noted == check(content))
}

/// Computes a line's checksum: the first 4 bytes of its SHA-256 in hex.
pub(super) fn check(content: &str) -> String {
    hex(&Sha256::digest(content)[..4])
}
