//! One running guest: an instance of a component in a separate store, and the meaning of its
//! failures.

use std::sync::Arc;
use std::time::Duration;

use wasmtime::component::InstancePre;
use wasmtime::{Engine, Store};
use wasmtime_wasi::I32Exit;

use super::bindings::{AgentBackend, AgentBackendIndices, older};
use super::convert::{self, Excess};
use super::deadline::limited;
use super::sandbox::{self, GuestLimitError, StoreState};
use aetheel_model::agent::{Action, TimedInput};
use aetheel_turn::GuestFailure;

/// The message of wasmtime when the hostcall fuel is exhausted. Its error type is private. The test
/// `a_list_of_a_million_actions_is_cut_off` depends on it.
const FUEL_ERROR: &str = "fuel allocated for hostcalls has been exhausted";

/// Everything needed to create guests of one component, computed once.
pub(super) struct Blueprint {
    engine: Engine,
    ready: InstancePre<StoreState>,
    exports: ExportIndices,
    memory: usize,
    call: Duration,
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
pub(super) struct Instance {
    store: Store<StoreState>,
    exports: Exports,
    call: Duration,
}

/// The exports of the contract that the component implements.
enum Exports {
    Newest(AgentBackend),
    Older(older::AgentBackend),
}

/// The indices of the exports of the contract that the component implements.
enum ExportIndices {
    Newest(AgentBackendIndices),
    Older(older::AgentBackendIndices),
}

impl Blueprint {
    /// Looks up the exports, of the older contract if `is_older`.
    ///
    /// # Errors
    /// Names the missing export.
    pub(super) fn new(
        ready: InstancePre<StoreState>,
        is_older: bool,
        memory: usize,
        call: Duration,
    ) -> wasmtime::Result<Self> {
        let exports = match is_older {
            true => ExportIndices::Older(older::AgentBackendIndices::new(&ready)?),
            false => ExportIndices::Newest(AgentBackendIndices::new(&ready)?),
        };
        Ok(Self { engine: ready.engine().clone(), ready, exports, memory, call })
    }

    /// Creates a guest. Its start code runs under the limits of a call. Dropping the future leaves
    /// nothing behind.
    ///
    /// # Errors
    /// [`StartFailure`].
    pub(super) async fn start(
        &self,
        backend: Arc<str>,
        generation: Arc<str>,
    ) -> Result<Instance, StartFailure> {
        let mut store = sandbox::store(&self.engine, self.memory, backend, generation);
        let started = limited(self.call, self.ready.instantiate_async(&mut store)).await;
        let instance = match started {
            Ok(Ok(instance)) => instance,
            Ok(Err(error)) => return Err(StartFailure::Guest(failure(&store, &error))),
            Err(late) => return Err(StartFailure::Guest(GuestFailure::CutOff(late.to_string()))),
        };
        let exports = match &self.exports {
            ExportIndices::Newest(found) => found.load(&mut store, &instance).map(Exports::Newest),
            ExportIndices::Older(found) => found.load(&mut store, &instance).map(Exports::Older),
        };
        let exports = exports.map_err(|error| StartFailure::Types(format!("{error:#}")))?;
        Ok(Instance { store, exports, call: self.call })
    }
}

/// Calls an export under the run-time limit. After an error the instance must not be used again.
macro_rules! call {
    ($self:ident.$export:ident($($argument:expr),*)) => {
        match &$self.exports {
            Exports::Newest(exports) => call!($self, exports.$export($($argument),*)),
            Exports::Older(exports) => call!($self, exports.$export($($argument),*)),
        }
    };
    ($self:ident, $exports:ident.$export:ident($($argument:expr),*)) => {{
        let call = $exports.aetheel_backend_backend().$export(&mut $self.store, $($argument),*);
        match limited($self.call, call).await {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(error)) => Err(failure(&$self.store, &error)),
            Err(late) => Err(GuestFailure::CutOff(late.to_string())),
        }
    }};
}

impl Instance {
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
            Exports::Newest(exports) => {
                let inputs = convert::inputs(inputs);
                convert::actions(call!(self, exports.call_handle(&inputs))?.map_err(refused)?)
            }
            Exports::Older(exports) => {
                let inputs = convert::older::inputs(inputs);
                convert::older::actions(
                    call!(self, exports.call_handle(&inputs))?.map_err(refused)?,
                )
            }
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

fn excess_failure(excess: Excess) -> GuestFailure {
    GuestFailure::CutOff(excess.to_string())
}

/// Limits the length of a guest's text, because it appears in logs.
fn refused(mut text: String) -> GuestFailure {
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
    let cause = match error.downcast_ref::<I32Exit>() {
        Some(exit) => format!("it called exit with status {}", exit.0),
        None => cause,
    };
    let words = store.data().log.stderr_tail();
    GuestFailure::Trapped(if words.is_empty() {
        cause
    } else {
        format!("{cause}; it printed: {words}")
    })
}
