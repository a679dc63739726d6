//! One running guest: an instance of a component in a separate store, and the meaning of its
//! failures.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::OnceCell;
use wasmtime::component::{Component, InstancePre};
use wasmtime::{PoolConcurrencyLimitError, Store};
use wasmtime_wasi::I32Exit;

use super::backtrace;
use super::bindings::{v0_1, v0_2, v0_3};
use super::convert::{self, Excess};
use super::deadline::{OutOfTime, limited};
use super::engine::{Compiled, Runtime};
use super::error::{AdmissionError, ContractVersion};
use super::profile::StackProfile;
use super::sandbox::{self, GuestLimitError, StoreState};
use aetheel_model::agent::{Action, TimedInput};
use aetheel_model::limits::ResourceLimits;
use aetheel_recording::GuestFailure;

/// The message of wasmtime when the hostcall fuel is exhausted. Its error type is private. The test
/// `a_list_of_a_million_actions_is_cut_off` depends on it.
const FUEL_ERROR: &str = "fuel allocated for hostcalls has been exhausted";

/// A world that components implement: how its exports are found in a component and in an instance.
pub(super) trait GuestWorld: Copy + Send + Sync + 'static {
    /// The positions of the exports in a component.
    type Indices: Send + Sync;
    type Exports: Send + Sync;

    /// Looks up the exports of a component.
    fn find(self, ready: &InstancePre<StoreState>) -> wasmtime::Result<Self::Indices>;

    fn load(
        indices: &Self::Indices,
        store: &mut Store<StoreState>,
        instance: &wasmtime::component::Instance,
    ) -> wasmtime::Result<Self::Exports>;
}

/// Everything needed to create guests of one component, computed once.
pub(super) struct Blueprint<W: GuestWorld = ContractVersion> {
    linked: Linked<W>,
    overflow: Option<Overflow<W>>,
    limits: Limits,
}

#[derive(Clone, Copy)]
struct Limits {
    memory: usize,
    call: Duration,
}

struct Linked<W: GuestWorld> {
    ready: InstancePre<StoreState>,
    exports: W::Indices,
}

/// A component outside of the pool, which is linked when the pool is full for the first time.
struct Overflow<W: GuestWorld> {
    runtime: Runtime,
    bytes: Arc<[u8]>,
    world: W,
    compile: Duration,
    linked: OnceCell<Linked<W>>,
}

/// The reason why no guest can be created from a blueprint.
#[derive(Debug)]
pub(super) enum StartFailure {
    /// The start code of the guest failed.
    Guest(GuestFailure),
    /// An export does not have the type of the contract.
    Types(String),
}

/// A running guest with its memory and its limits.
pub(super) struct Instance<E = Exports> {
    pub(super) store: Store<StoreState>,
    pub(super) exports: E,
    pub(super) call: Duration,
}

/// The exports of the contract that the component implements.
pub(super) enum Exports {
    V0_3(v0_3::AgentBackend),
    V0_2(v0_2::AgentBackend),
    V0_1(v0_1::AgentBackend),
}

/// The indices of the exports of the contract that the component implements.
pub(super) enum ExportIndices {
    V0_3(v0_3::AgentBackendIndices),
    V0_2(v0_2::AgentBackendIndices),
    V0_1(v0_1::AgentBackendIndices),
}

impl GuestWorld for ContractVersion {
    type Indices = ExportIndices;
    type Exports = Exports;

    fn find(self, ready: &InstancePre<StoreState>) -> wasmtime::Result<ExportIndices> {
        match self {
            Self::V0_3 => v0_3::AgentBackendIndices::new(ready).map(ExportIndices::V0_3),
            Self::V0_2 => v0_2::AgentBackendIndices::new(ready).map(ExportIndices::V0_2),
            Self::V0_1 => v0_1::AgentBackendIndices::new(ready).map(ExportIndices::V0_1),
        }
    }

    fn load(
        indices: &ExportIndices,
        store: &mut Store<StoreState>,
        instance: &wasmtime::component::Instance,
    ) -> wasmtime::Result<Exports> {
        match indices {
            ExportIndices::V0_3(found) => found.load(store, instance).map(Exports::V0_3),
            ExportIndices::V0_2(found) => found.load(store, instance).map(Exports::V0_2),
            ExportIndices::V0_1(found) => found.load(store, instance).map(Exports::V0_1),
        }
    }
}

impl<W: GuestWorld> Blueprint<W> {
    /// Links a component and looks up the exports of its world.
    ///
    /// # Errors
    /// [`AdmissionError`] names an import that cannot be linked, or the missing export.
    pub(super) fn new(
        compiled: Compiled,
        bytes: Arc<[u8]>,
        world: W,
        limits: &ResourceLimits,
    ) -> Result<Self, AdmissionError> {
        let linked = Linked::new(&compiled.runtime, &compiled.component, world)?;
        let overflow = compiled.overflow.map(|runtime| Overflow {
            runtime,
            bytes,
            world,
            compile: limits.compile,
            linked: OnceCell::new(),
        });
        let limits = Limits { memory: limits.guest_memory, call: limits.guest_call };
        Ok(Self { linked, overflow, limits })
    }

    /// Creates a guest, outside of the pool if that is full. Its start code runs under the limits
    /// of a call. Dropping the future leaves nothing behind.
    ///
    /// # Errors
    /// [`StartFailure`].
    pub(super) async fn start(
        &self,
        backend: Arc<str>,
        generation: Arc<str>,
    ) -> Result<Instance<W::Exports>, StartFailure> {
        if let Some(instance) =
            self.linked.start(self.limits, backend.clone(), generation.clone()).await?
        {
            return Ok(instance);
        }
        let outside = match &self.overflow {
            Some(overflow) => {
                overflow.linked().await?.start(self.limits, backend, generation).await?
            }
            None => None,
        };
        outside.ok_or_else(|| {
            StartFailure::Guest(GuestFailure::CutOff("there was no memory for it".to_owned()))
        })
    }
}

impl<W: GuestWorld> Overflow<W> {
    async fn linked(&self) -> Result<&Linked<W>, StartFailure> {
        let link = async || {
            tracing::info!(
                "the memory pool of backends is full, so more guests get new memory; hint: a larger GUEST_POOL makes their turns cheaper"
            );
            let component = self.runtime.compile(self.bytes.clone(), self.compile).await?;
            Linked::new(&self.runtime, &component, self.world)
        };
        self.linked.get_or_try_init(link).await.map_err(|error: AdmissionError| {
            StartFailure::Guest(GuestFailure::Trapped(error.to_string()))
        })
    }
}

impl<W: GuestWorld> Linked<W> {
    fn new(runtime: &Runtime, component: &Component, world: W) -> Result<Self, AdmissionError> {
        let unlinked = |error: wasmtime::Error| AdmissionError::Link(format!("{error:#}"));
        let mut linker = runtime.linker().clone();
        sandbox::stub_unused(&mut linker, component).map_err(unlinked)?;
        let ready = linker.instantiate_pre(component).map_err(unlinked)?;
        let exports = world
            .find(&ready)
            .map_err(|error| AdmissionError::ContractTypes(format!("{error:#}")))?;
        Ok(Self { ready, exports })
    }

    /// Creates a guest, or returns `None` if the pool is full.
    async fn start(
        &self,
        limits: Limits,
        backend: Arc<str>,
        generation: Arc<str>,
    ) -> Result<Option<Instance<W::Exports>>, StartFailure> {
        let mut store = sandbox::store(self.ready.engine(), limits.memory, backend, generation);
        let started = limited(limits.call, self.ready.instantiate_async(&mut store)).await;
        let instance = match started {
            Ok(Ok(instance)) => instance,
            Ok(Err(error)) if error.is::<PoolConcurrencyLimitError>() => return Ok(None),
            Ok(Err(error)) => return Err(StartFailure::Guest(failure(&store, &error))),
            Err(late) => return Err(StartFailure::Guest(GuestFailure::CutOff(late.to_string()))),
        };
        let exports = W::load(&self.exports, &mut store, &instance)
            .map_err(|error| StartFailure::Types(format!("{error:#}")))?;
        Ok(Some(Instance { store, exports, call: limits.call }))
    }
}

/// Calls an export under the run-time limit. After an error the instance must not be used again.
macro_rules! call {
    ($self:ident.$export:ident($($argument:expr),*)) => {
        match &$self.exports {
            Exports::V0_3(exports) => call!($self, exports.$export($($argument),*)),
            Exports::V0_2(exports) => call!($self, exports.$export($($argument),*)),
            Exports::V0_1(exports) => call!($self, exports.$export($($argument),*)),
        }
    };
    ($self:ident, $exports:ident.$export:ident($($argument:expr),*)) => {{
        let call = $exports.aetheel_backend_backend().$export(&mut $self.store, $($argument),*);
        let called = limited($self.call, call).await;
        $self.outcome(called)
    }};
}

/// Passes inputs to a guest of one version of the contract, and converts them and the actions.
macro_rules! handle {
    ($self:ident, $exports:ident, $version:ident, $inputs:ident) => {{
        let inputs = convert::$version::inputs($inputs);
        convert::$version::actions(call!($self, $exports.call_handle(&inputs))?.map_err(refused)?)
    }};
}

impl<E> Instance<E> {
    /// Returns the result of a call into the guest. After an error the instance must not be used
    /// again.
    pub(super) fn outcome<T>(
        &self,
        called: Result<wasmtime::Result<T>, OutOfTime>,
    ) -> Result<T, GuestFailure> {
        match called {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(error)) => Err(failure(&self.store, &error)),
            Err(late) => Err(GuestFailure::CutOff(late.to_string())),
        }
    }
}

impl Instance {
    /// Records the guest's stack from now on, at every tick in which it runs.
    pub(super) fn record_stacks(&mut self, profile: Arc<StackProfile>) {
        profile.follow(&mut self.store);
    }

    /// Ignores the ticks since the last call, so that the next call is only interrupted by ticks
    /// that it lasts for.
    pub(super) fn restart_tick(&mut self) {
        self.store.set_epoch_deadline(1);
    }

    /// Returns the size of the guest's memories in bytes.
    pub(super) fn memory(&self) -> usize {
        self.store.data().memory()
    }

    pub(super) async fn describe(&mut self) -> Result<String, GuestFailure> {
        let text = call!(self.call_describe())?;
        convert::text(text).map_err(excess_failure)
    }

    pub(super) async fn handle(
        &mut self,
        inputs: Vec<TimedInput>,
    ) -> Result<Vec<Action>, GuestFailure> {
        let actions = match &self.exports {
            Exports::V0_3(exports) => handle!(self, exports, v0_3, inputs),
            Exports::V0_2(exports) => handle!(self, exports, v0_2, inputs),
            Exports::V0_1(exports) => handle!(self, exports, v0_1, inputs),
        };
        actions.map_err(excess_failure)
    }

    pub(super) async fn save(&mut self) -> Result<Option<String>, GuestFailure> {
        let state = call!(self.call_save())?;
        state.map(convert::text).transpose().map_err(excess_failure)
    }

    pub(super) async fn load(&mut self, state: &str, saved_by: &str) -> Result<(), GuestFailure> {
        call!(self.call_load(state, saved_by))?.map_err(refused)
    }
}

pub(super) fn excess_failure(excess: Excess) -> GuestFailure {
    GuestFailure::CutOff(excess.to_string())
}

/// Limits the length of a guest's text, because it appears in logs.
pub(super) fn refused(mut text: String) -> GuestFailure {
    if text.len() > 4096 {
        text.truncate(text.floor_char_boundary(4096));
        text.push('…');
    }
    GuestFailure::Refused(text)
}

/// Distinguishes the limits of the host from failures of the guest.
fn failure(store: &Store<StoreState>, error: &wasmtime::Error) -> GuestFailure {
    tracing::debug!(error = format!("{error:?}"), "a guest failed");
    if let Some(bound) = error.downcast_ref::<GuestLimitError>() {
        return GuestFailure::CutOff(bound.to_string());
    }
    let cause = error.root_cause().to_string();
    if cause.contains(FUEL_ERROR) {
        return GuestFailure::CutOff("it returned more than 32 MiB in one call".to_owned());
    }
    let cause = match (error.downcast_ref::<I32Exit>(), backtrace::describe(error)) {
        (Some(exit), _) => format!("it called exit with status {}", exit.0),
        (None, Some(stack)) => format!("{cause}; {stack}"),
        (None, None) => cause,
    };
    let words = store.data().log.stderr_tail();
    GuestFailure::Trapped(if words.is_empty() {
        cause
    } else {
        format!("{cause}; it printed: {words}")
    })
}
