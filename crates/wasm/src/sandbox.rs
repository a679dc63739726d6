//! The world of a guest: nothing that differs between two machines, and bounded memory.
//!
//! Language runtimes import WASI whether they use it or not, so it is there, but empty: no
//! arguments, no environment, no files, no sockets; clocks that stand still, and random numbers
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

use super::log::{GuestLog, Printed};

/// Bytes one call may have copied out of the guest, all strings and lists together.
const HOSTCALL_FUEL: usize = 32 << 20;
/// Elements of all tables together.
const TABLE_ELEMENTS: usize = 1_000_000;
/// Core instances, tables and memories; a Python component takes 16 instances.
const PARTS: usize = 128;
/// WASI handles a guest may hold at once.
const HANDLES: usize = 1024;
/// Bytes of "random" a guest may ask for at once.
const RANDOM_MAX: u64 = 64 << 10;

/// The WASI packages a component may import; sockets are there to link and trap when used (Python
/// imports them always).
pub(super) const WASI: &[&str] = &["cli", "io", "clocks", "random", "filesystem", "sockets"];

/// A guest wanted more than it may have.
#[derive(Debug, thiserror::Error)]
pub(super) enum Bound {
    /// More memory than the limit for all of the guest's memories together, bytes.
    #[error("it wanted more than {} MiB of memory", .0 >> 20)]
    Memory(usize),
    /// More elements than the limit for all of the guest's tables together.
    #[error("it wanted more than {TABLE_ELEMENTS} table elements")]
    Table,
}

/// The state of one store, which is one guest.
pub(super) struct State {
    wasi: WasiCtx,
    handles: ResourceTable,
    bounds: Bounds,
    /// The lines the guest writes to stdout and stderr, on their way to the log.
    pub(super) log: GuestLog,
}

impl WasiView for State {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        WasiCtxView { ctx: &mut self.wasi, table: &mut self.handles }
    }
}

/// Makes the store of one guest. Its code gives the worker back at every epoch tick.
pub(super) fn store(
    engine: &Engine,
    memory: usize,
    backend: Arc<str>,
    generation: Arc<str>,
) -> Store<State> {
    let log = GuestLog::new(backend, generation);
    let mut handles = ResourceTable::new();
    handles.set_max_capacity(HANDLES);
    let bounds = Bounds { memory, memory_left: memory, table_left: TABLE_ELEMENTS };
    let mut store = Store::new(engine, State { wasi: wasi(&log), handles, bounds, log });
    store.limiter(|state| &mut state.bounds);
    store.set_hostcall_fuel(HOSTCALL_FUEL);
    store.set_epoch_deadline(1);
    // tokio's own yield lets the worker look after timers and sockets in between; wasmtime's wakes
    // itself at once, and a worker with nothing else to do would come back here up to 61 ticks
    // long.
    store.epoch_deadline_callback(|_| {
        Ok(UpdateDeadline::YieldCustom(1, Box::pin(tokio::task::yield_now())))
    });
    store
}

fn wasi(log: &GuestLog) -> WasiCtx {
    WasiCtx::builder()
        .stdout(log.stream(Printed::Stdout))
        .stderr(log.stream(Printed::Stderr))
        .allow_tcp(false)
        .allow_udp(false)
        .allow_ip_name_lookup(false)
        .wall_clock(Stopped)
        .monotonic_clock(Stopped)
        .secure_random(Deterministic::new(noise()))
        .insecure_random(Deterministic::new(noise()))
        .insecure_random_seed(0x0ae7_4ee1)
        .max_random_size(RANDOM_MAX)
        .build()
}

/// Puts the empty WASI into a linker, without sockets.
///
/// # Errors
/// Only when wasmtime-wasi defines something twice.
pub(super) fn link(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    // Streams, polling, clocks, random bytes, standard input and output.
    wasmtime_wasi::p2::add_to_linker_proxy_interfaces_async(linker)?;
    filesystem::types::add_to_linker::<State, WasiFilesystem>(linker, State::filesystem)?;
    filesystem::preopens::add_to_linker::<State, WasiFilesystem>(linker, State::filesystem)?;
    random::insecure::add_to_linker::<State, WasiRandom>(linker, |state| state.wasi.random())?;
    random::insecure_seed::add_to_linker::<State, WasiRandom>(linker, |state| state.wasi.random())?;
    cli::exit::add_to_linker::<State, WasiCli>(linker, State::cli)?;
    cli::environment::add_to_linker::<State, WasiCli>(linker, State::cli)?;
    cli::terminal_input::add_to_linker::<State, WasiCli>(linker, State::cli)?;
    cli::terminal_output::add_to_linker::<State, WasiCli>(linker, State::cli)?;
    cli::terminal_stdin::add_to_linker::<State, WasiCli>(linker, State::cli)?;
    cli::terminal_stdout::add_to_linker::<State, WasiCli>(linker, State::cli)?;
    cli::terminal_stderr::add_to_linker::<State, WasiCli>(linker, State::cli)
}

/// Puts what a component imports and no guest may use into a linker: there to link, trapping when
/// used. That is sockets, and all of WASI 0.3, which toolchains begin to import beside what they
/// use.
///
/// Wasmtime's own stubs for everything unknown are made for the version a component names, and hide
/// what is there for a compatible one: all of WASI, for a component that imports 0.2.9 of it.
///
/// # Errors
/// Only when something of that name is there already.
pub(super) fn stub_unused(
    linker: &mut Linker<State>,
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
                        Err(wasmtime::Error::msg(format!("unknown import: `{function}`")))
                    })?;
                }
                // Those of wasi:io are what they are there.
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

/// Whether an import is of WASI 0.3.
pub(super) fn is_newer(import: &str) -> bool {
    import.starts_with("wasi:")
        && import.split_once('@').is_some_and(|(_, version)| version.starts_with("0.3."))
}

/// A resource that no guest ever holds.
struct Socket;

/// The clock every guest sees: it stands still, at the beginning of the year 2000. Times come with
/// the inputs.
struct Stopped;

impl HostWallClock for Stopped {
    fn resolution(&self) -> Duration {
        Duration::from_millis(1)
    }

    fn now(&self) -> Duration {
        Duration::from_secs(946_684_800)
    }
}

impl HostMonotonicClock for Stopped {
    fn resolution(&self) -> u64 {
        1_000_000
    }

    fn now(&self) -> u64 {
        0
    }
}

/// Bytes that look random and are the same in every guest. Their number is odd, so that reads of
/// any size differ.
fn noise() -> Vec<u8> {
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

impl State {
    /// Bytes of all memories together, now; they never shrink.
    pub(super) fn memory(&self) -> usize {
        self.bounds.memory - self.bounds.memory_left
    }
}

/// Counts over all memories and tables of a store: wasmtime's own limiter counts each for itself.
struct Bounds {
    memory: usize,
    memory_left: usize,
    table_left: usize,
}

impl ResourceLimiter for Bounds {
    fn memory_growing(
        &mut self,
        current: usize,
        desired: usize,
        maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        if maximum.is_some_and(|maximum| desired > maximum) {
            return Ok(false); // the guest's own limit: an ordinary failure to it
        }
        let more = desired.saturating_sub(current);
        // An error rather than a failed `memory.grow`: what a guest makes of that is anything from
        // an abort to a loop.
        self.memory_left = self.memory_left.checked_sub(more).ok_or(Bound::Memory(self.memory))?;
        Ok(true)
    }

    fn table_growing(
        &mut self,
        current: usize,
        desired: usize,
        maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        if maximum.is_some_and(|maximum| desired > maximum) {
            return Ok(false);
        }
        self.table_left =
            self.table_left.checked_sub(desired.saturating_sub(current)).ok_or(Bound::Table)?;
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
