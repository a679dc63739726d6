//! Prepares the start of the gateway: settings, folders, files, components and agents. Reports all
//! problems at once.

pub mod cleanup;
#[cfg_attr(not(feature = "cluster"), path = "cluster_absent.rs")]
pub mod cluster;
pub mod confinement;
#[cfg_attr(not(feature = "dashboard"), path = "dashboard_absent.rs")]
pub mod dashboard;
mod describe;
mod drain;
pub mod exposure;
pub mod file_modes;
mod holder;
mod host;
mod installer;
mod loaded;
mod observation;
mod options;
mod parts;
mod preparation;
mod prepare;
mod purpose;
mod refusal;
pub mod running;
pub mod settings;
pub mod shipped;
pub mod surroundings;
pub mod survey;
#[cfg_attr(not(feature = "otel"), path = "traces_absent.rs")]
mod traces;
mod turn_parts;
pub mod unknown;
pub mod webhooks;

pub use describe::{Description, MAX_REASONS_CHARS};
pub use drain::DrainHandle;
pub use host::host_of;
pub use installer::{InstallError, InstallPlan, Installer, is_component_name};
pub use loaded::LoadedBackends;
pub use options::{discord_options, node_name, trust_gate};
pub use parts::OptionalPart;
pub use prepare::PreparedStart;
pub use purpose::Purpose;
pub use refusal::{StartRefusal, TAKEN_ADDRESS};
pub use turn_parts::turn_parts;
