//! Gives the dispatcher access to the backends by name.

use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;

use super::AgentRegistry;
use aetheel_model::id::ChannelId;
use aetheel_recording::{Backend, Generation, RolloutPair};
use aetheel_turn::{Backends, VersionError};

#[async_trait]
impl Backends for AgentRegistry {
    fn get(&self, name: &str) -> Option<Arc<dyn Backend>> {
        let (inner, variant) = self.base(name)?;
        self.build(name, inner, &variant)
    }

    async fn by_digest(&self, name: &str, digest: &str) -> Option<Arc<dyn Backend>> {
        let is_it = |backend: &Arc<dyn Backend>| backend.generation().digest == digest;
        if let Some(backend) = self.get(name).filter(is_it) {
            return Some(backend);
        }
        let variant = self.variant(name);
        if let Some(successor) = self.successor(name).filter(is_it) {
            return Some(successor);
        }
        let kept = self.components.kept_components(&self.component_of(name)).await;
        kept.into_iter().find_map(|earlier| {
            let earlier = earlier as Arc<dyn Backend>;
            self.build(name, earlier, &variant).filter(is_it)
        })
    }

    async fn has_earlier(&self, name: &str) -> bool {
        // The name may come from a file, and must not become a part of a path unchecked.
        self.names().iter().any(|known| known == name)
            && self.components.has_earlier(&self.component_of(name)).await
    }

    fn names(&self) -> Vec<String> {
        let (profiled, mut names): (Vec<String>, Vec<String>) =
            self.components.names().into_iter().partition(|name| self.takes_profiles(name));
        let profiles = (!profiled.is_empty())
            .then(|| self.read().profiles.keys().cloned().collect::<Vec<_>>());
        names.extend(profiles.into_iter().flatten());
        names.extend(self.account_backends());
        names.sort_unstable();
        names.dedup();
        names
    }

    fn offered(&self) -> Vec<String> {
        let mut names = self.names();
        names.retain(|name| match self.findings(name) {
            Some(findings) => findings.faults.is_empty(),
            None => self.inspect(name).is_some_and(|findings| findings.faults.is_empty()),
        });
        names
    }

    fn rotation(&self, name: &str) -> Vec<String> {
        let of = self.account(name).map_or_else(|| name.to_owned(), |(account, _)| account.of);
        self.options.rotation(&of)
    }

    fn unaccepted(&self, name: &str) -> Vec<String> {
        self.unapproved_of(name)
    }

    async fn unavailable(&self, name: &str) -> Option<String> {
        // The operator may have fixed the problem since the last examination.
        let findings = match self.findings(name) {
            Some(findings) if findings.faults.is_empty() => findings,
            _ => self.examine(name).await?,
        };
        let reasons: Vec<&str> = findings.faults.iter().map(|fault| fault.brief).collect();
        (!reasons.is_empty()).then(|| reasons.join(", and "))
    }

    fn rollout(&self, name: &str) -> Option<RolloutPair> {
        self.components.rollout(&self.component_of(name))
    }

    fn successor(&self, name: &str) -> Option<Arc<dyn Backend>> {
        self.build_replacement(name, self.components.partial().successor(&self.component_of(name))?)
    }

    fn live(&self, name: &str, channel: ChannelId) -> Option<Arc<dyn Backend>> {
        self.build_replacement(
            name,
            self.components.partial().live(&self.component_of(name), channel)?,
        )
    }

    fn component_digest(&self, name: &str) -> Option<String> {
        Some(self.components.component(&self.component_of(name))?.generation().digest.clone())
    }

    async fn promote(&self, name: &str, digest: &str) -> Result<Generation, VersionError> {
        self.components.promote(&self.component_of(name), digest).await
    }

    async fn withdraw(&self, name: &str, digest: &str) -> Result<PathBuf, VersionError> {
        self.components.withdraw(&self.component_of(name), digest).await
    }

    async fn roll_back(&self, name: &str, from: &Generation) -> Result<Generation, VersionError> {
        let serves = self.get(name).map(|backend| backend.generation().clone());
        if serves.as_ref() != Some(from) {
            return Err(VersionError::Superseded { name: name.to_owned(), serves });
        }
        // The digest of a profile's generation differs from that of its component.
        let component = self.component_of(name);
        let beneath = self
            .components
            .component(&component)
            .map(|beneath| beneath.generation().digest.clone());
        let generation = self.components.restore_previous(&component, beneath.as_deref()).await?;
        Ok(self.get(name).map_or(generation, |backend| backend.generation().clone()))
    }
}
