//! The compiler and its settings, shared by all backends.

use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use tokio::sync::oneshot;
use wasmtime::component::{Component, Linker};
use wasmtime::{Cache, CacheConfig, Config};

use super::error::AdmissionError;
use super::sandbox::{self, State};
use aetheel_model::config::Limits;
use aetheel_model::vigil;

/// How often a running guest gives its worker back.
const TICK: Duration = Duration::from_millis(10);

/// Compiles and runs components. Cheap to clone; the tick thread ends with the last clone and the
/// last backend.
#[derive(Clone)]
pub struct Engine {
    wasm: wasmtime::Engine,
    linker: Arc<Linker<State>>,
    limits: Arc<Limits>,
}

/// Why there is no engine.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// The cache folder cannot be used.
    #[error("cannot use the cache folder {}", path.display())]
    Cache {
        /// The folder for compiled code.
        path: PathBuf,
        /// The error of the file system.
        #[source]
        source: io::Error,
    },
    /// Compiled code is trusted: it must lie where nobody else can write.
    #[error("the cache folder {0}")]
    NotPrivate(String),
    /// wasmtime does not work here.
    #[error("cannot set up the sandbox")]
    Sandbox(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// There is no thread for the ticks.
    #[error("cannot start the tick thread")]
    Tick(#[source] io::Error),
}

impl Engine {
    /// Makes an engine. `cache` is a folder for compiled components, made private (mode 0700); None
    /// compiles anew each time.
    ///
    /// # Errors
    /// [`EngineError`] when the cache folder is not usable or the machine is not supported.
    pub fn new(limits: &Limits, cache: Option<&Path>) -> Result<Self, EngineError> {
        let sandbox = |error: wasmtime::Error| EngineError::Sandbox(error.into_boxed_dyn_error());
        let mut config = Config::new();
        config.epoch_interruption(true);
        // The same recording gives the same actions on every machine.
        config.cranelift_nan_canonicalization(true);
        config.relaxed_simd_deterministic(true);
        // Not used by any guest toolchain, and a heap more to bound.
        config.gc_support(false);
        config.concurrency_support(false);
        // Nobody reads where in a stripped component something happened, and nobody but wasmtime
        // walks its frames.
        config.generate_address_map(false);
        config.native_unwind_info(false);
        if let Some(path) = cache {
            let mut settings = CacheConfig::new();
            settings.with_directory(private_directory(path)?);
            config.cache(Some(Cache::new(settings).map_err(sandbox)?));
        }
        let wasm = wasmtime::Engine::new(&config).map_err(sandbox)?;
        let mut linker = Linker::new(&wasm);
        sandbox::link(&mut linker).map_err(sandbox)?;
        start_ticks(&wasm).map_err(EngineError::Tick)?;
        Ok(Self { wasm, linker: Arc::new(linker), limits: Arc::new(limits.clone()) })
    }

    /// The limits guests run under.
    #[must_use]
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    pub(super) fn wasm(&self) -> &wasmtime::Engine {
        &self.wasm
    }

    pub(super) fn linker(&self) -> &Linker<State> {
        &self.linker
    }

    /// Compiles a component on a thread of its own, or takes it from the cache.
    ///
    /// The thread is not one of the runtime's: a compilation cannot be stopped, and one that ran
    /// out of time must not hold up the end of the program.
    pub(super) async fn compile(&self, bytes: Arc<[u8]>) -> Result<Component, AdmissionError> {
        let (done, compiled) = oneshot::channel();
        let wasm = self.wasm.clone();
        thread::Builder::new()
            .name("compile".to_owned())
            .spawn(move || done.send(Component::from_binary(&wasm, &bytes)))
            .map_err(AdmissionError::Read)?;
        match tokio::time::timeout(self.limits.compile, compiled).await {
            Err(_) => Err(AdmissionError::CompileTime(self.limits.compile)),
            Ok(Err(_)) => Err(AdmissionError::Compile("the compiler crashed".to_owned())),
            Ok(Ok(Err(error))) => Err(AdmissionError::Compile(format!("{error:#}"))),
            Ok(Ok(Ok(component))) => Ok(component),
        }
    }
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine").field("limits", &self.limits).finish_non_exhaustive()
    }
}

/// Ticks from a thread of its own: a timer of the runtime could be starved by the very guests it
/// has to stop.
#[expect(clippy::disallowed_methods, reason = "a thread of its own, which has nothing else to do")]
fn start_ticks(wasm: &wasmtime::Engine) -> io::Result<()> {
    let wasm = wasm.weak();
    vigil::thread("guest ticks", move || {
        while let Some(wasm) = wasm.upgrade() {
            wasm.increment_epoch();
            drop(wasm);
            thread::sleep(TICK);
        }
    })?;
    Ok(())
}

/// The fault of a folder for compiled code. The code there runs unchecked, and wasmtime
/// looks at neither owner nor permissions: it must be a folder of ours in which nobody else writes.
/// None: nothing, or it is not there yet.
#[must_use]
pub fn cache_fault(path: &Path) -> Option<String> {
    // A slash at the end would have a link followed.
    let metadata = fs::symlink_metadata(path.components().collect::<PathBuf>()).ok()?;
    let shown = path.display();
    if metadata.is_symlink() {
        Some(format!("{shown} is a symbolic link: name the folder itself (CACHE_DIR)"))
    } else if !metadata.is_dir() {
        Some(format!("{shown} is no folder: choose another one (CACHE_DIR)"))
    } else if metadata.uid() != rustix::process::geteuid().as_raw() {
        Some(format!("{shown} belongs to another user: choose another one (CACHE_DIR)"))
    } else if metadata.mode() & 0o022 != 0 {
        let mode = metadata.mode() & 0o777;
        Some(format!(
            "{shown} can be written to by others (mode {mode:03o}): remove it, it is made anew"
        ))
    } else {
        None
    }
}

fn private_directory(path: &Path) -> Result<PathBuf, EngineError> {
    let failed = |source| EngineError::Cache { path: path.to_owned(), source };
    if let Some(fault) = cache_fault(path) {
        return Err(EngineError::NotPrivate(fault));
    }
    fs::DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(failed)?;
    // Somebody may have been quicker than we.
    if let Some(fault) = cache_fault(path) {
        return Err(EngineError::NotPrivate(fault));
    }
    if fs::metadata(path).map_err(failed)?.mode() & 0o077 != 0 {
        fs::set_permissions(path, fs::Permissions::from_mode(0o700)).map_err(failed)?;
    }
    // wasmtime wants an absolute path.
    path.canonicalize().map_err(failed)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn engine(cache: &Path) -> Result<Engine, EngineError> {
        Engine::new(&Limits::default(), Some(cache))
    }

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).expect("it is there").mode() & 0o777
    }

    #[test]
    fn compiled_code_lies_where_nobody_else_writes() {
        let folder = tempfile::tempdir().expect("a folder");
        let cache = folder.path().join("a/cache");
        assert_eq!(cache_fault(&cache), None, "it can be made");
        engine(&cache).expect("made");
        assert_eq!(mode(&cache), 0o700);
        fs::set_permissions(&cache, fs::Permissions::from_mode(0o755)).expect("changed");
        engine(&cache).expect("others could only read");
        assert_eq!(mode(&cache), 0o700);
        for open in [0o770, 0o720, 0o702, 0o777] {
            fs::set_permissions(&cache, fs::Permissions::from_mode(open)).expect("changed");
            let error = engine(&cache).expect_err("others could write").to_string();
            assert!(
                error.contains("can be written to by others")
                    && error.contains(&format!("{open:03o}")),
                "{error}"
            );
            assert_eq!(mode(&cache), open, "it is left as it is");
        }
    }

    #[test]
    fn a_link_a_file_and_a_folder_of_somebody_else_are_no_cache() {
        let folder = tempfile::tempdir().expect("a folder");
        let (ours, link, file) =
            (folder.path().join("ours"), folder.path().join("link"), folder.path().join("file"));
        fs::create_dir(&ours).expect("made");
        symlink(&ours, &link).expect("linked");
        fs::write(&file, "").expect("written");
        for (path, fault) in [(&link, "is a symbolic link"), (&file, "is no folder")] {
            let error = engine(path).expect_err("refused").to_string();
            assert!(error.contains(fault) && error.contains("CACHE_DIR"), "{error}");
        }
        if rustix::process::geteuid().is_root() {
            std::os::unix::fs::chown(&ours, Some(1), None).expect("given away");
            assert!(
                engine(&ours).expect_err("refused").to_string().contains("belongs to another user")
            );
        }
    }
}
