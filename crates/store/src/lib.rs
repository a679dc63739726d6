//! Files: the operator's configuration folder and the state that the gateway keeps in it.
//!
//! [`workspace`] owns every file format. [`disk`] reads and replaces files safely. Nothing here
//! knows Discord, processes or components.

pub mod disk;
pub mod workspace;
