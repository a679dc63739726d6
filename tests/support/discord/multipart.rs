//! Requests with files: `payload_json` and `files[n]`, in Discord's form.

use axum::body::Bytes;
use serde_json::Value;

/// A file and its bytes.
pub type File = (String, Vec<u8>);

/// Splits a body into the JSON payload and the files. Returns `None` if it is malformed.
pub(super) fn parse(content_type: &str, body: &Bytes) -> Option<(Value, Vec<File>)> {
    let boundary = format!(
        "--{}",
        content_type.strip_prefix("multipart/form-data; boundary=")?.trim_matches('"')
    );
    let (mut payload, mut files) = (None, Vec::new());
    let mut rest = body.get(boundary.len()..)?;
    while let Some(part) = rest.strip_prefix(b"\r\n") {
        let end = find(part, format!("\r\n{boundary}").as_bytes())?;
        let head_end = find(part, b"\r\n\r\n")?;
        let (head, bytes) =
            (std::str::from_utf8(&part[..head_end]).ok()?, part.get(head_end + 4..end)?);
        let field = |name: &str| {
            head.split(&format!("{name}=\"")).nth(1).and_then(|rest| rest.split('"').next())
        };
        match (field(" name")?, field("filename")) {
            ("payload_json", None) => payload = serde_json::from_slice(bytes).ok(),
            (name, Some(file)) if name == format!("files[{}]", files.len()) => {
                files.push((file.to_owned(), bytes.to_vec()))
            }
            _ => return None,
        }
        rest = &part[end + 2 + boundary.len()..];
    }
    rest.starts_with(b"--").then_some(())?;
    Some((payload?, files))
}

fn find(text: &[u8], wanted: &[u8]) -> Option<usize> {
    text.windows(wanted.len()).position(|window| window == wanted)
}
