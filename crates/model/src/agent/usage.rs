//! The tokens and the money of a turn, and the allowances of an account.

use serde::{Deserialize, Serialize};

use super::is_nothing;

/// The tokens one model used in a turn.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct ModelUsage {
    pub model: String,
    pub input: u32,
    pub output: u32,
    pub cached: u32,
    pub cache_write: u32,
    pub cost_usd: Option<f64>,
}

/// Tokens and money of one turn.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Usage {
    pub input: u32,
    pub output: u32,
    pub cached: u32,
    #[serde(default, skip_serializing_if = "is_nothing")]
    pub cache_write: u32,
    pub reasoning: u32,
    pub cost_usd: Option<f64>,
    #[serde(default, skip_serializing_if = "is_nothing")]
    pub models: Vec<ModelUsage>,
    pub context_used: Option<u32>,
    pub context_size: Option<u32>,
}

/// How much of an allowance is used.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Quota {
    pub id: String,
    pub label: String,
    pub used_percent: Option<f64>,
    pub resets: Option<String>,
    pub exhausted: bool,
}
