//! Why a component does not serve, and what the operator can do about it.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::standing::Distrust;
use super::wants::Wants;
use aetheel_model::agent::descriptor::DescriptorError;
use aetheel_turn::GuestFailure;

/// The interface every backend exports, without its version.
pub(super) const CONTRACT: &str = "aetheel:backend/backend";
/// The contracts this host speaks: major and minor, the newest first. Within one, versions fit each
/// other.
pub(super) const SUPPORTED: [&str; 2] = ["0.2", "0.1"];

/// Why a component does not serve. The file and its path are the caller's to name.
#[derive(Debug, thiserror::Error)]
pub enum AdmissionError {
    /// The file could not be read.
    #[error("cannot be read")]
    Read(#[source] io::Error),
    /// A directory, a pipe or the like.
    #[error("is not a file")]
    NotAFile,
    /// It was written to while it was read.
    #[error("is being written to")]
    Changing,
    /// Larger than the operator allows.
    #[error("is {size} bytes large, the limit is {limit} (COMPONENT_LIMIT_BYTES)")]
    TooLarge {
        /// Size of the file, bytes.
        size: u64,
        /// The limit in bytes, `COMPONENT_LIMIT_BYTES`.
        limit: u64,
    },
    /// The file is no WebAssembly; why.
    #[error("is not a WebAssembly file: {0}")]
    NotWasm(&'static str),
    /// A module where a component is needed.
    #[error("is a core module, not a component")]
    CoreModule,
    /// Truncated, corrupt or using something the sandbox does not have.
    #[error("cannot be compiled: {0}")]
    Compile(String),
    /// Compiling took longer than this.
    #[error("was not compiled within {} s (COMPILE_TIMEOUT_MS)", .0.as_secs())]
    CompileTime(Duration),
    /// Imports what no backend may have.
    #[error("imports `{0}`, which no backend may have")]
    ForbiddenImport(String),
    /// Exports no version of the contract.
    #[error("does not export `{CONTRACT}`: it is no backend, or not the whole file")]
    NoContract,
    /// Exports another version of the contract.
    #[error("implements {CONTRACT}@{version}, this host supports {supported}", version = .0, supported = SUPPORTED.join(" and "))]
    ContractVersion(String),
    /// Says that it fits, but its types or functions differ.
    #[error("does not fit the contract it names: {0}")]
    ContractTypes(String),
    /// An import that should be there is not, or has another type.
    #[error("cannot be linked: {0}")]
    Link(String),
    /// It failed while it was tried out.
    #[error("failed in {step}")]
    Trial {
        /// The step: `its start`, `` its `describe` `` …
        step: &'static str,
        /// The guest's failure in it.
        #[source]
        failure: GuestFailure,
    },
    /// Its descriptor cannot be used.
    #[error("describes itself wrongly")]
    Descriptor(#[source] DescriptorError),
    /// It survived, but answered what cannot be.
    #[error("failed its self-test: {0}")]
    SelfTest(&'static str),
    /// It does not make of its own recordings what it should; which, where and how.
    #[error("fails a recording of its own: {0}")]
    Case(String),
    /// The operator's trust settings do not let it in.
    #[error("is not trusted here (BACKEND_TRUST)")]
    Untrusted(#[source] Distrust),
    /// It may do more than the operator accepted.
    #[error("{0}")]
    Unaccepted(Arc<Wants>),
    /// Another file has the name already.
    #[error("claims the name `{name}`, which {} already has", owner.display())]
    NameTaken {
        /// The name both files claim.
        name: String,
        /// The file that has it.
        owner: PathBuf,
    },
}

impl AdmissionError {
    /// The next step for the operator.
    #[must_use]
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Read(_) | Self::NotAFile => "check the file and its permissions",
            Self::Changing => "it is read again once it is quiet",
            Self::TooLarge { .. } => "build it for release and stripped, or raise the limit",
            Self::NotWasm(_) | Self::Compile(_) => {
                "the file may be incomplete: copy it again, best under another name and then renamed"
            }
            Self::CoreModule => {
                "make a component of it: `aetheel backend componentize MODULE -o FILE`, or, in Rust, build for wasm32-wasip2"
            }
            Self::CompileTime(_) => "touch the file to try again, or raise the limit",
            Self::ForbiddenImport(_) => {
                "build it without that import; wit/README.md lists what is there"
            }
            Self::NoContract
            | Self::ContractVersion(_)
            | Self::ContractTypes(_)
            | Self::Link(_) => "build it against the wit/ folder of this host's version",
            Self::Trial { .. } | Self::Descriptor(_) | Self::SelfTest(_) => {
                "fix the backend; `aetheel backend check` shows this without serving it"
            }
            Self::Case(_) => {
                "fix the backend or the recording beside it; `aetheel backend test` with both shows what differs"
            }
            Self::Untrusted(distrust) => distrust.hint(),
            Self::Unaccepted(_) => {
                "it will not run until you accept it: `aetheel backend approve NAME` shows all of it and asks"
            }
            Self::NameTaken { .. } => {
                "remove one of the two files, or have both say which agent versions they understand"
            }
        }
    }
}
