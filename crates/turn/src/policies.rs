//! The port to policies. WASM components implement it; in tests, scripted policies do.

use async_trait::async_trait;

use aetheel_model::policy::{PolicyRequest, PolicyVote};

/// The policies that are loaded now.
#[async_trait]
pub trait Policies: Send + Sync {
    /// Returns whether no policy is loaded, so that people decide about everything.
    fn is_empty(&self) -> bool;

    /// Lets each policy decide about a request, and returns the decisions ordered by name. A policy
    /// that fails or exceeds its time leaves the decision to people. Dropping the future leaves
    /// nothing behind.
    async fn decide(&self, request: &PolicyRequest) -> Vec<PolicyVote>;
}

/// No policies: people decide about everything.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoPolicies;

#[async_trait]
impl Policies for NoPolicies {
    fn is_empty(&self) -> bool {
        true
    }

    async fn decide(&self, _request: &PolicyRequest) -> Vec<PolicyVote> {
        Vec::new()
    }
}
