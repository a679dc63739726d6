//! A component with the operator's choices: one process for many turns (live) or one for each turn,
//! and with options, an account, or the agent of a launch profile.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use sha2::{Digest as _, Sha256};

use super::accounts;
use aetheel_model::agent::Descriptor;
use aetheel_model::agent::descriptor::{DescriptorError, LinkSharing, OneShot};
use aetheel_model::plain::hex;
use aetheel_recording::{Backend, Generation, Guest, GuestFailure};
use aetheel_settings::RunMode;
use aetheel_store::workspace::{Account, Profile};

/// A component whose descriptor, generation and options include the operator's choices.
pub(super) struct ConfiguredBackend {
    inner: Arc<dyn Backend>,
    descriptor: Descriptor,
    generation: Generation,
    options: String,
}

/// The operator's choice for a component, with the number of its changes since the start.
pub(super) enum OperatorChoice<'a> {
    Nothing,
    /// Options of the backend, as a JSON object.
    Options(String, u32),
    /// The agent of a launch profile.
    Profile(&'a Profile, u32),
    /// An account of the agent, with the options of its backend.
    Account(&'a Account, Option<String>, u32),
}

impl ConfiguredBackend {
    /// Combines a component with the operator's choices. Returns the component itself if they
    /// change nothing.
    ///
    /// # Errors
    /// Returns [`DescriptorError`] if the profile or the account does not fit the backend.
    pub(super) fn of(
        inner: Arc<dyn Backend>,
        run: RunMode,
        with: OperatorChoice<'_>,
    ) -> Result<Arc<dyn Backend>, DescriptorError> {
        let once = run == RunMode::OneShot && inner.descriptor().sharing != LinkSharing::Turn;
        let (generation, options, descriptor) = match with {
            OperatorChoice::Nothing if !once => return Ok(inner),
            OperatorChoice::Nothing => {
                (inner.generation().clone(), inner.options().to_owned(), inner.descriptor().clone())
            }
            OperatorChoice::Options(options, revision) => {
                let descriptor = inner.descriptor().clone();
                (
                    derived_generation(inner.generation(), &descriptor, &options, revision),
                    options,
                    descriptor,
                )
            }
            OperatorChoice::Profile(profile, revision) => {
                let (descriptor, options) = (profile.apply(inner.descriptor())?, profile.options());
                (
                    derived_generation(inner.generation(), &descriptor, &options, revision),
                    options,
                    descriptor,
                )
            }
            OperatorChoice::Account(account, options, revision) => {
                let descriptor = accounts::descriptor_of(account, inner.descriptor())?;
                let options = options.unwrap_or_else(|| inner.options().to_owned());
                // The sources of the variables are not in the text form of the descriptor.
                let choices = format!("{options}\n{:?}", account.variables);
                let generation =
                    derived_generation(inner.generation(), &descriptor, &choices, revision);
                (generation, options, descriptor)
            }
        };
        let descriptor = if once { descriptor.as_one_shot() } else { descriptor };
        Ok(Arc::new(Self { inner, descriptor, generation, options }))
    }
}

/// Derives a generation from the component's, the profile and the options. A change of any of them
/// gives another generation, so that no link is used with other choices than it was opened with.
fn derived_generation(
    of: &Generation,
    descriptor: &Descriptor,
    options: &str,
    revision: u32,
) -> Generation {
    let descriptor = serde_json::to_string(descriptor).unwrap_or_default();
    let digest = Sha256::digest(format!("{}\n{descriptor}\n{options}", of.digest));
    Generation { number: of.number + revision, digest: hex(&digest) }
}

#[async_trait]
impl Backend for ConfiguredBackend {
    fn descriptor(&self) -> &Descriptor {
        &self.descriptor
    }

    fn generation(&self) -> &Generation {
        &self.generation
    }

    fn options(&self) -> &str {
        &self.options
    }

    fn is_on_rollout(&self) -> bool {
        self.inner.is_on_rollout()
    }

    fn paused(&self) -> Option<Duration> {
        self.inner.paused()
    }

    async fn open(&self) -> Result<Box<dyn Guest>, GuestFailure> {
        self.inner.open().await
    }
}

/// Returns how a backend runs if `wanted` is chosen, with a warning if it cannot run that way.
pub(super) fn resolve_run(
    name: &str,
    descriptor: &Descriptor,
    wanted: Option<RunMode>,
) -> (RunMode, Option<String>) {
    let (usual, other) = match (descriptor.sharing, descriptor.one_shot) {
        (LinkSharing::Turn, _) => (RunMode::OneShot, false),
        (_, OneShot::Never) => (RunMode::Live, false),
        (_, OneShot::Offered) => (RunMode::Live, true),
        (_, OneShot::Preferred) => (RunMode::OneShot, true),
    };
    match wanted {
        Some(wanted) if wanted != usual && !other => {
            let warning = format!(
                "BACKEND_RUN: backend `{name}` cannot run {}, only {}; it is ignored",
                wanted.word(),
                usual.word()
            );
            (usual, Some(warning))
        }
        Some(wanted) => (wanted, None),
        None => (usual, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use aetheel_model::agent::descriptor::Feature;
    use aetheel_store::workspace::Profiles;

    struct Plain(Descriptor, Generation);

    #[async_trait]
    impl Backend for Plain {
        fn descriptor(&self) -> &Descriptor {
            &self.0
        }

        fn generation(&self) -> &Generation {
            &self.1
        }

        async fn open(&self) -> Result<Box<dyn Guest>, GuestFailure> {
            Err(GuestFailure::Refused("the component was asked".into()))
        }
    }

    fn descriptor(sharing: &str, one_shot: &str) -> Descriptor {
        let json = format!(
            r#"{{"name":"x","version":"1","programs":[{{"name":"x"}}],"sharing":"{sharing}","one-shot":"{one_shot}",
            "features":["resume","steer"],"live-only":["steer"]}}"#
        );
        Descriptor::parse(&json).expect("valid")
    }

    fn component(sharing: &str, one_shot: &str) -> Arc<dyn Backend> {
        Arc::new(Plain(
            descriptor(sharing, one_shot),
            Generation { number: 3, digest: "d".repeat(64) },
        ))
    }

    #[test]
    fn a_backend_runs_as_chosen_if_it_can_and_in_its_usual_way_otherwise() {
        let cases = [
            ("turn", "never", None, RunMode::OneShot, false),
            ("turn", "never", Some(RunMode::Live), RunMode::OneShot, true),
            ("turn", "never", Some(RunMode::OneShot), RunMode::OneShot, false),
            ("session", "never", None, RunMode::Live, false),
            ("session", "never", Some(RunMode::OneShot), RunMode::Live, true),
            ("link", "offered", None, RunMode::Live, false),
            ("link", "offered", Some(RunMode::OneShot), RunMode::OneShot, false),
            ("session", "preferred", None, RunMode::OneShot, false),
            ("session", "preferred", Some(RunMode::Live), RunMode::Live, false),
        ];
        for (sharing, one_shot, wanted, run, warned) in cases {
            let (found, warning) = resolve_run("x", &descriptor(sharing, one_shot), wanted);
            assert_eq!(
                (found, warning.is_some()),
                (run, warned),
                "{sharing} {one_shot} {wanted:?}: {warning:?}"
            );
        }
    }

    #[tokio::test]
    async fn a_one_shot_run_lacks_live_only_features_and_uses_the_same_component() {
        let once = ConfiguredBackend::of(
            component("link", "offered"),
            RunMode::OneShot,
            OperatorChoice::Nothing,
        )
        .expect("fits");
        assert_eq!((once.descriptor().sharing, once.options()), (LinkSharing::Turn, "{}"));
        assert!(once.descriptor().has(Feature::Resume) && !once.descriptor().has(Feature::Steer));
        assert_eq!(once.generation().to_string(), "3@dddddddddddd");
        assert!(
            matches!(once.open().await, Err(GuestFailure::Refused(said)) if said == "the component was asked")
        );
        let live = ConfiguredBackend::of(
            component("link", "offered"),
            RunMode::Live,
            OperatorChoice::Nothing,
        )
        .expect("fits");
        assert!(live.descriptor().has(Feature::Steer));
    }

    #[test]
    fn another_profile_is_another_generation() {
        let of = |command: &str, revision| {
            let profiles = Profiles::parse(&format!("## it\n- command: {command}\n"));
            ConfiguredBackend::of(
                component("link", "never"),
                RunMode::Live,
                OperatorChoice::Profile(&profiles.all["it"], revision),
            )
            .expect("fits")
        };
        let (first, same, other) = (of("it a", 0), of("it a", 0), of("it b", 1));
        assert_eq!(
            (first.descriptor().name.as_str(), first.generation()),
            ("it", same.generation())
        );
        assert_ne!(first.generation().digest, other.generation().digest);
        assert_eq!((first.generation().number, other.generation().number), (3, 4));
        assert!(first.options().contains("\"a\""), "{}", first.options());
    }

    #[test]
    fn other_options_are_another_generation_of_the_same_component() {
        let of = |options: &str, revision| {
            ConfiguredBackend::of(
                component("link", "never"),
                RunMode::Live,
                OperatorChoice::Options(options.to_owned(), revision),
            )
            .expect("fits")
        };
        let (first, same, other) = (of("{}", 1), of("{}", 1), of(r#"{"a":1}"#, 2));
        assert_eq!(
            (first.generation(), first.options(), other.options()),
            (same.generation(), "{}", r#"{"a":1}"#)
        );
        assert_ne!(first.generation().digest, other.generation().digest);
        assert_eq!((first.generation().number, other.generation().number), (4, 5));
    }
}
