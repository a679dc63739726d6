//! Backends in OCI registries and in folders with the OCI image layout.
//!
//! A backend is stored as a [CNCF Wasm OCI artifact][wasm]: a manifest with the component, and if
//! they exist its minisign signature and its cases ([`BackendArtifact`]). Everything that arrives is
//! limited in size and compared with its digest before anybody gets it. Credentials are sent only
//! to the registry that they belong to, and to the token service that it names.
//!
//! Artifacts are only read: other programs, such as `oras`, push them and copy them into folders.
//!
//! | module | content |
//! |---|---|
//! | [`mod@reference`], [`source`] | names of artifacts, and the places that have them |
//! | [`client`], [`login`], [`challenge`] | a registry, and credentials for it |
//! | [`layout`] | a folder with the OCI image layout |
//! | [`artifact`], [`manifest`], [`digest`], [`cases`] | a backend as an artifact |
//! | [`error`] | the reasons why an artifact cannot be fetched |
//!
//! Used by the command `aetheel backend install`; the gateway does not use this crate.
//! `tests/artifacts` tests it with a real registry and with hostile ones.
//!
//! [wasm]: https://tag-runtime.cncf.io/wgs/wasm/deliverables/wasm-oci-artifact/

mod artifact;
mod cases;
mod challenge;
mod client;
mod digest;
mod error;
mod layout;
mod login;
mod manifest;
mod reference;
mod source;

pub use artifact::BackendArtifact;
pub use cases::{CasesError, unpack as unpack_cases};
pub use client::RegistryClient;
pub use digest::BlobDigest;
pub use error::RegistryError;
pub use layout::{LayoutError, LayoutFolder};
pub use login::{LoginError, RegistryLogin};
pub use manifest::ManifestError;
pub use reference::{ArtifactReference, ReferenceError};
pub use source::ArtifactSource;
