//! The files of the system prompt: which of them may be missing, and the replacement for one that
//! cannot be read.

use std::path::PathBuf;

use super::stable_read::{self, ReadOutcome, ReadRequest};
use super::{DOCUMENT_LIMIT, FileError, WorkspaceInner, memory};
use aetheel_model::prompt::{Document, Documents};

impl WorkspaceInner {
    pub(super) fn path(&self, document: Document) -> PathBuf {
        self.folder.join(document.file())
    }

    /// Returns an error if a file of the system prompt exists but cannot be read, because the agent
    /// would work without the operator's instructions.
    pub(super) fn require_documents(&self) -> Result<(), FileError> {
        for path in Document::ALL.map(|document| self.path(document)) {
            stable_read::open(&path).map_err(|error| {
                let hint = "the agent must not work without its content: check its owner, its \
                            mode, and what it links to; or delete it";
                let source = std::io::Error::new(error.kind(), format!("{error}; hint: {hint}"));
                FileError::new("read", &path, source)
            })?;
        }
        Ok(())
    }

    /// Reads all documents; see [`Workspace::read_documents`](super::Workspace::read_documents).
    pub(super) fn read(&self) -> Documents {
        let known = self.last_texts.lock().clone();
        let outcomes = {
            let _nobody_appends = self.appending.read();
            let appended = *self.memory_stamp.lock();
            let wants = Document::ALL.map(|document| ReadRequest {
                path: self.path(document),
                limit: DOCUMENT_LIMIT,
                keep_end: document == Document::Memory,
                expected: known[document as usize].is_some(),
                ours: appended.filter(|_| document == Document::Memory),
            });
            stable_read::read(&wants)
        };
        let mut documents = Documents::default();
        let mut last = self.last_texts.lock();
        for (document, outcome) in Document::ALL.into_iter().zip(outcomes) {
            let file = document.file();
            let last = &mut last[document as usize];
            match outcome {
                ReadOutcome::Whole(whole) => {
                    if whole.cut {
                        let part = if document == Document::Memory { "last" } else { "first" };
                        documents.warnings.push(format!(
                            "{file} is larger than 1 MiB: only the {part} MiB is used"
                        ));
                    }
                    let (text, valid) = whole.text();
                    if !valid {
                        documents.warnings.push(format!(
                            "{file} is not valid UTF-8: invalid bytes are shown as \u{fffd}"
                        ));
                    }
                    *last = Some(text);
                }
                ReadOutcome::Missing if document == Document::Memory => {
                    match memory::create(&self.path(document)) {
                        Ok(()) => *last = Some(memory::HEADER.to_owned()),
                        Err(error) => {
                            documents.warnings.push(format!(
                                "{file} is missing and cannot be created: {}",
                                error.source
                            ));
                            *last = None;
                        }
                    }
                }
                ReadOutcome::Missing => *last = None,
                ReadOutcome::Unsettled => {
                    documents
                        .warnings
                        .push(format!("{file} keeps changing: its last complete text is used"));
                }
                ReadOutcome::Failed(error) => {
                    documents.warnings.push(format!(
                        "{file} cannot be read: {error}; its last complete text is used"
                    ));
                }
            }
            documents.set(document, last.clone());
        }
        documents
    }
}
