//! The start, up to the point where prompts may come: settings, folders, files, components, agents.
//! All faults are told at once.

mod closing;
pub mod clustering;
pub mod confinement;
pub mod dashboard;
pub mod exposure;
mod holding;
mod installing;
mod loaded;
mod prepare;
mod refused;
pub mod running;
pub mod settings;
pub mod shipped;
pub mod survey;
mod tidying;
pub mod unknown;
pub mod webhooks;

pub use closing::ShutdownGuard;
pub use installing::{Installer, Plan, is_component_name};
pub use loaded::LoadedBackends;
pub use prepare::{Prepared, Purpose};
pub use refused::{LeftOut, Refused};
