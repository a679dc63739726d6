//! The reasons why a component does not serve, and the operator's next step.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::requested::RequestedCapabilities;
use super::trust_state::Distrust;
use aetheel_model::agent::descriptor::DescriptorError;
use aetheel_model::extension::ExtensionDescriptorError;
use aetheel_recording::GuestFailure;
use aetheel_recording::selftest::SelftestError;

/// The interface that every backend exports, without its version.
pub(super) const CONTRACT: &str = "aetheel:backend/backend";
/// The versions of the contract that this host supports: major and minor number, the newest first.
/// Patch versions are compatible.
pub(super) const SUPPORTED: [(&str, ContractVersion); 3] = [
    ("0.3", ContractVersion::V0_3),
    ("0.2", ContractVersion::V0_2),
    ("0.1", ContractVersion::V0_1),
];

/// Part of wasmtime's error for a component with asynchronous functions, streams or futures.
const ASYNC_FEATURE: &str = "component model async feature";

/// Returns the supported versions for people.
fn supported() -> String {
    let [newer @ .., oldest] = SUPPORTED.map(|(version, _)| version);
    format!("{} and {oldest}", newer.join(", "))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ContractVersion {
    V0_3,
    V0_2,
    V0_1,
}

/// The reason why a component does not serve. The caller adds the path of the file.
#[derive(Debug, thiserror::Error)]
pub enum AdmissionError {
    /// The file could not be read.
    #[error("cannot be read")]
    Read(#[source] io::Error),
    /// The path is a directory, a pipe or the like.
    #[error("is not a file")]
    NotAFile,
    /// The file changed while it was read.
    #[error("is being written to")]
    Changing,
    /// The file is larger than the operator allows.
    #[error("is {size} bytes large, the limit is {limit} (COMPONENT_LIMIT_BYTES)")]
    TooLarge {
        /// The size of the file in bytes.
        size: u64,
        /// The limit in bytes (`COMPONENT_LIMIT_BYTES`).
        limit: u64,
    },
    /// The file is not WebAssembly, for this reason.
    #[error("is not a WebAssembly file: {0}")]
    NotWasm(&'static str),
    /// The file is a core module, not a component.
    #[error("is a core module, not a component")]
    CoreModule,
    /// The file is truncated or damaged, or uses a feature that the sandbox does not support.
    #[error("cannot be compiled: {0}")]
    Compile(String),
    /// Compiling took longer than this limit.
    #[error("was not compiled within {} s (COMPILE_TIMEOUT_MS)", .0.as_secs())]
    CompileTime(Duration),
    /// The component imports an interface that no component may use.
    #[error("imports `{0}`, which no component may have")]
    ForbiddenImport(String),
    /// The component exports no version of the contract.
    #[error("does not export `{CONTRACT}`: it is not a backend, or not the whole file")]
    NoContract,
    /// The component exports a version of the contract that this host does not support.
    #[error("implements {CONTRACT}@{version}, this host supports {supported}", version = .0, supported = supported())]
    ContractVersion(String),
    /// The component is not of the world that its folder is for, or of a version that this host
    /// does not support.
    #[error("does not export `{contract}@{version}`: it is not {noun} for this host")]
    OtherWorld {
        /// The interface that the folder's components export.
        contract: &'static str,
        /// The version that this host supports.
        version: &'static str,
        /// The kind of component, with its article.
        noun: &'static str,
    },
    /// The component refuses its options, for this reason.
    #[error("refuses its options in {}: {reason}", path.display())]
    Options {
        /// The file of the options.
        path: PathBuf,
        /// The component's reason, or the reason why the file cannot be read.
        reason: String,
    },
    /// The description of a policy or an observer is not valid.
    #[error("has an invalid descriptor: {0}")]
    ExtensionDescriptor(#[source] ExtensionDescriptorError),
    /// The types or functions of the component differ from the contract that it names.
    #[error("does not fit the contract it names: {0}")]
    ContractTypes(String),
    /// An import is missing or has another type.
    #[error("cannot be linked: {0}")]
    Link(String),
    /// The component failed during its self-test.
    #[error("failed in {step}")]
    Trial {
        /// The step, for example `its start` or `` its `describe` ``.
        step: &'static str,
        /// The guest's failure.
        #[source]
        failure: GuestFailure,
    },
    /// The descriptor of the component is not valid.
    #[error("has an invalid descriptor")]
    Descriptor(#[source] DescriptorError),
    /// The component returned an invalid result during its self-test.
    #[error("failed its self-test: {0}")]
    SelfTest(&'static str),
    /// The component does not reproduce one of its own recordings. Contains the file, the line and
    /// the difference.
    #[error("fails a recording of its own: {0}")]
    Case(SelftestError),
    /// The operator's trust settings do not admit the component.
    #[error("is not trusted here (BACKEND_TRUST)")]
    Untrusted(#[source] Distrust),
    /// The component requests more capabilities than the operator accepted.
    #[error("{0}")]
    Unaccepted(Arc<RequestedCapabilities>),
    /// Another file already has this backend name.
    #[error("claims the name `{name}`, which {} already has", owner.display())]
    NameTaken {
        /// The name that both files claim.
        name: String,
        /// The file that has the name.
        owner: PathBuf,
    },
}

impl AdmissionError {
    /// Returns the operator's next step.
    #[must_use]
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Read(_) | Self::NotAFile => "check the file and its permissions",
            Self::Changing => "it is read again once it no longer changes",
            Self::TooLarge { .. } => "build it for release and stripped, or raise the limit",
            Self::Compile(reason) if reason.contains(ASYNC_FEATURE) => {
                "the sandbox has no asynchronous WASI 0.3: build it for WASI 0.2, in Rust for wasm32-wasip2"
            }
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
            Self::OtherWorld { .. }
            | Self::NoContract
            | Self::ContractVersion(_)
            | Self::ContractTypes(_)
            | Self::Link(_) => "build it against the wit/ folder of this host's version",
            Self::Options { .. } => "correct the options; the component is then loaded",
            Self::ExtensionDescriptor(_) => {
                "fix the component; `aetheel policy check` shows this without using it"
            }
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
