//! The part of a component's admission that its kind decides.

use std::future::Future;
use std::sync::Arc;

use wasmtime::Store;
use wasmtime::component::{Instance as WasmInstance, InstancePre};

use crate::admission::{check_imports, check_magic};
use crate::engine::Engine;
use crate::error::AdmissionError;
use crate::instance::{Blueprint, GuestWorld, Instance, StartFailure};
use crate::sandbox::StoreState;
use aetheel_model::extension::{ExtensionDescriptor, ExtensionKind};
use aetheel_model::limits::ResourceLimits;
use aetheel_model::plain::short_line;
use aetheel_recording::GuestFailure;

pub(super) trait ExtensionWorld: Sized + Send + Sync + 'static {
    const KIND: ExtensionKind;
    /// The exported interface, without its version.
    const CONTRACT: &'static str;
    /// The supported version: major and minor number.
    const VERSION: &'static str;
    type World: GuestWorld + Default;

    fn limits(limits: &ResourceLimits) -> ResourceLimits {
        limits.clone()
    }

    /// Tests a component, and prepares it for use with these options.
    fn prepare(
        guests: ExtensionGuests<Self::World>,
    ) -> impl Future<Output = Result<(ExtensionDescriptor, Self), AdmissionError>> + Send;
}

pub(super) struct ExtensionGuests<W: GuestWorld> {
    pub(super) blueprint: Blueprint<W>,
    pub(super) options: Arc<str>,
    /// The file of the options, for messages.
    pub(super) options_path: std::path::PathBuf,
    /// The kind of component, for its log.
    pub(super) kind: ExtensionKind,
}

impl<W: GuestWorld> ExtensionGuests<W> {
    /// Starts a guest. Dropping the future leaves nothing behind.
    pub(super) async fn start(&self) -> Result<Instance<W::Exports>, GuestFailure> {
        let started = self.blueprint.start(self.kind.word().into(), "-".into()).await;
        started.map_err(|failure| match failure {
            StartFailure::Guest(failure) => failure,
            StartFailure::Types(reason) => GuestFailure::Trapped(reason),
        })
    }
}

/// Admits a component of a kind, whose bytes are already trusted.
///
/// # Errors
/// [`AdmissionError`], the reason why it cannot be used.
pub(super) async fn admit<E: ExtensionWorld>(
    engine: &Engine,
    bytes: Arc<[u8]>,
    options: String,
    options_path: std::path::PathBuf,
) -> Result<(ExtensionDescriptor, E), AdmissionError> {
    check_magic(&bytes)?;
    let compiled = engine.compile(&bytes).await?;
    check_imports(&compiled)?;
    let wasm = compiled.runtime.wasm();
    let fits = |name: &str| {
        name.split_once('@').is_some_and(|(interface, version)| {
            let patch = version.strip_prefix(E::VERSION);
            interface == E::CONTRACT
                && patch.is_some_and(|patch| patch.starts_with('.'))
                && !version.contains('-')
        })
    };
    if !compiled.component.component_type().exports(wasm).any(|(name, _)| fits(name)) {
        let (contract, version, noun) = (E::CONTRACT, E::VERSION, E::KIND.noun());
        return Err(AdmissionError::OtherWorld { contract, version, noun });
    }
    let limits = E::limits(engine.limits());
    let blueprint = Blueprint::new(compiled, bytes, E::World::default(), &limits)?;
    let (options, kind) = (options.into(), E::KIND);
    E::prepare(ExtensionGuests { blueprint, options, options_path, kind }).await
}

impl<W: GuestWorld> ExtensionGuests<W> {
    pub(super) fn options_refused(&self, reason: &str) -> AdmissionError {
        AdmissionError::Options { path: self.options_path.clone(), reason: short_line(reason, 500) }
    }
}

/// Parses a description that a component returned twice.
pub(super) fn descriptor(text: &str, again: &str) -> Result<ExtensionDescriptor, AdmissionError> {
    if text != again {
        return Err(AdmissionError::SelfTest("`describe` returned two different texts"));
    }
    ExtensionDescriptor::parse(text).map_err(AdmissionError::ExtensionDescriptor)
}

/// Calls an export under the run-time limit. After an error the guest must not be used again.
macro_rules! call_guest {
    ($guest:ident.$interface:ident.$export:ident($($argument:expr),*)) => {{
        let call = $guest.exports.$interface().$export(&mut $guest.store, $($argument),*);
        let called = $crate::deadline::limited($guest.call, call).await;
        $guest.outcome(called)
    }};
}
pub(super) use call_guest;

/// Implements [`GuestWorld`] for the bindings of a world.
macro_rules! guest_world {
    ($name:ident, $bindings:path, $indices:path) => {
        #[derive(Clone, Copy, Debug, Default)]
        pub(in crate::extension) struct $name;

        impl GuestWorld for $name {
            type Indices = $indices;
            type Exports = $bindings;

            fn find(self, ready: &InstancePre<StoreState>) -> wasmtime::Result<Self::Indices> {
                Self::Indices::new(ready)
            }

            fn load(
                indices: &Self::Indices,
                store: &mut Store<StoreState>,
                instance: &WasmInstance,
            ) -> wasmtime::Result<Self::Exports> {
                indices.load(store, instance)
            }
        }
    };
}

guest_world!(
    PolicyGuestWorld,
    crate::bindings::policy::ToolPolicy,
    crate::bindings::policy::ToolPolicyIndices
);

guest_world!(
    ObserverGuestWorld,
    crate::bindings::observer::TurnObserver,
    crate::bindings::observer::TurnObserverIndices
);
