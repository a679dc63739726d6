//! Policies: components that decide about an agent's request to use a tool.
//!
//! Each decision gets a fresh guest, so that a policy has no memory and the same request always
//! gets the same decision.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tracing::Instrument as _;

use super::loaded::{ExtensionInfo, ExtensionRefusal, LoadedExtension};
use super::set::ExtensionSet;
use super::world::{self, ExtensionGuests, ExtensionWorld, PolicyGuestWorld, call_guest};
use crate::bindings::policy::exports::aetheel::policy::policy as wit;
use crate::deadline::limited;
use crate::engine::Engine;
use crate::error::AdmissionError;
use crate::instance::refused;
use crate::trust::TrustGate;
use aetheel_model::agent::Safety;
use aetheel_model::extension::{ExtensionDescriptor, ExtensionKind};
use aetheel_model::limits::ResourceLimits;
use aetheel_model::policy::{PolicyEffect, PolicyRequest, PolicyVote};
use aetheel_recording::GuestFailure;
use aetheel_turn::Policies;

/// Time in which a guest may start, read its options and decide.
const DECISION_TIME: Duration = Duration::from_millis(500);
/// Maximum number of decisions of a policy at the same time, which bounds their memory.
const MAX_DECISIONS: usize = 16;
/// Maximum length of a reason in bytes, before it is made safe to show.
const REASON_BYTES: usize = 4 << 10;

pub(super) struct PolicyComponent {
    guests: ExtensionGuests<PolicyGuestWorld>,
    slots: Semaphore,
}

impl ExtensionWorld for PolicyComponent {
    const KIND: ExtensionKind = ExtensionKind::Policy;
    const CONTRACT: &'static str = "aetheel:policy/policy";
    const VERSION: &'static str = "0.1";
    type World = PolicyGuestWorld;

    fn limits(limits: &ResourceLimits) -> ResourceLimits {
        ResourceLimits { guest_call: DECISION_TIME, ..limits.clone() }
    }

    async fn prepare(
        guests: ExtensionGuests<PolicyGuestWorld>,
    ) -> Result<(ExtensionDescriptor, Self), AdmissionError> {
        let failed = |step| move |failure| AdmissionError::Trial { step, failure };
        let mut guest = guests.start().await.map_err(failed("its start"))?;
        let text = call_guest!(guest.aetheel_policy_policy.call_describe())
            .map_err(failed("its `describe`"))?;
        let again = call_guest!(guest.aetheel_policy_policy.call_describe())
            .map_err(failed("its `describe`"))?;
        let descriptor = world::descriptor(&text, &again)?;
        let configured = call_guest!(guest.aetheel_policy_policy.call_configure(&guests.options))
            .map_err(failed("its `configure`"))?;
        configured.map_err(|reason| guests.options_refused(&reason))?;
        drop(guest);
        let policy = Self { guests, slots: Semaphore::new(MAX_DECISIONS) };
        policy.decide(&first_request()).await.map_err(failed("its first `decide`"))?;
        Ok((descriptor, policy))
    }
}

impl PolicyComponent {
    /// Decides about a request in a fresh guest. Dropping the future leaves nothing behind.
    async fn decide(&self, request: &wit::Request) -> Result<wit::Decision, GuestFailure> {
        let _slot = self.slots.acquire().await.expect("the semaphore is never closed");
        let decision = async {
            let mut guest = self.guests.start().await?;
            call_guest!(guest.aetheel_policy_policy.call_configure(&self.guests.options))?
                .map_err(refused)?;
            call_guest!(guest.aetheel_policy_policy.call_decide(request))?.map_err(refused)
        };
        limited(DECISION_TIME, decision)
            .await
            .unwrap_or_else(|late| Err(GuestFailure::CutOff(late.to_string())))
    }
}

impl LoadedExtension<PolicyComponent> {
    /// Decides about a request. If the policy cannot, people are asked.
    async fn vote(&self, request: &wit::Request) -> PolicyVote {
        let (policy, version) = (self.descriptor.name.clone(), self.descriptor.version.clone());
        match self.extension.decide(request).await {
            Ok(wit::Decision { effect, mut reason }) => {
                reason.truncate(reason.floor_char_boundary(REASON_BYTES));
                let effect = match effect {
                    wit::Effect::Allow => PolicyEffect::Allow,
                    wit::Effect::Ask => PolicyEffect::Ask,
                    wit::Effect::Deny => PolicyEffect::Deny,
                    wit::Effect::Pass => PolicyEffect::Pass,
                };
                PolicyVote { policy, version, effect, reason, failed: false }
            }
            Err(failure) => {
                let reason = match failure {
                    GuestFailure::Refused(why) => format!("it gave up: {why}"),
                    GuestFailure::Trapped(why) => format!("it crashed: {why}"),
                    GuestFailure::CutOff(why) | GuestFailure::Paused(why) => {
                        format!("it was stopped: {why}")
                    }
                };
                tracing::warn!(
                    policy,
                    version,
                    reason,
                    "a policy could not decide, so people are asked"
                );
                PolicyVote { policy, version, effect: PolicyEffect::Ask, reason, failed: true }
            }
        }
    }
}

/// The policies of a folder. Dropping it ends the watch.
pub struct PolicySet(ExtensionSet<PolicyComponent>);

impl PolicySet {
    /// Loads the policies of `policies` in the backends folder, and follows its changes from then
    /// on. Returns the files that are not used.
    pub async fn start(
        engine: Engine,
        backends: &Path,
        gate: TrustGate,
    ) -> (Self, Vec<ExtensionRefusal>) {
        let (set, refused) = ExtensionSet::start(engine, backends, gate).await;
        (Self(set), refused)
    }

    /// Describes the policies that are in use now, by name.
    #[must_use]
    pub fn list(&self) -> Vec<ExtensionInfo> {
        self.0.list()
    }
}

#[async_trait]
impl Policies for PolicySet {
    fn is_empty(&self) -> bool {
        self.0.current().is_empty()
    }

    async fn decide(&self, request: &PolicyRequest) -> Vec<PolicyVote> {
        let request = Arc::new(converted(request));
        let mut deciding = JoinSet::new();
        for policy in self.0.current().values() {
            let (policy, request) = (Arc::clone(policy), Arc::clone(&request));
            deciding.spawn(async move { policy.vote(&request).await }.in_current_span());
        }
        let mut votes = deciding.join_all().await;
        votes.sort_by(|one, other| one.policy.cmp(&other.policy));
        votes
    }
}

/// A policy that was loaded from a file of any folder, to try it.
pub struct LoadedPolicy(LoadedExtension<PolicyComponent>);

impl LoadedPolicy {
    /// Admits a policy in the same way as loading does, except for its trust.
    ///
    /// # Errors
    /// [`AdmissionError`], the reason why it could not be used.
    pub async fn open(engine: &Engine, path: &Path) -> Result<Self, AdmissionError> {
        LoadedExtension::open(engine, path).await.map(Self)
    }

    /// Returns the policy's description of itself.
    #[must_use]
    pub fn descriptor(&self) -> &ExtensionDescriptor {
        &self.0.descriptor
    }

    /// Returns the SHA-256 of its file, in lower-case hex.
    #[must_use]
    pub fn digest(&self) -> &str {
        &self.0.digest
    }

    /// Decides about a request.
    pub async fn decide(&self, request: &PolicyRequest) -> PolicyVote {
        self.0.vote(&converted(request)).await
    }
}

fn converted(request: &PolicyRequest) -> wit::Request {
    let context = &request.context;
    let paths = request.paths.iter().map(|path| wit::ToolPath {
        path: path.path.clone(),
        resolved: path.resolved.clone(),
        inside: path.is_inside,
    });
    wit::Request {
        backend: context.backend.clone(),
        lane: context.lane.clone(),
        project: context.project.clone(),
        person: context.person.clone(),
        safety: match context.safety {
            Safety::Default => wit::Safety::Ask,
            Safety::Edit => wit::Safety::Edit,
            Safety::Danger => wit::Safety::Danger,
        },
        cwd: context.cwd.clone(),
        kind: request.kind.clone(),
        tool: request.tool.clone(),
        title: request.title.clone(),
        command: request.command.clone(),
        paths: paths.collect(),
        address: request.address.clone(),
        input: request.input.clone(),
        sub_agent: request.is_sub_agent,
    }
}

/// Returns the request with which a policy is tested before it is used.
fn first_request() -> wit::Request {
    wit::Request {
        backend: "candidate".to_owned(),
        lane: "console".to_owned(),
        project: None,
        person: None,
        safety: wit::Safety::Ask,
        cwd: "/nowhere".to_owned(),
        kind: "bash".to_owned(),
        tool: "shell".to_owned(),
        title: "ls".to_owned(),
        command: Some("ls".to_owned()),
        paths: Vec::new(),
        address: None,
        input: r#"{"command":"ls"}"#.to_owned(),
        sub_agent: false,
    }
}
