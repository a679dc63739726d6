//! State files: markdown lists that the gateway writes and that a person can read and edit.
//!
//! [`StateFile`] reads and writes the file of one kind of entry. A kind is a struct with a
//! [`StateEntry`], which names its file and the form of its lines.

pub(super) mod lanes;
mod ledger;
mod line;

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::path::Path;
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};

pub(super) use self::ledger::{LedgerFile, line_of, parse_entries};
pub use self::line::{EntryError, Token};
pub(super) use self::line::{EntryValue, LineForm, code, entry_fields, parse_tokens, read_sha256};
use super::FileError;
use super::blocking::blocking;

/// A kind of entry, which has its own file.
pub trait StateEntry: Clone + Debug + PartialEq + Send + 'static {
    /// The values by which entries differ.
    type Key: Ord + Clone + Debug + Send + 'static;
    /// The name of the file in `state/`.
    const FILE: &'static str;
    /// The first lines of a new file.
    const HEADING: &'static str;

    /// Returns its key.
    fn key(&self) -> Self::Key;

    /// Returns its list item without the dash.
    fn write(&self) -> String;

    /// Parses the tokens of a list item. The first one is a code span.
    ///
    /// # Errors
    /// [`EntryError`] is the reason why the item stays in the file but is left out.
    fn parse(tokens: &[Token]) -> Result<Self, EntryError>;

    /// Removes the entries beyond the maximum, before the file is written.
    fn trim(entries: &mut BTreeMap<Self::Key, Self>) {
        let _ = entries;
    }
}

/// The file of one kind of entry. Cheap to clone; clones share everything.
#[derive(Clone, Debug)]
pub struct StateFile<T: StateEntry>(Arc<Mutex<LedgerFile<T>>>);

impl<T: StateEntry> StateFile<T> {
    /// Opens the file in a `state` folder; a missing file is empty. Blocks.
    ///
    /// # Errors
    /// [`FileError`] if the file cannot be read.
    pub fn open(state: &Path) -> Result<Self, FileError> {
        let file = LedgerFile::open(&state.join(T::FILE), T::HEADING)?;
        Ok(Self(Arc::new(Mutex::new(file))))
    }

    /// Opens the file of a configuration folder; a missing file is empty.
    ///
    /// # Errors
    /// [`FileError`] if the file cannot be read.
    pub async fn load(folder: &Path) -> Result<Self, FileError> {
        let state = folder.join("state");
        blocking(move || Self::open(&state)).await
    }

    /// Reads the entries in a configuration folder without changing anything. Blocks.
    ///
    /// # Errors
    /// [`FileError`] if the file cannot be read.
    pub fn read_folder(folder: &Path) -> Result<Vec<T>, FileError> {
        Ok(Self::open(&folder.join("state"))?.all())
    }

    /// Returns all entries, as the file was last read or written. Does no I/O.
    #[must_use]
    pub fn all(&self) -> Vec<T> {
        self.0.lock().entries.values().cloned().collect()
    }

    /// Returns the entry with this key, as the file was last read or written. Does no I/O.
    #[must_use]
    pub fn get(&self, key: &T::Key) -> Option<T> {
        self.0.lock().entries.get(key).cloned()
    }

    /// Returns the parts of the file that could not be read, as it was last read. Does no I/O.
    #[must_use]
    pub fn warnings(&self) -> Vec<String> {
        self.0.lock().warnings.clone()
    }

    /// Returns all entries. Reads the file again if another program changed it.
    pub async fn read(&self) -> Vec<T> {
        self.find(|_| true).await
    }

    /// Returns the entries for which `wanted` returns true. Reads the file again if another program
    /// changed it.
    pub async fn find(&self, wanted: impl Fn(&T) -> bool + Send + 'static) -> Vec<T> {
        self.look(move |file| {
            file.entries.values().filter(|entry| wanted(entry)).cloned().collect()
        })
        .await
    }

    /// Saves an entry in place of the previous one with its key.
    ///
    /// # Errors
    /// [`FileError`]; the entry is in force until the process ends.
    pub async fn save(&self, entry: T) -> Result<(), FileError> {
        self.save_all(vec![entry]).await
    }

    /// Saves entries in place of the previous ones with their keys.
    ///
    /// # Errors
    /// [`FileError`]; the entries are in force until the process ends.
    pub async fn save_all(&self, saved: Vec<T>) -> Result<(), FileError> {
        let saved = saved.into_iter().map(|entry| (entry.key(), entry));
        self.change(move |entries| entries.extend(saved)).await
    }

    /// Saves an entry in place of the previous one with its key, or leaves that in force.
    ///
    /// # Errors
    /// [`FileError`]; the previous entry is in force.
    pub async fn try_save(&self, entry: T) -> Result<(), FileError> {
        self.try_change(move |entries| {
            entries.insert(entry.key(), entry);
            Ok(())
        })
        .await
    }

    /// Removes an entry, if there is one with this key.
    ///
    /// # Errors
    /// [`FileError`]; the entry is no longer in force until the process ends.
    pub async fn remove(&self, key: T::Key) -> Result<(), FileError> {
        self.change(move |entries| drop(entries.remove(&key))).await
    }

    /// Changes the entries by their keys, and returns once the result is on disk.
    ///
    /// # Errors
    /// [`FileError`]; the change is in force until the process ends, and is written with the next
    /// one.
    pub async fn change<R: Send + 'static>(
        &self,
        change: impl FnOnce(&mut BTreeMap<T::Key, T>) -> R + Send + 'static,
    ) -> Result<R, FileError> {
        let file = self.clone();
        blocking(move || file.0.lock().change(change)).await
    }

    /// Changes the entries by their keys, unless `change` fails or the result cannot be saved.
    ///
    /// # Errors
    /// The error of `change` or of the file; nothing was changed.
    pub async fn try_change<R: Send + 'static, E: From<FileError> + Send + 'static>(
        &self,
        change: impl FnOnce(&mut BTreeMap<T::Key, T>) -> Result<R, E> + Send + 'static,
    ) -> Result<R, E> {
        let file = self.clone();
        blocking(move || file.0.lock().try_change(change)).await
    }

    /// Looks at the file, which is read again if another program changed it.
    pub(super) async fn look<R: Send + 'static>(
        &self,
        look: impl FnOnce(&LedgerFile<T>) -> R + Send + 'static,
    ) -> R {
        let file = self.clone();
        blocking(move || {
            let mut file = file.0.lock();
            file.refresh_or_warn();
            look(&file)
        })
        .await
    }

    /// Reads the file again if another program changed it, and lets `write` change it.
    pub(super) async fn write<R: Send + 'static, E: From<FileError> + Send + 'static>(
        &self,
        write: impl FnOnce(&mut LedgerFile<T>) -> Result<R, E> + Send + 'static,
    ) -> Result<R, E> {
        let file = self.clone();
        blocking(move || {
            let mut file = file.0.lock();
            file.refresh()?;
            write(&mut file)
        })
        .await
    }

    /// Locks the file as it was last read or written.
    pub(super) fn lock(&self) -> MutexGuard<'_, LedgerFile<T>> {
        self.0.lock()
    }
}

#[cfg(test)]
mod tests;
