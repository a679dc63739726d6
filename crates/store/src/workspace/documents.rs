//! The files of the system prompt: which of them may be missing, and the replacement for one that
//! cannot be read.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use parking_lot::{Mutex, RwLock};

use super::stable_read::{self, FileSnapshot, ReadOutcome, ReadRequest};
use super::{FileError, memory};
use crate::disk::Stamp;
use aetheel_model::prompt::{Document, Documents};

/// Maximum number of bytes read of a document: the last ones of `memory.md`, and the first ones of
/// other files.
pub const DOCUMENT_LIMIT: u64 = 1 << 20;

/// The last complete text of a document, for when it has not changed or cannot be read.
#[derive(Debug)]
pub(super) struct KnownDocument {
    text: String,
    warnings: Vec<String>,
    /// The stamp that the file has until its next change.
    stamp: Option<Stamp>,
}

impl KnownDocument {
    fn new(document: Document, whole: FileSnapshot) -> Self {
        let file = document.file();
        let stamp = whole.rested.then_some(whole.stamp);
        let mut warnings = Vec::new();
        if whole.cut {
            let part = if document == Document::Memory { "last" } else { "first" };
            warnings.push(format!("{file} is larger than 1 MiB: only the {part} MiB is used"));
        }
        let (text, valid) = whole.text();
        if !valid {
            warnings
                .push(format!("{file} is not valid UTF-8: invalid bytes are shown as \u{fffd}"));
        }
        Self { text, warnings, stamp }
    }

    /// Returns a text that is not in a file with a known stamp.
    fn unstamped(text: &str) -> Self {
        Self { text: text.to_owned(), warnings: Vec::new(), stamp: None }
    }
}

/// The documents of a configuration folder, and the agent's notes in it.
#[derive(Debug)]
pub(super) struct DocumentFolder {
    pub(super) folder: PathBuf,
    /// Locked for writing while this program appends, so that its own reads never see half an
    /// append.
    pub(super) appending: RwLock<()>,
    /// The stamp of `memory.md` after this program's last append.
    pub(super) memory_stamp: Mutex<Option<Stamp>>,
    /// The stamps of the files below `memory/` after this program's last appends.
    pub(super) notes_stamps: Mutex<HashMap<PathBuf, Stamp>>,
    pub(super) known: Mutex<[Option<Arc<KnownDocument>>; 6]>,
}

impl DocumentFolder {
    pub(super) fn new(folder: PathBuf) -> Self {
        Self {
            folder,
            appending: RwLock::new(()),
            memory_stamp: Mutex::default(),
            notes_stamps: Mutex::default(),
            known: Mutex::default(),
        }
    }

    pub(super) fn path(&self, document: Document) -> PathBuf {
        self.folder.join(document.file())
    }

    /// Returns an error if a file of the system prompt exists but cannot be read, because the agent
    /// would work without the operator's instructions.
    pub(super) fn require(&self) -> Result<(), FileError> {
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

    /// Reads all documents; see
    /// [`Workspace::read_documents_in`](super::Workspace::read_documents_in).
    pub(super) fn read(&self) -> Documents {
        let known = self.known.lock().clone();
        let mut outcomes = [const { None }; Document::ALL.len()];
        {
            let _nobody_appends = self.appending.read();
            let appended = *self.memory_stamp.lock();
            let is_unchanged = |document: &Document| {
                let stamp = known[*document as usize].as_ref().and_then(|known| known.stamp);
                stamp.is_some()
                    && stable_read::stamp(&self.path(*document)).is_ok_and(|now| now == stamp)
            };
            let changed: Vec<Document> =
                Document::ALL.into_iter().filter(|document| !is_unchanged(document)).collect();
            let request = |document: &Document| ReadRequest {
                path: self.path(*document),
                limit: DOCUMENT_LIMIT,
                keep_end: *document == Document::Memory,
                expected: known[*document as usize].is_some(),
                ours: appended.filter(|_| *document == Document::Memory),
                shrinks_below: 0,
                now: std::time::SystemTime::now,
            };
            let wants: Vec<ReadRequest> = changed.iter().map(request).collect();
            for (document, outcome) in changed.into_iter().zip(stable_read::read(&wants)) {
                outcomes[document as usize] = Some(outcome);
            }
        }
        let mut documents = Documents::default();
        for ((document, outcome), mut last) in Document::ALL.into_iter().zip(outcomes).zip(known) {
            let file = document.file();
            let is_read = outcome.is_some();
            match outcome {
                None => {}
                Some(ReadOutcome::Whole(whole)) => {
                    last = Some(Arc::new(KnownDocument::new(document, whole)));
                }
                Some(ReadOutcome::Missing) if document == Document::Memory => {
                    match memory::create(&self.path(document)) {
                        Ok(()) => last = Some(Arc::new(KnownDocument::unstamped(memory::HEADER))),
                        Err(error) => {
                            documents.warnings.push(format!(
                                "{file} is missing and cannot be created: {}",
                                error.source
                            ));
                            last = None;
                        }
                    }
                }
                Some(ReadOutcome::Missing) => last = None,
                Some(ReadOutcome::Unsettled) => {
                    documents
                        .warnings
                        .push(format!("{file} keeps changing: its last complete text is used"));
                    documents.set(document, last.map(|known| known.text.clone()));
                    continue;
                }
                Some(ReadOutcome::Failed(error)) => {
                    documents.warnings.push(format!(
                        "{file} cannot be read: {error}; its last complete text is used"
                    ));
                    documents.set(document, last.map(|known| known.text.clone()));
                    continue;
                }
            }
            if let Some(known) = &last {
                documents.warnings.extend(known.warnings.iter().cloned());
            }
            documents.set(document, last.as_ref().map(|known| known.text.clone()));
            if is_read {
                self.known.lock()[document as usize] = last;
            }
        }
        documents
    }

    /// Appends text to `memory.md`.
    pub(super) fn append_memory(&self, text: &str) -> Result<(), FileError> {
        let _alone = self.appending.write();
        *self.memory_stamp.lock() = memory::append(&self.path(Document::Memory), text)?;
        Ok(())
    }
}
