//! The examination of a component before it may serve: what it is, what it imports, which contract
//! it speaks, what it says of itself, and whether it survives a little of everything.

use std::path::Path;
use std::sync::Arc;

use wasmtime::component::Component;
use wasmtime::component::types::ComponentItem;

use super::candidates::Candidate;
use super::component::ComponentBackend;
use super::engine::Engine;
use super::error::{AdmissionError, CONTRACT, SUPPORTED};
use super::instance::{Blueprint, Instance, StartFailure};
use super::sandbox::{self, WASI};
use super::source;
use super::standing::Standing;
use super::trial;
use aetheel_model::agent::capability;
use aetheel_model::agent::descriptor::DescriptorError;
use aetheel_model::agent::{Command, Descriptor, Input, Safety, StartTurn, TimedInput};
use aetheel_model::config::VARIABLES;
use aetheel_model::plain::one_line;
use aetheel_turn::GuestFailure;

/// The types it uses; an import without functions.
const TYPES: &str = "aetheel:backend/types";

/// Facts about a component that can be had without letting it serve.
#[derive(Clone, Debug)]
pub struct Inspection {
    /// Its description of itself.
    pub descriptor: Descriptor,
    /// The contract it implements, for example `aetheel:backend@0.1.0`.
    pub contract: String,
    /// The names of the interfaces it imports, sorted.
    pub imports: Vec<String>,
    /// Size of its file, bytes.
    pub size: u64,
    /// SHA-256 of its file, lower-case hex.
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

    /// Admits a component as loading does, its own recordings included, and opens it to be tried
    /// rather than to serve: no breaker, nothing in the log, its use of limits measured.
    ///
    /// # Errors
    /// [`AdmissionError`], the reason why it could not serve.
    pub async fn open(
        &self,
        path: &Path,
    ) -> Result<(Inspection, ComponentBackend), AdmissionError> {
        let source = source::read(path.to_owned(), self.limits().component).await?;
        let size = source.bytes.len() as u64;
        let admitted = self.admit(source.bytes, path).await?;
        let inspection = Inspection {
            descriptor: admitted.descriptor.clone(),
            contract: admitted.contract,
            imports: admitted.imports,
            size,
            digest: source.digest.clone(),
        };
        Ok((
            inspection,
            ComponentBackend::on_trial(admitted.descriptor, source.digest, admitted.blueprint),
        ))
    }

    /// Compiles, links and tries out a component that was read from this file.
    pub(super) async fn admit(
        &self,
        bytes: Arc<[u8]>,
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
        bytes: Arc<[u8]>,
        digest: String,
        written: (i64, i64),
        standing: Standing,
    ) -> Result<Candidate, AdmissionError> {
        let Admitted { descriptor, blueprint, .. } = self.admit(bytes, path).await?;
        let (path, stands_in) = (path.to_owned(), false);
        Ok(Candidate { path, digest, descriptor, blueprint, standing, written, stands_in })
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
        // `wasmtime compile` writes an ELF file. It would be trusted code: we compile for
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
