//! Prepares the start of the gateway: settings, folders, files, components and agents. Reports all
//! problems at once.

mod closing;
pub mod clustering;
pub mod confinement;
pub mod dashboard;
mod describe;
pub mod exposure;
pub mod finding;
mod holding;
mod installing;
mod loaded;
mod modes;
mod prepare;
mod purpose;
mod refused;
pub mod running;
pub mod settings;
pub mod shipped;
pub mod surroundings;
pub mod survey;
mod tidying;
pub mod unknown;
pub mod webhooks;

pub use closing::ShutdownGuard;
pub use describe::Description;
pub use installing::{Installer, Plan, is_component_name};
pub use loaded::LoadedBackends;
pub use prepare::Prepared;
pub use purpose::Purpose;
pub use refused::{LeftOut, Refused};
