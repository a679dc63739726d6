//! The environment of a guest: nothing that differs between two machines, and limited memory.
//!
//! Language runtimes import WASI even if they do not use it, so it is available but empty: no
//! arguments, no environment, no files, no sockets, clocks that never advance, and random numbers
//! that are always the same.

use std::sync::Arc;
use std::time::Duration;

use wasmtime::component::types::ComponentItem;
use wasmtime::component::{Component, Linker, ResourceTable, ResourceType};
use wasmtime::{Engine, ResourceLimiter, Store, UpdateDeadline};
use wasmtime_wasi::cli::{WasiCli, WasiCliView};
use wasmtime_wasi::filesystem::{WasiFilesystem, WasiFilesystemView};
use wasmtime_wasi::p2::bindings::{cli, filesystem, random};
use wasmtime_wasi::random::WasiRandom;
use wasmtime_wasi::{
    Deterministic, HostMonotonicClock, HostWallClock, WasiCtx, WasiCtxView, WasiView,
};

use super::log::{GuestLog, PrintStream};

/// Maximum size of all strings and lists that one call may copy out of the guest, in bytes.
const HOSTCALL_FUEL: usize = 32 << 20;
pub(super) const TABLE_ELEMENTS: usize = 1_000_000;
/// Maximum number of core instances, of tables and of memories. A Python component uses 16
/// instances.
const PARTS: usize = 128;
const HANDLES: usize = 1024;
/// Maximum number of "random" bytes that a guest may request at once.
const RANDOM_MAX: u64 = 64 << 10;

/// The WASI packages that a component may import. Sockets can be imported, because Python always
/// imports them, but they trap when used.
pub(super) const WASI: &[&str] = &["cli", "io", "clocks", "random", "filesystem", "sockets"];

#[derive(Debug, thiserror::Error)]
pub(super) enum GuestLimitError {
    /// The limit of all memories of the guest together, in bytes.
    #[error("it wanted more than {} MiB of memory", .0 >> 20)]
    Memory(usize),
    /// The limit of all table elements of the guest together.
    #[error("it wanted more than {TABLE_ELEMENTS} table elements")]
    Table,
}

/// The state of one store, which belongs to one guest.
pub(super) struct StoreState {
    wasi: WasiCtx,
    handles: ResourceTable,
    bounds: GuestLimits,
    pub(super) log: GuestLog,
}

impl WasiView for StoreState {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        WasiCtxView { ctx: &mut self.wasi, table: &mut self.handles }
    }
}

/// Creates the store of one guest. Its code yields to the worker at every epoch tick.
pub(super) fn store(
    engine: &Engine,
    memory: usize,
    backend: Arc<str>,
    generation: Arc<str>,
) -> Store<StoreState> {
    let log = GuestLog::new(backend, generation);
    let mut handles = ResourceTable::new();
    handles.set_max_capacity(HANDLES);
    let bounds = GuestLimits { memory, memory_left: memory, table_left: TABLE_ELEMENTS };
    let mut store = Store::new(engine, StoreState { wasi: wasi(&log), handles, bounds, log });
    store.limiter(|state| &mut state.bounds);
    store.set_hostcall_fuel(HOSTCALL_FUEL);
    store.set_epoch_deadline(1);
    // Tokio's yield lets the worker handle timers and sockets in between. Wasmtime's yield wakes
    // itself immediately, and a worker without other work would return here for up to 61 ticks.
    store.epoch_deadline_callback(|_| {
        Ok(UpdateDeadline::YieldCustom(1, Box::pin(tokio::task::yield_now())))
    });
    store
}

fn wasi(log: &GuestLog) -> WasiCtx {
    WasiCtx::builder()
        .stdout(log.stream(PrintStream::Stdout))
        .stderr(log.stream(PrintStream::Stderr))
        .allow_tcp(false)
        .allow_udp(false)
        .allow_ip_name_lookup(false)
        .wall_clock(FixedClock)
        .monotonic_clock(FixedClock)
        .secure_random(Deterministic::new(fixed_random_bytes()))
        .insecure_random(Deterministic::new(fixed_random_bytes()))
        .insecure_random_seed(0x0ae7_4ee1)
        .max_random_size(RANDOM_MAX)
        .build()
}

/// Adds the empty WASI to a linker, without sockets.
///
/// # Errors
/// Returns an error only if wasmtime-wasi defines something twice.
pub(super) fn link(linker: &mut Linker<StoreState>) -> wasmtime::Result<()> {
    // Streams, polling, clocks, random bytes, standard input and output.
    wasmtime_wasi::p2::add_to_linker_proxy_interfaces_async(linker)?;
    filesystem::types::add_to_linker::<StoreState, WasiFilesystem>(linker, StoreState::filesystem)?;
    filesystem::preopens::add_to_linker::<StoreState, WasiFilesystem>(
        linker,
        StoreState::filesystem,
    )?;
    random::insecure::add_to_linker::<StoreState, WasiRandom>(linker, |state| state.wasi.random())?;
    random::insecure_seed::add_to_linker::<StoreState, WasiRandom>(linker, |state| {
        state.wasi.random()
    })?;
    cli::exit::add_to_linker::<StoreState, WasiCli>(linker, StoreState::cli)?;
    cli::environment::add_to_linker::<StoreState, WasiCli>(linker, StoreState::cli)?;
    cli::terminal_input::add_to_linker::<StoreState, WasiCli>(linker, StoreState::cli)?;
    cli::terminal_output::add_to_linker::<StoreState, WasiCli>(linker, StoreState::cli)?;
    cli::terminal_stdin::add_to_linker::<StoreState, WasiCli>(linker, StoreState::cli)?;
    cli::terminal_stdout::add_to_linker::<StoreState, WasiCli>(linker, StoreState::cli)?;
    cli::terminal_stderr::add_to_linker::<StoreState, WasiCli>(linker, StoreState::cli)
}

/// Adds stubs for imports that no guest may use, so that a component can be linked: they trap when
/// used. These are sockets, and all of WASI 0.3, which toolchains import in addition to what they
/// use.
///
/// Wasmtime's own stubs for unknown imports cannot be used: they are made for the version that a
/// component names and hide compatible definitions. A component that imports WASI 0.2.9 would get
/// stubs for all of WASI.
///
/// # Errors
/// Returns an error only if the linker already has a definition of that name.
pub(super) fn stub_unused(
    linker: &mut Linker<StoreState>,
    component: &Component,
) -> wasmtime::Result<()> {
    let engine = component.engine().clone();
    for (name, import) in component.component_type().imports(&engine) {
        let ComponentItem::ComponentInstance(interface) = import.ty else { continue };
        if !name.starts_with("wasi:sockets/") && !is_newer(name) {
            continue;
        }
        let mut instance = linker.instance(name)?;
        for (item, export) in interface.exports(&engine) {
            match export.ty {
                ComponentItem::ComponentFunc(_) => {
                    let function = format!("{name}#{item}");
                    instance.func_new(item, move |_, _, _, _| {
                        Err(wasmtime::Error::msg(format!(
                            "unknown import: `{function}`, which no backend can use"
                        )))
                    })?;
                }
                // Resources of wasi:io are already defined by that package.
                ComponentItem::Resource(_)
                    if !is_newer(name)
                        && matches!(item, "pollable" | "input-stream" | "output-stream") => {}
                ComponentItem::Resource(_) => {
                    instance.resource(item, ResourceType::host::<Socket>(), |_, _| Ok(()))?
                }
                _ => {}
            }
        }
    }
    Ok(())
}

/// Returns whether an import belongs to WASI 0.3.
pub(super) fn is_newer(import: &str) -> bool {
    import.starts_with("wasi:")
        && import.split_once('@').is_some_and(|(_, version)| version.starts_with("0.3."))
}

/// A resource of which no instance exists.
struct Socket;

/// The clock of every guest, which always shows the beginning of the year 2000. Inputs contain the
/// real time.
struct FixedClock;

impl HostWallClock for FixedClock {
    fn resolution(&self) -> Duration {
        Duration::from_millis(1)
    }

    fn now(&self) -> Duration {
        Duration::from_secs(946_684_800)
    }
}

impl HostMonotonicClock for FixedClock {
    fn resolution(&self) -> u64 {
        1_000_000
    }

    fn now(&self) -> u64 {
        0
    }
}

/// Returns bytes that look random and are the same for every guest. Their number is odd, so that
/// consecutive reads of any size differ.
fn fixed_random_bytes() -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    (0..251)
        .map(|_| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            state.to_be_bytes()[0]
        })
        .collect()
}

impl StoreState {
    /// Returns the total size of all memories in bytes. Memories never shrink.
    pub(super) fn memory(&self) -> usize {
        self.bounds.memory - self.bounds.memory_left
    }
}

/// Limits all memories and tables of a store together. Wasmtime's own limiter counts each
/// separately.
struct GuestLimits {
    memory: usize,
    memory_left: usize,
    table_left: usize,
}

impl ResourceLimiter for GuestLimits {
    fn memory_growing(
        &mut self,
        current: usize,
        desired: usize,
        maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        if maximum.is_some_and(|maximum| desired > maximum) {
            return Ok(false); // the guest's own limit, which it handles as an ordinary failure
        }
        let more = desired.saturating_sub(current);
        // Return an error instead of a failed `memory.grow`, to which guests react unpredictably:
        // some abort, some loop.
        self.memory_left =
            self.memory_left.checked_sub(more).ok_or(GuestLimitError::Memory(self.memory))?;
        Ok(true)
    }

    fn table_growing(
        &mut self,
        current: usize,
        desired: usize,
        maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        // Every table in the pool has a maximum, which is not the guest's own.
        if maximum.is_some_and(|maximum| desired > maximum && maximum < TABLE_ELEMENTS) {
            return Ok(false);
        }
        self.table_left = self
            .table_left
            .checked_sub(desired.saturating_sub(current))
            .ok_or(GuestLimitError::Table)?;
        Ok(true)
    }

    fn instances(&self) -> usize {
        PARTS
    }

    fn tables(&self) -> usize {
        PARTS
    }

    fn memories(&self) -> usize {
        PARTS
    }
}
