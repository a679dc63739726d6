//! The compiler and its settings, which all backends share.

use std::fs;
use std::io;
use std::num::NonZeroUsize;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use tokio::sync::oneshot;
use wasmtime::component::{Component, Linker};
use wasmtime::{
    Cache, CacheConfig, Config, EngineWeak, PoolingAllocationConfig, WasmBacktraceDetails,
};

use super::cache_use::CacheUse;
use super::error::AdmissionError;
use super::function_cache::FunctionCache;
use super::sandbox::{self, StoreState};
use aetheel_model::limits::ResourceLimits;
use aetheel_runtime::supervisor;

/// Folder of wasmtime's cache of whole components, in the folder for compiled code.
const COMPONENTS: &str = "components";

/// Interval at which a running guest yields to its worker.
const TICK: Duration = Duration::from_millis(10);

pub(super) const SAMPLE_TICK: Duration = Duration::from_millis(1);

/// Largest number of functions of a stack with source lines. Deeper stacks lose their outermost
/// functions.
const FRAMES_MAX: NonZeroUsize = NonZeroUsize::new(128).expect("not zero");

/// Start of a guest's memory that stays mapped while its slot of the pool is unused. The shipped
/// backends use less for their stack, their data and the blocks of a short turn.
const RESIDENT: usize = 768 << 10;
/// Start of a table that stays mapped while its slot of the pool is unused.
const RESIDENT_TABLE: usize = 16 << 10;
/// Maximum number of core instances and of tables of a guest in the pool. A component in Rust has
/// four instances and two tables.
const PARTS_PER_GUEST: u32 = 8;
/// Largest component that runs in the pool. Its bytes are kept, because it is compiled again for
/// guests beyond the pool. Larger components contain an interpreter, whose own start takes much
/// longer than new memory.
const POOLED_MAX: usize = 4 << 20;

/// Compiles and runs components. Cheap to clone. The tick thread ends when all clones and all
/// backends are dropped.
///
/// Guests run in a pool of memories, tables and stacks that are reused, because the first access to
/// new memory is the largest cost of a short turn. Guests beyond the size of the pool, and
/// components that do not fit into it, get new memory.
#[derive(Clone)]
pub struct Engine {
    pooled: Option<Runtime>,
    on_demand: Runtime,
    limits: Arc<ResourceLimits>,
    /// Environment variables that no component may use.
    pub(super) reserved: &'static [&'static str],
    #[expect(dead_code, reason = "other programs see it until this is dropped")]
    cache_use: Option<Arc<CacheUse>>,
}

/// The compiler and the environment of guests that share a way of memory allocation.
#[derive(Clone)]
pub(super) struct Runtime {
    wasm: wasmtime::Engine,
    linker: Arc<Linker<StoreState>>,
    functions: Option<Arc<FunctionCache>>,
}

/// A compiled component with the runtime that it was compiled for.
pub(super) struct Compiled {
    pub(super) runtime: Runtime,
    pub(super) component: Component,
    /// The runtime for guests beyond the pool. `None` if this component does not use the pool.
    pub(super) overflow: Option<Runtime>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum EnginePurpose {
    Serve,
    /// Failures name source lines.
    Explain,
    /// Stacks name source lines, and ticks are short.
    Sample,
}

/// The reason why the engine cannot be created.
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
    /// Others may write to the cache folder, although the compiled code in it is trusted.
    #[error("the cache folder {0}")]
    NotPrivate(String),
    /// Wasmtime does not work on this machine.
    #[error("cannot set up the sandbox")]
    Sandbox(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The tick thread cannot be started.
    #[error("cannot start the tick thread")]
    Tick(#[source] io::Error),
}

impl Engine {
    /// Creates an engine. `cache` is the folder for compiled components, which is made private
    /// (mode 0700). With `None`, components are compiled on every load. `reserved` contains the
    /// environment variables of the gateway, which no component may use.
    ///
    /// # Errors
    /// [`EngineError`] if the cache folder cannot be used or the machine is not supported.
    pub fn new(
        limits: &ResourceLimits,
        cache: Option<&Path>,
        reserved: &'static [&'static str],
    ) -> Result<Self, EngineError> {
        Self::build(limits, cache, reserved, EnginePurpose::Serve)
    }

    /// Like [`Engine::new`], but the failures of guests name source lines, if the component has
    /// debug info. Compiled code is larger, and is not shared with [`Engine::new`].
    ///
    /// # Errors
    /// [`EngineError`] as from [`Engine::new`].
    pub fn explaining(
        limits: &ResourceLimits,
        cache: Option<&Path>,
        reserved: &'static [&'static str],
    ) -> Result<Self, EngineError> {
        Self::build(limits, cache, reserved, EnginePurpose::Explain)
    }

    /// Like [`Engine::explaining`], but with shorter ticks, for a
    /// [`StackProfile`](super::StackProfile).
    ///
    /// # Errors
    /// [`EngineError`] as from [`Engine::new`].
    pub fn profiling(
        limits: &ResourceLimits,
        cache: Option<&Path>,
        reserved: &'static [&'static str],
    ) -> Result<Self, EngineError> {
        Self::build(limits, cache, reserved, EnginePurpose::Sample)
    }

    fn build(
        limits: &ResourceLimits,
        cache: Option<&Path>,
        reserved: &'static [&'static str],
        purpose: EnginePurpose,
    ) -> Result<Self, EngineError> {
        let (mut config, mut functions, mut cache_use) = (config(purpose), None, None);
        if let Some(path) = cache {
            let folder = private_directory(path)?;
            let cache_store = functions.insert(FunctionCache::new(&folder));
            config.enable_incremental_compilation(cache_store.clone()).map_err(sandbox_error)?;
            let components = folder.join(COMPONENTS);
            cache_use = Some(Arc::new(CacheUse::begin(&folder, &components)));
            let mut settings = CacheConfig::new();
            // A folder of its own: wasmtime removes everything else from it.
            settings.with_directory(components);
            config.cache(Some(Cache::new(settings).map_err(sandbox_error)?));
        }
        let on_demand = Runtime::new(&config, functions.clone())?;
        let pooled = limits.guest_pool.and_then(|guests| {
            config.allocation_strategy(pool(guests));
            // A pool reserves 4 GiB of addresses for each guest, which the system may refuse.
            Runtime::new(&config, functions)
                .inspect_err(|error| {
                    let error = aetheel_model::plain::with_causes(error);
                    tracing::warn!(
                        guests,
                        error,
                        "no memory pool for backends, so turns cost more processor time; hint: allow more address space (ulimit -v), or lower GUEST_POOL"
                    );
                })
                .ok()
        });
        let engines = pooled.iter().chain([&on_demand]).map(|runtime| runtime.wasm.weak());
        let tick = if purpose == EnginePurpose::Sample { SAMPLE_TICK } else { TICK };
        start_ticks(engines.collect(), tick).map_err(EngineError::Tick)?;
        Ok(Self { pooled, on_demand, limits: Arc::new(limits.clone()), reserved, cache_use })
    }

    /// Returns the limits of guests.
    #[must_use]
    pub fn limits(&self) -> &ResourceLimits {
        &self.limits
    }

    /// Returns the number of guests that are in the pool now.
    #[must_use]
    pub fn pooled_guests(&self) -> u64 {
        let metrics = self.pooled.as_ref().and_then(|pool| pool.wasm.pooling_allocator_metrics());
        metrics.map_or(0, |metrics| metrics.component_instances())
    }

    /// Compiles a component, or takes it from the cache. It is compiled for the pool if it fits.
    pub(super) async fn compile(&self, bytes: &Arc<[u8]>) -> Result<Compiled, AdmissionError> {
        if let Some(pooled) = self.pooled.as_ref().filter(|_| bytes.len() <= POOLED_MAX) {
            match pooled.compile(bytes.clone(), self.limits.compile).await {
                Ok(component) => {
                    return Ok(Compiled {
                        runtime: pooled.clone(),
                        component,
                        overflow: Some(self.on_demand.clone()),
                    });
                }
                // Either the component is invalid, which is found again below, or it does not fit.
                Err(AdmissionError::Compile(_)) => {}
                Err(error) => return Err(error),
            }
        }
        let runtime = self.on_demand.clone();
        let component = runtime.compile(bytes.clone(), self.limits.compile).await?;
        Ok(Compiled { runtime, component, overflow: None })
    }
}

impl Runtime {
    fn new(config: &Config, functions: Option<Arc<FunctionCache>>) -> Result<Self, EngineError> {
        let wasm = wasmtime::Engine::new(config).map_err(sandbox_error)?;
        let mut linker = Linker::new(&wasm);
        sandbox::link(&mut linker).map_err(sandbox_error)?;
        Ok(Self { wasm, linker: Arc::new(linker), functions })
    }

    pub(super) fn wasm(&self) -> &wasmtime::Engine {
        &self.wasm
    }

    pub(super) fn linker(&self) -> &Linker<StoreState> {
        &self.linker
    }

    /// Compiles a component on a separate thread, or takes it from the cache.
    ///
    /// It does not use a thread of the async runtime, because a compilation cannot be stopped, and
    /// one that exceeded its time must not delay the end of the program.
    pub(super) async fn compile(
        &self,
        bytes: Arc<[u8]>,
        limit: Duration,
    ) -> Result<Component, AdmissionError> {
        let (done, compiled) = oneshot::channel();
        let (wasm, functions) = (self.wasm.clone(), self.functions.clone());
        thread::Builder::new()
            .name("compile".to_owned())
            .spawn(move || {
                let _compilation = functions.as_ref().map(FunctionCache::begin);
                // Fails if nobody waits any more.
                let _ = done.send(Component::from_binary(&wasm, &bytes));
            })
            .map_err(AdmissionError::Read)?;
        match tokio::time::timeout(limit, compiled).await {
            Err(_) => Err(AdmissionError::CompileTime(limit)),
            Ok(Err(_)) => Err(AdmissionError::Compile("the compiler crashed".to_owned())),
            Ok(Ok(Err(error))) => Err(AdmissionError::Compile(format!("{error:#}"))),
            Ok(Ok(Ok(component))) => Ok(component),
        }
    }
}

/// Returns the settings of the compiler and of guests. Both runtimes run the same compiled code.
fn config(purpose: EnginePurpose) -> Config {
    let mut config = Config::new();
    config.epoch_interruption(true);
    // The same recording must give the same actions on every machine.
    config.cranelift_nan_canonicalization(true);
    config.relaxed_simd_deterministic(true);
    // No guest toolchain uses these features, and garbage collection would add a heap that must be
    // limited.
    config.gc_support(false);
    config.concurrency_support(false);
    // Only wasmtime walks the frames of guests.
    config.native_unwind_info(false);
    // Functions have names without the map. It adds source lines, and an eighth to the compiled
    // code.
    let explains = purpose != EnginePurpose::Serve;
    config.generate_address_map(explains);
    config.wasm_backtrace_details(match explains {
        true => WasmBacktraceDetails::Enable,
        false => WasmBacktraceDetails::Disable,
    });
    if explains {
        config.wasm_backtrace_max_frames(Some(FRAMES_MAX));
    }
    config
}

fn pool(guests: u32) -> PoolingAllocationConfig {
    let mut pool = PoolingAllocationConfig::new();
    pool.total_component_instances(guests)
        .total_memories(guests)
        .total_stacks(guests)
        .total_core_instances(guests * PARTS_PER_GUEST)
        .total_tables(guests * PARTS_PER_GUEST)
        // No component can take the share of another one.
        .max_memories_per_component(1)
        .max_core_instances_per_component(PARTS_PER_GUEST)
        .max_tables_per_component(PARTS_PER_GUEST)
        .table_elements(sandbox::TABLE_ELEMENTS)
        .linear_memory_keep_resident(RESIDENT)
        .table_keep_resident(RESIDENT_TABLE)
        // Bounds the memory that stays mapped without a guest.
        .max_unused_warm_slots(guests.min(16));
    pool
}

fn sandbox_error(error: wasmtime::Error) -> EngineError {
    EngineError::Sandbox(error.into_boxed_dyn_error())
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine").field("limits", &self.limits).finish_non_exhaustive()
    }
}

/// Starts the thread that advances the epoch of all engines that still exist. A timer of the
/// runtime could be starved by the guests that it has to interrupt.
#[expect(clippy::disallowed_methods, reason = "a separate thread, which has nothing else to do")]
fn start_ticks(engines: Vec<EngineWeak>, tick: Duration) -> io::Result<()> {
    supervisor::spawn_thread("guest ticks", move || {
        loop {
            let alive = engines.iter().filter_map(EngineWeak::upgrade);
            if alive.map(|wasm| wasm.increment_epoch()).count() == 0 {
                return;
            }
            thread::sleep(tick);
        }
    })?;
    Ok(())
}

/// Returns the problem with a folder for compiled code, or `None` if it can be used or does not
/// exist yet.
///
/// Compiled code runs unchecked, and wasmtime checks neither owner nor permissions. So the folder
/// must belong to this user, and nobody else may write to it.
#[must_use]
pub fn cache_fault(path: &Path) -> Option<String> {
    // With a slash at the end, a symbolic link would be followed.
    let metadata = fs::symlink_metadata(path.components().collect::<PathBuf>()).ok()?;
    let shown = path.display();
    if metadata.is_symlink() {
        Some(format!("{shown} is a symbolic link: name the folder itself (CACHE_DIR)"))
    } else if !metadata.is_dir() {
        Some(format!("{shown} is not a folder: choose another one (CACHE_DIR)"))
    } else if metadata.uid() != rustix::process::geteuid().as_raw() {
        Some(format!("{shown} belongs to another user: choose another one (CACHE_DIR)"))
    } else if metadata.mode() & 0o022 != 0 {
        let mode = metadata.mode() & 0o777;
        Some(format!(
            "{shown} can be written to by others (mode {mode:03o}): remove it; it is created again"
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
    // Another process may have created the folder in the meantime.
    if let Some(fault) = cache_fault(path) {
        return Err(EngineError::NotPrivate(fault));
    }
    if fs::metadata(path).map_err(failed)?.mode() & 0o077 != 0 {
        fs::set_permissions(path, fs::Permissions::from_mode(0o700)).map_err(failed)?;
    }
    // Wasmtime requires an absolute path.
    path.canonicalize().map_err(failed)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn engine(cache: &Path) -> Result<Engine, EngineError> {
        Engine::new(&ResourceLimits::default(), Some(cache), &[])
    }

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).expect("it is there").mode() & 0o777
    }

    #[test]
    fn compiled_code_is_stored_where_nobody_else_can_write() {
        let folder = tempfile::tempdir().expect("a folder");
        let cache = folder.path().join("a/cache");
        assert_eq!(cache_fault(&cache), None, "it can be created");
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
            assert_eq!(mode(&cache), open, "it is unchanged");
        }
    }

    /// Compiles a component that has a function for each number, and returns how many functions were
    /// compiled.
    fn functions_compiled(cache: &Path, numbers: &[u32]) -> usize {
        let functions: String = numbers
            .iter()
            .map(|number| format!("(func (result i32) i32.const {number})"))
            .collect();
        let module = wat::parse_str(format!("(module {functions})")).expect("valid");
        // A component with one section, which is the module.
        let mut bytes = b"\0asm\x0d\0\x01\0\x01".to_vec();
        bytes.push(u8::try_from(module.len()).ok().filter(|length| *length < 128).expect("short"));
        bytes.extend(module);
        let runtime = engine(cache).expect("made").on_demand;
        let functions = runtime.functions.clone().expect("with a cache");
        // Keeps the counts until the thread of the compilation has ended its own.
        let compilation = functions.begin();
        let tokio = tokio::runtime::Builder::new_current_thread().enable_time().build();
        let compiled = runtime.compile(bytes.into(), Duration::from_secs(60));
        tokio.expect("made").block_on(compiled).expect("compiled");
        let counts = functions.counts();
        drop(compilation);
        while functions.is_in_use() {
            thread::yield_now();
        }
        counts.1
    }

    #[test]
    fn a_changed_component_compiles_only_its_changed_functions() {
        let folder = tempfile::tempdir().expect("a folder");
        let cache = folder.path();
        let first = functions_compiled(cache, &[1, 2, 3]);
        assert!(first >= 3, "{first}");
        assert_eq!(functions_compiled(cache, &[1, 2, 3]), 0, "the whole component is kept");
        let second = functions_compiled(cache, &[1, 7, 3, 8]);
        assert_eq!(second, 2, "of four functions");
    }

    #[test]
    fn a_link_a_file_and_another_users_folder_are_refused_as_cache() {
        let folder = tempfile::tempdir().expect("a folder");
        let (ours, link, file) =
            (folder.path().join("ours"), folder.path().join("link"), folder.path().join("file"));
        fs::create_dir(&ours).expect("made");
        symlink(&ours, &link).expect("linked");
        fs::write(&file, "").expect("written");
        for (path, fault) in [(&link, "is a symbolic link"), (&file, "is not a folder")] {
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
