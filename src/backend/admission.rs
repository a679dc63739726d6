//! The examination of a component before it may serve: what it is, what it imports, which contract
//! it speaks, what it says of itself, and whether it survives a little of everything.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use wasmtime::component::Component;
use wasmtime::component::types::ComponentItem;

use super::engine::Engine;
use super::instance::{Blueprint, Instance, StartFailure};
use super::lineup::Candidate;
use super::sandbox::{self, WASI};
use super::trial;
use super::trust::{Distrust, Standing};
use super::wants::Wants;
use crate::agent::capability;
use crate::agent::descriptor::DescriptorError;
use crate::agent::{Command, Descriptor, Input, Safety, StartTurn, TimedInput};
use crate::config::VARIABLES;
use crate::plain::one_line;
use crate::turn::GuestFailure;

/// The interface every backend exports, without its version.
const CONTRACT: &str = "aetheel:backend/backend";
/// The types it uses; an import without functions.
const TYPES: &str = "aetheel:backend/types";
/// The contracts this host speaks: major and minor, the newest first. Within one, versions fit each
/// other.
const SUPPORTED: [&str; 2] = ["0.2", "0.1"];

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
        /// Bytes.
        size: u64,
        /// Bytes.
        limit: u64,
    },
    /// Not WebAssembly.
    #[error("is not a WebAssembly file: {0}")]
    NotWasm(&'static str),
    /// A module where a component is needed.
    #[error("is a core module, not a component")]
    CoreModule,
    /// Truncated, corrupt or using something the sandbox does not have.
    #[error("cannot be compiled: {0}")]
    Compile(String),
    /// Took too long.
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
        /// What was tried: `its start`, `` its `describe` `` …
        step: &'static str,
        /// How it failed.
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
    /// Nobody vouches for it.
    #[error("is not trusted here (BACKEND_TRUST)")]
    Untrusted(#[source] Distrust),
    /// It may do more than the operator accepted.
    #[error("{0}")]
    Unaccepted(Arc<Wants>),
    /// Another file has the name already.
    #[error("claims the name `{name}`, which {} already has", owner.display())]
    NameTaken {
        /// The backend's name.
        name: String,
        /// The file that has it.
        owner: PathBuf,
    },
}

impl AdmissionError {
    /// What to do next, for the operator.
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
                "`aetheel backend approve NAME` shows all of it and asks; until then nothing of it is started"
            }
            Self::NameTaken { .. } => {
                "remove one of the two files, or have both say which agent versions they understand"
            }
        }
    }
}

/// What is to know about a component without letting it serve.
#[derive(Clone, Debug)]
pub struct Inspection {
    /// What it says of itself.
    pub descriptor: Descriptor,
    /// The contract it implements, for example `aetheel:backend@0.1.0`.
    pub contract: String,
    /// What it imports, sorted.
    pub imports: Vec<String>,
    /// Bytes.
    pub size: u64,
    /// SHA-256, lower-case hex.
    pub digest: String,
}

/// A component that passed.
pub(super) struct Admitted {
    pub(super) descriptor: Descriptor,
    pub(super) blueprint: Arc<Blueprint>,
    pub(super) contract: String,
    pub(super) imports: Vec<String>,
}

impl Engine {
    /// Examines a component file exactly as loading does, and says what it is.
    ///
    /// # Errors
    /// [`AdmissionError`], the reason why it could not serve.
    pub async fn inspect(&self, path: &Path) -> Result<Inspection, AdmissionError> {
        self.open(path).await.map(|(inspection, _)| inspection)
    }

    /// Compiles, links and tries out a component that was read from this file.
    pub(super) async fn admit(
        &self,
        bytes: Vec<u8>,
        path: &Path,
    ) -> Result<Admitted, AdmissionError> {
        check_magic(&bytes)?;
        let component = self.compile(bytes).await?;
        let imports = self.check_imports(&component)?;
        let (contract, is_older) = self.check_contract(&component)?;
        let mut linker = self.linker().clone();
        sandbox::stub_unused(&mut linker, &component)
            .map_err(|error| AdmissionError::Link(format!("{error:#}")))?;
        let ready = linker
            .instantiate_pre(&component)
            .map_err(|error| AdmissionError::Link(format!("{error:#}")))?;
        let limits = self.limits();
        let blueprint = Blueprint::new(ready, is_older, limits.guest_memory, limits.guest_call)
            .map_err(|error| AdmissionError::ContractTypes(format!("{error:#}")))?;
        let descriptor = try_out(&blueprint).await?;
        let (descriptor, blueprint) =
            trial::own_recordings(path, descriptor, Arc::new(blueprint)).await?;
        Ok(Admitted { descriptor, blueprint, contract, imports })
    }

    /// Admits what was read from a file and judged.
    pub(super) async fn candidate(
        &self,
        path: &Path,
        bytes: Vec<u8>,
        digest: String,
        written: (i64, i64),
        standing: Standing,
    ) -> Result<Candidate, AdmissionError> {
        let Admitted { descriptor, blueprint, .. } = self.admit(bytes, path).await?;
        Ok(Candidate { path: path.to_owned(), digest, descriptor, blueprint, standing, written })
    }

    fn check_imports(&self, component: &Component) -> Result<Vec<String>, AdmissionError> {
        let mut names = Vec::new();
        for (name, import) in component.component_type().imports(self.wasm()) {
            let types_only = |instance: &wasmtime::component::types::ComponentInstance| {
                instance
                    .exports(self.wasm())
                    .all(|(_, item)| matches!(item.ty, ComponentItem::Type(_)))
            };
            let allowed = match (name.split_once('@'), &import.ty) {
                (Some((TYPES, _)), ComponentItem::ComponentInstance(instance)) => {
                    types_only(instance)
                }
                (Some((interface, version)), ComponentItem::ComponentInstance(_)) => {
                    let package =
                        interface.strip_prefix("wasi:").and_then(|rest| rest.split_once('/'));
                    (version.starts_with("0.2.") || sandbox::is_newer(name))
                        && package.is_some_and(|(package, _)| WASI.contains(&package))
                }
                _ => false,
            };
            if !allowed {
                return Err(AdmissionError::ForbiddenImport(name.to_owned()));
            }
            names.push(name.to_owned());
        }
        names.sort_unstable();
        Ok(names)
    }

    /// Returns the contract's name and version as the component has it, and whether it is not the
    /// newest one that this host speaks.
    fn check_contract(&self, component: &Component) -> Result<(String, bool), AdmissionError> {
        let exported = component.component_type();
        let versions: Vec<&str> = exported
            .exports(self.wasm())
            .filter_map(|(name, _)| {
                name.split_once('@')
                    .filter(|(interface, _)| *interface == CONTRACT)
                    .map(|(_, version)| version)
            })
            .collect();
        for supported in SUPPORTED {
            let fits = |version: &&&str| {
                version.strip_prefix(supported).is_some_and(|patch| patch.starts_with('.'))
                    && !version.contains('-')
            };
            if let Some(version) = versions.iter().find(fits) {
                return Ok((format!("aetheel:backend@{version}"), supported != SUPPORTED[0]));
            }
        }
        Err(versions.last().map_or(AdmissionError::NoContract, |version| {
            AdmissionError::ContractVersion((*version).to_owned())
        }))
    }
}

fn check_magic(bytes: &[u8]) -> Result<(), AdmissionError> {
    // https://webassembly.github.io/spec/core/binary/modules.html: magic, then version 1 and layer
    // 0 for modules; the component model has layer 1.
    match bytes {
        [] => Err(AdmissionError::NotWasm("it is empty")),
        // What `wasmtime compile` writes is an ELF file. It would be trusted code: we compile for
        // ourselves.
        [0x7f, b'E', b'L', b'F', ..] => Err(AdmissionError::NotWasm(
            "it is compiled code, which is never loaded; give the component itself",
        )),
        [b'\0', b'a', b's', b'm', _, _, 0, 0, ..] => Err(AdmissionError::CoreModule),
        [b'\0', b'a', b's', b'm', ..] => Ok(()),
        bytes if std::str::from_utf8(bytes).is_ok() => Err(AdmissionError::NotWasm("it is text")),
        _ => Err(AdmissionError::NotWasm("it does not begin like one")),
    }
}

/// Runs the self-test and returns the descriptor.
async fn try_out(blueprint: &Blueprint) -> Result<Descriptor, AdmissionError> {
    let mut guest = start(blueprint).await?;
    let text = guest.describe().await.map_err(failed("its `describe`"))?;
    if guest.describe().await.map_err(failed("its `describe`"))? != text {
        return Err(AdmissionError::SelfTest("`describe` returned two different texts"));
    }
    drop(guest);
    let descriptor = Descriptor::parse(&text).map_err(AdmissionError::Descriptor)?;
    let own: Vec<&str> = VARIABLES.iter().map(|variable| variable.name).collect();
    let faults = capability::overreach(&descriptor, &own);
    if !faults.is_empty() {
        return Err(AdmissionError::Descriptor(DescriptorError::Content(faults.join("; "))));
    }
    // Links are never described: another guest.
    let mut guest = start(blueprint).await?;
    if !guest
        .handle(Vec::new())
        .await
        .map_err(failed("its first `handle`, which tells it nothing yet"))?
        .is_empty()
    {
        return Err(AdmissionError::SelfTest("`handle` answered nothing with actions"));
    }
    guest.handle(vec![first_prompt()]).await.map_err(failed("its `handle` of a first prompt"))?;
    Ok(read_by_people(descriptor))
}

/// The descriptor with nothing in its words that moves a cursor, hides, or reorders what people
/// read.
fn read_by_people(mut descriptor: Descriptor) -> Descriptor {
    let choices =
        descriptor.models.iter_mut().chain(&mut descriptor.efforts).map(|choice| &mut choice.label);
    for words in [&mut descriptor.label, &mut descriptor.version].into_iter().chain(choices) {
        *words = one_line(words);
    }
    descriptor
}

async fn start(blueprint: &Blueprint) -> Result<Instance, AdmissionError> {
    blueprint.start(Arc::from("candidate"), Arc::from("-")).await.map_err(|failure| match failure {
        StartFailure::Guest(failure) => AdmissionError::Trial { step: "its start", failure },
        StartFailure::Types(reason) => AdmissionError::ContractTypes(reason),
    })
}

fn failed(step: &'static str) -> impl FnOnce(GuestFailure) -> AdmissionError {
    move |failure| AdmissionError::Trial { step, failure }
}

/// The most ordinary input there is.
fn first_prompt() -> TimedInput {
    TimedInput {
        at_ms: 0.0,
        input: Input::Command(Command::StartTurn(StartTurn::plain("Hello", Safety::Default))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_of_a_descriptor_are_plain() {
        let odd = r"\u001b[2Jgood\u202elab";
        let json = format!(
            r#"{{"name":"x","label":"{odd}","version":"1{odd}","programs":[{{"name":"x"}}],
                "models":[{{"id":"m","label":"{odd}"}}],"efforts":[{{"id":"e","label":"{odd}"}}]}}"#
        );
        let plain = read_by_people(Descriptor::parse(&json).expect("valid"));
        assert_eq!([&plain.label, &plain.models[0].label, &plain.efforts[0].label], ["goodlab"; 3]);
        assert_eq!(plain.version, "1goodlab");
    }
}
