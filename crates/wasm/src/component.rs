//! Implements the traits [`Backend`] and [`Guest`] for a loaded component.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use parking_lot::Mutex;

use super::breaker::Breaker;
use super::instance::{Blueprint, Instance, StartFailure};
use super::measure::{Gauge, ResourceUsage, timed};
use super::profile::StackProfile;
use aetheel_model::agent::{Action, Descriptor, TimedInput};
use aetheel_recording::{Backend, Generation, Guest, GuestFailure};
use aetheel_runtime::figures::{CallTimer, GuestFigures, OpenGuest};

/// One generation of a backend: one load of its component.
pub struct ComponentBackend {
    descriptor: Descriptor,
    generation: Generation,
    blueprint: Arc<Blueprint>,
    name: Arc<str>,
    label: Arc<str>,
    duty: GuestRole,
    /// Whether it serves only some lanes.
    is_on_rollout: bool,
    /// Where the stacks of guests are recorded, if they are.
    profile: Option<Arc<StackProfile>>,
}

/// How calls into a generation's guests are measured, and how failures are treated.
#[derive(Clone)]
enum GuestRole {
    /// It serves: failures are logged, and all calls are counted in the metrics.
    Serving { breaker: Arc<Mutex<Breaker>>, figures: Arc<GuestFigures> },
    /// It is on trial: its use of resources is measured.
    OnTrial(Arc<Gauge>),
}

impl GuestRole {
    fn count_call(&self) {
        match self {
            Self::Serving { figures, .. } => figures.count_call(),
            Self::OnTrial(gauge) => gauge.count_call(),
        }
    }

    fn add_run_time(&self, ran: Duration) {
        match self {
            Self::Serving { figures, .. } => figures.add_run_time(ran),
            Self::OnTrial(gauge) => gauge.add_run_time(ran),
        }
    }

    /// Records a call that began at `began` and has ended.
    fn called(&self, began: Instant, instance: &Instance) {
        match self {
            Self::Serving { figures, .. } => figures.record_memory(instance.memory()),
            Self::OnTrial(gauge) => gauge.called(began, instance.memory()),
        }
    }

    /// Counts a guest as open until the returned value is dropped.
    fn open_guest(&self) -> Option<OpenGuest> {
        match self {
            Self::Serving { figures, .. } => Some(figures.open_guest()),
            Self::OnTrial(_) => None,
        }
    }
}

impl ComponentBackend {
    pub(super) fn new(
        descriptor: Descriptor,
        generation: Generation,
        blueprint: Arc<Blueprint>,
    ) -> Self {
        let figures = GuestFigures::of(&descriptor.name, &generation.to_string());
        let duty = GuestRole::Serving { breaker: Arc::default(), figures };
        Self::with(descriptor, generation, blueprint, duty)
    }

    /// Creates a backend on trial, which does not serve.
    pub(super) fn on_trial(
        descriptor: Descriptor,
        digest: String,
        blueprint: Arc<Blueprint>,
    ) -> Self {
        Self::with(
            descriptor,
            Generation { number: 1, digest },
            blueprint,
            GuestRole::OnTrial(Arc::default()),
        )
    }

    fn with(
        descriptor: Descriptor,
        generation: Generation,
        blueprint: Arc<Blueprint>,
        duty: GuestRole,
    ) -> Self {
        let name = descriptor.name.as_str().into();
        let label = generation.to_string().into();
        Self {
            descriptor,
            generation,
            blueprint,
            name,
            label,
            duty,
            is_on_rollout: false,
            profile: None,
        }
    }

    /// Records the stacks of its guests from now on, at every tick of the engine in which a guest
    /// runs.
    #[must_use]
    pub fn profiled(self, profile: Arc<StackProfile>) -> Self {
        Self { profile: Some(profile), ..self }
    }

    /// Marks it as a version that serves only some lanes.
    pub(super) fn on_rollout(self) -> Self {
        Self { is_on_rollout: true, ..self }
    }

    /// Returns the same component on trial: its failures and its use do not count for the one that
    /// serves.
    #[must_use]
    pub fn for_trial(&self) -> Self {
        let (descriptor, digest) = (self.descriptor.clone(), self.generation.digest.clone());
        Self::on_trial(descriptor, digest, Arc::clone(&self.blueprint))
    }

    pub(super) fn into_parts(self) -> (Descriptor, Arc<Blueprint>) {
        (self.descriptor, self.blueprint)
    }

    /// Returns the resources that its guests have used so far. Zero for a component that serves,
    /// whose resources are in the metrics.
    #[must_use]
    pub fn resource_usage(&self) -> ResourceUsage {
        match &self.duty {
            GuestRole::Serving { .. } => ResourceUsage::default(),
            GuestRole::OnTrial(gauge) => gauge.read(),
        }
    }

    /// Opens a guest for a link, like [`Backend::open`], but with the concrete type.
    ///
    /// # Errors
    /// [`GuestFailure`] if the guest cannot be instantiated; [`GuestFailure::Paused`] after five
    /// failures within a minute.
    pub async fn open_guest(&self) -> Result<ComponentGuest, GuestFailure> {
        if let Some(left) = self.paused() {
            return Err(GuestFailure::Paused(format!(
                "`{}` (load {}) failed 5 times within a minute: no new links for {} s, or until a new version is loaded",
                self.name,
                self.generation.number,
                left.as_secs() + 1,
            )));
        }
        let calls = matches!(self.duty, GuestRole::Serving { .. });
        let calls = calls.then(|| CallTimer::of(&self.name));
        let log = FailureLog {
            name: self.name.clone(),
            label: self.label.clone(),
            duty: self.duty.clone(),
        };
        let began = Instant::now();
        let started = self.blueprint.start(self.name.clone(), self.label.clone());
        match timed(started, |ran| self.duty.add_run_time(ran)).await {
            Ok(mut instance) => {
                self.duty.called(began, &instance);
                if let Some(profile) = &self.profile {
                    instance.record_stacks(Arc::clone(profile));
                }
                let (state, open) = (GuestState::Live(Box::new(instance)), self.duty.open_guest());
                Ok(ComponentGuest { state, log, calls, is_profiled: self.profile.is_some(), open })
            }
            Err(StartFailure::Guest(failure)) => Err(log.failed(failure)),
            // Admission checked the types, and a component cannot change.
            Err(StartFailure::Types(reason)) => Err(log.failed(GuestFailure::Trapped(reason))),
        }
    }
}

impl fmt::Debug for ComponentBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.name, self.label)
    }
}

#[async_trait]
impl Backend for ComponentBackend {
    fn descriptor(&self) -> &Descriptor {
        &self.descriptor
    }

    fn generation(&self) -> &Generation {
        &self.generation
    }

    fn is_on_rollout(&self) -> bool {
        self.is_on_rollout
    }

    fn paused(&self) -> Option<Duration> {
        match &self.duty {
            GuestRole::Serving { breaker, .. } => breaker.lock().open_for(Instant::now()),
            GuestRole::OnTrial(_) => None,
        }
    }

    async fn open(&self) -> Result<Box<dyn Guest>, GuestFailure> {
        Ok(Box::new(self.open_guest().await?))
    }
}

/// One link's guest. After a failure, or a call whose future was dropped, every further call fails.
pub struct ComponentGuest {
    state: GuestState,
    log: FailureLog,
    /// The metrics of calls, or `None` for a component on trial.
    calls: Option<CallTimer>,
    is_profiled: bool,
    #[expect(dead_code, reason = "the guest counts as open until this is dropped")]
    open: Option<OpenGuest>,
}

enum GuestState {
    Live(Box<Instance>),
    /// A call is running, or its future was dropped together with the instance.
    Busy,
    Failed(GuestFailure),
}

impl ComponentGuest {
    /// Takes the instance for the duration of a call, so that it is dropped with the call's future.
    fn take_instance(&mut self) -> Result<Box<Instance>, GuestFailure> {
        match std::mem::replace(&mut self.state, GuestState::Busy) {
            GuestState::Live(instance) => Ok(instance),
            GuestState::Busy => {
                Err(GuestFailure::CutOff("an earlier call was abandoned".to_owned()))
            }
            GuestState::Failed(failure) => {
                self.state = GuestState::Failed(failure.clone());
                Err(failure)
            }
        }
    }

    fn return_instance<T>(
        &mut self,
        instance: Box<Instance>,
        outcome: Result<T, GuestFailure>,
    ) -> Result<T, GuestFailure> {
        match outcome {
            Ok(value) => {
                self.state = GuestState::Live(instance);
                Ok(value)
            }
            Err(failure) => {
                let failure = self.log.failed(failure);
                self.state = GuestState::Failed(failure.clone());
                Err(failure)
            }
        }
    }
}

impl fmt::Debug for ComponentGuest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "guest of {} {}", self.log.name, self.log.label)
    }
}

#[async_trait]
impl Guest for ComponentGuest {
    async fn handle(&mut self, inputs: Vec<TimedInput>) -> Result<Vec<Action>, GuestFailure> {
        let mut instance = self.take_instance()?;
        if self.is_profiled {
            instance.restart_tick();
        }
        let began = Instant::now();
        let outcome = self.log.measure(instance.handle(inputs)).await;
        if let Some(calls) = &self.calls {
            calls.ended(began);
        }
        self.log.duty.called(began, &instance);
        self.return_instance(instance, outcome)
    }

    async fn save(&mut self) -> Result<Option<String>, GuestFailure> {
        let mut instance = self.take_instance()?;
        let outcome = self.log.measure(instance.save()).await;
        self.return_instance(instance, outcome)
    }

    async fn load(&mut self, state: &str, saved_by: &str) -> Result<(), GuestFailure> {
        let mut instance = self.take_instance()?;
        let outcome = self.log.measure(instance.load(state, saved_by)).await;
        self.return_instance(instance, outcome)
    }
}

/// Measures the calls into a guest, and logs and counts its failures.
struct FailureLog {
    name: Arc<str>,
    label: Arc<str>,
    duty: GuestRole,
}

impl FailureLog {
    /// Counts a call into a guest and measures how long the guest runs.
    async fn measure<T>(&self, call: impl Future<Output = T>) -> T {
        self.duty.count_call();
        timed(call, |ran| self.duty.add_run_time(ran)).await
    }

    fn failed(&self, failure: GuestFailure) -> GuestFailure {
        let GuestRole::Serving { breaker, figures } = &self.duty else { return failure };
        let (backend, generation) = (&*self.name, &*self.label);
        figures.count_failure(failure.kind());
        let hint = matches!(failure, GuestFailure::Trapped(_)).then(|| {
            format!("`aetheel backend replay {backend} RECORDING` with the recording of the failed turn shows the source lines, if the component has debug info")
        });
        tracing::warn!(backend, generation, kind = failure.kind(), %failure, hint, "a call into the backend failed");
        if breaker.lock().record_failure(Instant::now()) {
            tracing::error!(
                backend,
                generation,
                "5 failures within a minute: the backend is paused, and prompts for it wait; hint: `aetheel backend rollback {backend}` restores the previous version, or install a fixed one"
            );
        }
        failure
    }
}
