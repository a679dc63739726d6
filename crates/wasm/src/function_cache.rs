//! Keeps the compiled functions of earlier components, so that a new version of a component compiles
//! only the functions that changed.
//!
//! Wasmtime's own cache keeps whole components. This one keeps functions, in one file beside it, and
//! is in memory only while a component is compiled. The keys are digests of a function and of the
//! compiler's settings, so a component cannot change the code of another one.

use std::borrow::Cow;
use std::collections::HashMap;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use aetheel_runtime::ordinary::read_ordinary;
use aetheel_store::disk::{replace, sweep_temporary};

/// Name of the file in the folder for compiled code.
const FILE: &str = "functions";
/// Begins the file. A file with another beginning is replaced.
const MAGIC: &[u8] = b"aetheel functions 1\n";
/// Maximum size of the file. The functions that were not used for the longest time are dropped. The
/// shipped backends need 9 MiB, and a backend in Python 40 MiB.
const MAX_BYTES: usize = 64 << 20;

/// Age at which an unfinished file is removed.
const ABANDONED: Duration = Duration::from_secs(60 * 60);

#[derive(Debug)]
pub(super) struct FunctionCache {
    path: PathBuf,
    functions: Mutex<LoadedFunctions>,
}

#[derive(Debug, Default)]
struct LoadedFunctions {
    compilations: usize,
    /// Whether the file was read. Compilations that find their whole component in wasmtime's cache
    /// do not read it.
    loaded: bool,
    /// Functions that were found.
    reused: usize,
    /// Functions that were added.
    compiled: usize,
    /// Number of functions that were found or added so far.
    uses: u64,
    /// The content of the file. One allocation, so that its memory is returned to the system.
    file: Vec<u8>,
    by_key: HashMap<Vec<u8>, CompiledFunction>,
}

#[derive(Debug)]
struct CompiledFunction {
    code: FunctionCode,
    /// The value of [`LoadedFunctions::uses`] at its last use.
    used: u64,
}

#[derive(Debug)]
enum FunctionCode {
    /// A part of the file.
    Kept(Range<usize>),
    New(Vec<u8>),
}

/// A compilation that may use the functions. When the last one ends, the functions are written to
/// the file and dropped.
pub(super) struct Compilation(Arc<FunctionCache>);

impl FunctionCache {
    /// Returns the cache in this folder, which nobody else may write to.
    pub(super) fn new(folder: &Path) -> Arc<Self> {
        // A program that ends does not wait for its compilations.
        sweep_temporary(folder, ABANDONED);
        Arc::new(Self { path: folder.join(FILE), functions: Mutex::default() })
    }

    /// Must be kept while a component is compiled. Dropping it blocks.
    pub(super) fn begin(self: &Arc<Self>) -> Compilation {
        self.functions.lock().compilations += 1;
        Compilation(self.clone())
    }

    /// Returns how many functions were reused and compiled since the last write.
    #[cfg(test)]
    pub(super) fn counts(&self) -> (usize, usize) {
        let functions = self.functions.lock();
        (functions.reused, functions.compiled)
    }

    #[cfg(test)]
    pub(super) fn is_in_use(&self) -> bool {
        self.functions.lock().compilations > 0
    }
}

impl Drop for Compilation {
    fn drop(&mut self) {
        let mut functions = self.0.functions.lock();
        functions.compilations -= 1;
        if functions.compilations > 0 {
            return;
        }
        // A compilation that begins meanwhile waits, so that it finds the new file.
        let ended = std::mem::take(&mut *functions);
        if ended.loaded {
            let (reused, compiled) = (ended.reused, ended.compiled);
            tracing::debug!(reused, compiled, "compiled the functions of a component");
        }
        if ended.compiled > 0
            && let Err(error) = replace(&self.0.path, &ended.to_bytes())
        {
            let path = self.0.path.display();
            tracing::debug!(%path, %error, "cannot keep compiled functions, so new versions of backends compile slower");
        }
    }
}

impl LoadedFunctions {
    /// Reads the file, unless it was read before.
    fn load(&mut self, path: &Path) {
        if std::mem::replace(&mut self.loaded, true) {
            return;
        }
        match read_ordinary(path, MAX_BYTES as u64) {
            Ok(bytes) => {
                let mut position = if bytes.starts_with(MAGIC) { MAGIC.len() } else { bytes.len() };
                while let Some((key, code)) = next(&bytes, &mut position) {
                    self.uses += 1;
                    let code = FunctionCode::Kept(code);
                    let function = CompiledFunction { code, used: self.uses };
                    self.by_key.insert(bytes[key].to_owned(), function);
                }
                self.file = bytes;
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => {
                let path = path.display();
                tracing::debug!(%path, %error, "cannot read compiled functions; they are compiled again");
            }
        }
    }

    fn code<'a>(&'a self, function: &'a CompiledFunction) -> &'a [u8] {
        match &function.code {
            FunctionCode::Kept(range) => &self.file[range.clone()],
            FunctionCode::New(code) => code,
        }
    }

    /// Returns the content of the file: the functions in the order of their last use, without the
    /// oldest ones above the limit.
    fn to_bytes(&self) -> Vec<u8> {
        let mut functions: Vec<_> = self.by_key.iter().collect();
        functions.sort_unstable_by_key(|(_, function)| std::cmp::Reverse(function.used));
        let mut size = MAGIC.len();
        let newest = functions.iter().take_while(|(key, function)| {
            size += key.len() + self.code(function).len() + 2 * size_of::<u32>();
            size <= MAX_BYTES
        });
        let newest = newest.count();
        let mut bytes = MAGIC.to_vec();
        for (key, function) in functions[..newest].iter().rev() {
            for part in [*key, self.code(function)] {
                let length = u32::try_from(part.len()).expect("bounded by the limit");
                bytes.extend(length.to_le_bytes());
                bytes.extend_from_slice(part);
            }
        }
        bytes
    }
}

/// Returns the places of the key and the code at a position, and moves the position behind them.
/// Returns `None` at the end, or if the rest is damaged.
fn next(bytes: &[u8], position: &mut usize) -> Option<(Range<usize>, Range<usize>)> {
    let mut part = || {
        let (length, rest) = bytes.get(*position..)?.split_first_chunk()?;
        let length = usize::try_from(u32::from_le_bytes(*length)).ok()?;
        let start = *position + size_of::<u32>();
        *position = start + rest.get(..length)?.len();
        Some(start..*position)
    };
    Some((part()?, part()?))
}

impl wasmtime::CacheStore for FunctionCache {
    fn get(&self, key: &[u8]) -> Option<Cow<'_, [u8]>> {
        let mut functions = self.functions.lock();
        functions.load(&self.path);
        functions.uses += 1;
        let used = functions.uses;
        functions.by_key.get_mut(key)?.used = used;
        functions.reused += 1;
        Some(Cow::Owned(functions.code(&functions.by_key[key]).to_owned()))
    }

    fn insert(&self, key: &[u8], value: Vec<u8>) -> bool {
        let mut functions = self.functions.lock();
        functions.load(&self.path);
        functions.uses += 1;
        functions.compiled += 1;
        let function = CompiledFunction { code: FunctionCode::New(value), used: functions.uses };
        functions.by_key.insert(key.to_owned(), function);
        true
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use wasmtime::CacheStore as _;

    use super::*;

    fn cache() -> (tempfile::TempDir, Arc<FunctionCache>) {
        let folder = tempfile::tempdir().expect("a folder");
        let cache = FunctionCache::new(folder.path());
        (folder, cache)
    }

    #[test]
    fn functions_are_kept_in_the_file_only() {
        let (folder, cache) = cache();
        let (first, second) = (cache.begin(), cache.begin());
        assert_eq!(cache.get(b"a"), None);
        assert!(cache.insert(b"a", vec![1, 2, 3]));
        drop(first);
        assert_eq!(cache.get(b"a").as_deref(), Some(&[1, 2, 3][..]), "the other one still runs");
        drop(second);
        assert!(cache.functions.lock().by_key.is_empty());
        let again = FunctionCache::new(folder.path());
        let _compilation = again.begin();
        assert_eq!(again.get(b"a").as_deref(), Some(&[1, 2, 3][..]));
        assert_eq!(again.get(b"b"), None);
    }

    #[test]
    fn the_functions_that_were_not_used_for_the_longest_time_are_dropped() {
        let (_folder, cache) = cache();
        let half = || vec![0; MAX_BYTES / 2 - 100];
        for (key, used) in [(b"a", None), (b"b", None), (b"c", Some(b"a"))] {
            let _compilation = cache.begin();
            assert!(used.is_none_or(|used| cache.get(used).is_some()));
            assert!(cache.insert(key, half()));
        }
        let _compilation = cache.begin();
        assert_eq!(
            [b"a", b"b", b"c"].map(|key| cache.get(key).is_some()),
            [true, false, true],
            "`a` was used after `b`"
        );
    }

    #[test]
    fn a_damaged_file_gives_the_functions_before_the_damage() {
        let (folder, cache) = cache();
        let compilation = cache.begin();
        assert!(cache.insert(b"a", vec![1]) && cache.insert(b"b", vec![2; 50]));
        drop(compilation);
        let path = folder.path().join(FILE);
        let whole = fs::read(&path).expect("written");
        for length in 0..whole.len() {
            fs::write(&path, &whole[..length]).expect("written");
            let _compilation = cache.begin();
            assert_eq!(cache.get(b"b"), None, "{length}");
            assert!(cache.get(b"a").is_none_or(|code| *code == [1]), "{length}");
        }
        fs::write(&path, "something else").expect("written");
        let _compilation = cache.begin();
        assert_eq!(cache.get(b"a"), None);
    }
}
