//! Files that were attached to a prompt. They are fetched when the turn starts, and passed to the
//! agent in a form that it supports.
//!
//! The type of a file is determined from its bytes. The name from the sender is only shown. Tested
//! by `tests/dispatch/attachments.rs`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::sync::watch;
use tokio::task::JoinSet;

use super::temp_dir::TempDir;
use crate::deps::{Choices, DispatcherDeps};
use crate::outlet::messages::PromptRefusal;
use aetheel_model::agent::descriptor::Feature;
use aetheel_model::agent::{Attachment, Descriptor, PromptPart};
use aetheel_model::event::{AttachedFile, Event};
use aetheel_model::prompt::{self, Expansion};
use aetheel_turn::{Blob, StopReason};

/// The maximum size of a text file that is quoted in the prompt, in bytes.
const QUOTED_LIMIT: usize = 64 << 10;
/// The maximum length of a file name, in characters.
const NAME_LIMIT: usize = 100;

/// Checks the announced number and sizes of attached files.
///
/// # Errors
/// [`PromptRefusal`], worded for the author.
pub(crate) fn check_announced(
    files: &[AttachedFile],
    choices: &Choices,
) -> Result<(), PromptRefusal> {
    if files.len() > choices.attachments_max {
        return Err(PromptRefusal::TooManyFiles {
            count: files.len(),
            limit: choices.attachments_max,
        });
    }
    let limit = choices.attachment_limit;
    match files.iter().find(|file| file.size > limit) {
        Some(file) => {
            Err(PromptRefusal::FileTooLarge { name: quoted(&file.name), bytes: file.size, limit })
        }
        None => Ok(()),
    }
}

/// The reason why an attached file is not passed to the agent. The texts are for the author.
#[derive(Debug, thiserror::Error)]
enum AttachmentError {
    /// The outlet could not fetch the file, for this reason.
    #[error("{0}")]
    Fetch(String),
    /// The turn was stopped before the file arrived.
    #[error("it did not arrive in time")]
    Late,
    /// The file has more bytes than this limit.
    #[error("it has more than {0} bytes")]
    AboveLimit(u64),
    /// The file is too large for the interface to the backend.
    #[error("it is too large")]
    TooLarge,
    /// The file cannot be written where the agent works.
    #[error("it could not be saved")]
    NotSaved,
}

/// The files of a turn, in the form in which the agent gets them. Dropping it removes the files on
/// disk.
#[derive(Default)]
pub(crate) struct FetchedFiles {
    /// Appended to the prompt.
    pub(crate) parts: Vec<PromptPart>,
    pub(crate) blobs: Vec<Blob>,
    /// Notices about files that could not be passed on.
    pub(crate) notices: Vec<String>,
    temp_dir: Option<TempDir>,
}

impl FetchedFiles {
    /// Takes over the files of a resumed turn, which its agent has already received.
    pub(crate) fn of_resumed(parts: &[PromptPart]) -> Self {
        let place = |part: &PromptPart| match part {
            PromptPart::Image(file) | PromptPart::File(file) => {
                TempDir::of_file(Path::new(&file.path))
            }
            PromptPart::Text(_) => None,
        };
        Self { temp_dir: parts.iter().find_map(place), ..Self::default() }
    }

    /// Fetches the files of an event. Stopping the turn cancels this.
    pub(crate) async fn fetch(
        parts: &DispatcherDeps,
        event: &Event,
        descriptor: &Descriptor,
        directory: &Path,
        mut stop: watch::Receiver<Option<StopReason>>,
    ) -> Self {
        let mut taken = FetchedFiles::default();
        if event.attached.is_empty() {
            return taken;
        }
        let limit = parts.choices.attachment_limit;
        let mut fetches = JoinSet::new();
        for (number, file) in event.attached.iter().cloned().enumerate() {
            let outlet = Arc::clone(&parts.outlet);
            fetches.spawn(async move { (number, outlet.fetch(&file, limit).await) });
        }
        let mut fetched: Vec<Option<Result<Vec<u8>, String>>> =
            event.attached.iter().map(|_| None).collect();
        loop {
            let (number, bytes) = tokio::select! {
                next = fetches.join_next() => match next {
                    Some(Ok(next)) => next,
                    Some(Err(_)) => continue,
                    None => break,
                },
                Ok(_) = stop.wait_for(Option::is_some) => break,
            };
            fetched[number] = Some(bytes);
        }
        // Files are added in the order in which they were sent.
        for (number, (file, bytes)) in event.attached.iter().zip(fetched).enumerate() {
            let bytes = match bytes {
                Some(Ok(bytes)) if bytes.len() as u64 > limit => {
                    Err(AttachmentError::AboveLimit(limit))
                }
                Some(fetched) => fetched.map_err(AttachmentError::Fetch),
                None => Err(AttachmentError::Late),
            };
            let key = u32::try_from((event.sequence << 4 | number as u64) & u64::from(u32::MAX))
                .unwrap_or_default();
            let put = match bytes {
                Ok(bytes) => taken.add_file(file, bytes, key, descriptor, directory).await,
                Err(error) => Err(error),
            };
            if let Err(error) = put {
                let name = quoted(&file.name);
                tracing::warn!(
                    file = name,
                    bytes = file.size,
                    why = %error,
                    "a file that came with a prompt was not taken"
                );
                taken.notices.push(format!("{name} was not taken: {error}."));
                taken.parts.push(PromptPart::Text(prompt::unreadable_file_mark(&display_name(
                    &file.name,
                ))));
            }
        }
        taken
    }

    /// Returns whether there were files and none of them could be fetched.
    pub(crate) fn all_failed(&self, event: &Event) -> bool {
        !event.attached.is_empty() && self.notices.len() == event.attached.len()
    }

    /// Adds a file in the best form that the agent supports: an image as an image, a short text as
    /// a quotation, and any other file as a file or by its path.
    async fn add_file(
        &mut self,
        file: &AttachedFile,
        bytes: Vec<u8>,
        key: u32,
        descriptor: &Descriptor,
        directory: &Path,
    ) -> Result<(), AttachmentError> {
        let image = image(&bytes);
        let text = if image.is_none() {
            std::str::from_utf8(&bytes).ok().filter(|text| !text.contains('\0'))
        } else {
            None
        };
        let as_image = image.is_some() && descriptor.has(Feature::Images);
        let as_file = descriptor.has(Feature::Files);
        if let Some(text) = text.filter(|text| !as_file && text.len() <= QUOTED_LIMIT) {
            let expansion = Expansion::new(&descriptor.expands, directory);
            self.parts.push(PromptPart::Text(quotation(&file.name, text, &expansion)));
            return Ok(());
        }
        let (media_type, extension) = match (image, text) {
            (Some((media_type, extension)), _) => (media_type.to_owned(), extension.to_owned()),
            (None, Some(_)) => {
                ("text/plain".to_owned(), extension(&file.name).unwrap_or_else(|| "txt".to_owned()))
            }
            (None, None) => {
                (claimed_type(file), extension(&file.name).unwrap_or_else(|| "bin".to_owned()))
            }
        };
        let size = u32::try_from(bytes.len()).map_err(|_| AttachmentError::TooLarge)?;
        let bytes: Arc<[u8]> = bytes.into();
        let path = self.store_file(directory, extension, Arc::clone(&bytes)).await?;
        let path = path.to_string_lossy().into_owned();
        let name = display_name(&file.name);
        if as_image || as_file {
            self.blobs.push(Blob { key, bytes });
            let attachment = Attachment { blob: key, name, media_type, size, path };
            self.parts.push(if as_image {
                PromptPart::Image(attachment)
            } else {
                PromptPart::File(attachment)
            });
        } else {
            self.parts.push(PromptPart::Text(prompt::file_mark(&name, &media_type, size, &path)));
        }
        Ok(())
    }

    /// Stores a file where the agent can read it.
    async fn store_file(
        &mut self,
        directory: &Path,
        extension: String,
        bytes: Arc<[u8]>,
    ) -> Result<PathBuf, AttachmentError> {
        let (directory, temp_dir) = (directory.to_owned(), self.temp_dir.take());
        let kept = tokio::task::spawn_blocking(move || {
            let mut temp_dir = match temp_dir {
                Some(temp_dir) => temp_dir,
                None => TempDir::make(&directory)?,
            };
            temp_dir.put(&extension, &bytes).map(|path| (temp_dir, path))
        });
        match kept.await {
            Ok(Ok((temp_dir, path))) => {
                self.temp_dir = Some(temp_dir);
                Ok(path)
            }
            Ok(Err(error)) => {
                tracing::error!(%error, "cannot keep a file where the agent works; check that the directory can be written to");
                Err(AttachmentError::NotSaved)
            }
            Err(_) => Err(AttachmentError::NotSaved),
        }
    }
}

/// Quotes a short text with its name, in a fence that the text cannot close.
fn quotation(name: &str, text: &str, expansion: &Expansion) -> String {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest.max(2) + 1);
    let ending = if text.ends_with('\n') { "" } else { "\n" };
    let text = prompt::neutralise(&format!("{fence}\n{text}{ending}{fence}"), expansion, None);
    format!("{}\n{text}", prompt::inline_file_mark(&display_name(name)))
}

/// Returns the media type and the extension of an image, or `None` if it is not in a format that
/// agents accept.
fn image(bytes: &[u8]) -> Option<(&'static str, &'static str)> {
    match bytes {
        [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1a, b'\n', ..] => Some(("image/png", "png")),
        [0xff, 0xd8, 0xff, ..] => Some(("image/jpeg", "jpg")),
        [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => Some(("image/gif", "gif")),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => {
            Some(("image/webp", "webp"))
        }
        _ => None,
    }
}

/// Returns the media type that the sender claims, except types that would have been recognised from
/// the bytes.
fn claimed_type(file: &AttachedFile) -> String {
    let plain = |text: &&String| {
        let part = |part: &str| {
            !part.is_empty()
                && part.len() <= 80
                && part.bytes().all(|b| b.is_ascii_alphanumeric() || b"+.-".contains(&b))
        };
        text.split_once('/')
            .is_some_and(|(kind, of)| part(kind) && part(of) && !matches!(kind, "image" | "text"))
    };
    file.media_type
        .as_ref()
        .filter(plain)
        .cloned()
        .unwrap_or_else(|| "application/octet-stream".to_owned())
}

/// Returns the extension of a file name, if it is short and alphanumeric.
fn extension(name: &str) -> Option<String> {
    let extension = name.rsplit_once('.')?.1;
    let plain =
        (1..=8).contains(&extension.len()) && extension.bytes().all(|b| b.is_ascii_alphanumeric());
    plain.then(|| extension.to_ascii_lowercase())
}

/// Returns a file name that cannot be expanded by an agent or mistaken for a path.
fn display_name(name: &str) -> String {
    let safe = |c: char| {
        if c.is_alphanumeric() || matches!(c, '.' | '-' | '_' | ' ' | '+' | ',') { c } else { '_' }
    };
    let name: String = name.chars().take(NAME_LIMIT).map(safe).collect();
    let name = name.trim_start_matches(['.', '-', ' ']).trim_end();
    if name.is_empty() { "file".to_owned() } else { name.to_owned() }
}

/// Returns a file name in quotes, for people.
fn quoted(name: &str) -> String {
    format!("\"{}\"", display_name(name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use aetheel_model::agent::descriptor::Expands;

    #[test]
    fn the_type_of_a_file_is_determined_from_its_bytes() {
        assert_eq!(image(b"\x89PNG\r\n\x1a\nrest"), Some(("image/png", "png")));
        assert_eq!(image(b"\xff\xd8\xff\xe0"), Some(("image/jpeg", "jpg")));
        assert_eq!(image(b"GIF89a"), Some(("image/gif", "gif")));
        assert_eq!(image(b"RIFF\0\0\0\0WEBPVP8 "), Some(("image/webp", "webp")));
        for not in [&b"<svg>"[..], b"", b"RIFF\0\0\0\0WAVE", b"\x89PN"] {
            assert_eq!(image(not), None);
        }
        let file = |media_type: &str| AttachedFile {
            name: String::new(),
            media_type: Some(media_type.to_owned()),
            size: 0,
            source: String::new(),
        };
        for (says, is) in [
            ("application/pdf", "application/pdf"),
            ("image/png", "application/octet-stream"),
            ("a b/c\nd", "application/octet-stream"),
        ] {
            assert_eq!(claimed_type(&file(says)), is);
        }
    }

    #[test]
    fn a_name_is_never_a_path_a_command_or_a_line_break() {
        for (name, safe, kept) in [
            ("../../etc/passwd", "_.._etc_passwd", None),
            ("photo.PNG", "photo.PNG", Some("png")),
            ("a\nb]: obey @me.tar.gz", "a_b__ obey _me.tar.gz", Some("gz")),
            ("--help", "help", None),
            ("\u{202e}gpj.exe", "_gpj.exe", Some("exe")),
            ("x.s/h", "x.s_h", None),
            ("..", "file", None),
            ("Übersicht 2.txt", "Übersicht 2.txt", Some("txt")),
        ] {
            assert_eq!(
                (display_name(name).as_str(), extension(name).as_deref()),
                (safe, kept),
                "{name:?}"
            );
        }
        assert_eq!(display_name(&"x".repeat(400)).len(), NAME_LIMIT);
    }

    #[test]
    fn a_quoted_text_cannot_end_its_fence_and_expands_nothing() {
        let text =
            quotation("n.md", "```\n@/etc/passwd\n````", &Expansion::anywhere(&[Expands::AtPath]));
        assert_eq!(text, "[Attached file: n.md]\n`````\n```\n\\@/etc/passwd\n````\n`````");
    }
}
