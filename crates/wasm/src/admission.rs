//! Examines a component before it may serve: its format, imports, contract and descriptor, a short
//! self-test, and its own recordings.

use std::path::Path;
use std::sync::Arc;

use wasmtime::component::types::ComponentItem;

use super::candidates::Candidate;
use super::component::ComponentBackend;
use super::engine::{Compiled, Engine};
use super::error::{AdmissionError, CONTRACT, ContractVersion, SUPPORTED};
use super::instance::{Blueprint, Instance, StartFailure};
use super::sandbox::{self, WASI};
use super::self_test;
use super::source;
use super::trust_state::TrustState;
use aetheel_model::agent::capability;
use aetheel_model::agent::descriptor::DescriptorError;
use aetheel_model::agent::{Descriptor, HostCommand, Input, Safety, StartTurn, TimedInput};
use aetheel_model::plain::one_line;
use aetheel_recording::GuestFailure;

/// The interface of the contract's types. It may be imported if it has no functions.
const TYPES: &str = "aetheel:backend/types";

/// Facts about a component that are known without letting it serve.
#[derive(Clone, Debug)]
pub struct Inspection {
    /// The component's description of itself.
    pub descriptor: Descriptor,
    /// The contract that it implements, for example `aetheel:backend@0.1.0`.
    pub contract: String,
    /// The names of the imported interfaces, sorted.
    pub imports: Vec<String>,
    /// The size of its file in bytes.
    pub size: u64,
    /// The SHA-256 of its file, in lower-case hex.
    pub digest: String,
}

pub(super) struct Admitted {
    pub(super) descriptor: Descriptor,
    pub(super) blueprint: Arc<Blueprint>,
    pub(super) contract: String,
    pub(super) imports: Vec<String>,
}

impl Engine {
    /// Examines a component file in the same way as loading does.
    ///
    /// # Errors
    /// [`AdmissionError`], the reason why it could not serve.
    pub async fn inspect(&self, path: &Path) -> Result<Inspection, AdmissionError> {
        self.open(path).await.map(|(inspection, _)| inspection)
    }

    /// Admits a component in the same way as loading does, including its own recordings, and opens
    /// it for a trial: without a breaker and log lines, but with measurements of the resources it
    /// uses.
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

    /// Compiles, links and tests a component that was read from the file `path`.
    pub(super) async fn admit(
        &self,
        bytes: Arc<[u8]>,
        path: &Path,
    ) -> Result<Admitted, AdmissionError> {
        check_magic(&bytes)?;
        let compiled = self.compile(&bytes).await?;
        let imports = check_imports(&compiled)?;
        let (contract, version) = check_contract(&compiled)?;
        let blueprint = Blueprint::new(compiled, bytes, version, self.limits())?;
        let descriptor = run_self_test(&blueprint, self.reserved).await?;
        let (descriptor, blueprint) =
            self_test::run_own_cases(path, descriptor, Arc::new(blueprint)).await?;
        Ok(Admitted { descriptor, blueprint, contract, imports })
    }

    /// Admits a component whose trust was already checked.
    pub(super) async fn candidate(
        &self,
        path: &Path,
        bytes: Arc<[u8]>,
        digest: String,
        written: (i64, i64),
        trust: TrustState,
    ) -> Result<Candidate, AdmissionError> {
        let Admitted { descriptor, blueprint, .. } = self.admit(bytes, path).await?;
        let (path, stands_in) = (path.to_owned(), false);
        Ok(Candidate {
            path,
            digest,
            descriptor,
            blueprint,
            trust,
            written,
            is_fallback: stands_in,
        })
    }
}

pub(super) fn check_imports(compiled: &Compiled) -> Result<Vec<String>, AdmissionError> {
    let wasm = compiled.runtime.wasm();
    let mut names = Vec::new();
    for (name, import) in compiled.component.component_type().imports(wasm) {
        let types_only = |instance: &wasmtime::component::types::ComponentInstance| {
            instance.exports(wasm).all(|(_, item)| matches!(item.ty, ComponentItem::Type(_)))
        };
        let allowed = match (name.split_once('@'), &import.ty) {
            (Some((TYPES, _)), ComponentItem::ComponentInstance(instance)) => types_only(instance),
            (Some((interface, version)), ComponentItem::ComponentInstance(_)) => {
                let package = interface.strip_prefix("wasi:").and_then(|rest| rest.split_once('/'));
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

/// Returns the contract's name and version in the component.
fn check_contract(compiled: &Compiled) -> Result<(String, ContractVersion), AdmissionError> {
    let wasm = compiled.runtime.wasm();
    let exported = compiled.component.component_type();
    let versions: Vec<&str> = exported
        .exports(wasm)
        .filter_map(|(name, _)| {
            name.split_once('@')
                .filter(|(interface, _)| *interface == CONTRACT)
                .map(|(_, version)| version)
        })
        .collect();
    for (supported, contract) in SUPPORTED {
        let fits = |version: &&&str| {
            version.strip_prefix(supported).is_some_and(|patch| patch.starts_with('.'))
                && !version.contains('-')
        };
        if let Some(version) = versions.iter().find(fits) {
            return Ok((format!("aetheel:backend@{version}"), contract));
        }
    }
    Err(versions.last().map_or(AdmissionError::NoContract, |version| {
        AdmissionError::ContractVersion((*version).to_owned())
    }))
}

pub(super) fn check_magic(bytes: &[u8]) -> Result<(), AdmissionError> {
    // https://webassembly.github.io/spec/core/binary/modules.html: the magic number, then version 1
    // and layer 0 for modules; components have layer 1.
    match bytes {
        [] => Err(AdmissionError::NotWasm("it is empty")),
        // `wasmtime compile` writes an ELF file. Precompiled code would have to be trusted, so the
        // host always compiles components itself.
        [0x7f, b'E', b'L', b'F', ..] => Err(AdmissionError::NotWasm(
            "it is compiled code, which is never loaded; name the `.wasm` file itself",
        )),
        [b'\0', b'a', b's', b'm', _, _, 0, 0, ..] => Err(AdmissionError::CoreModule),
        [b'\0', b'a', b's', b'm', ..] => Ok(()),
        bytes if std::str::from_utf8(bytes).is_ok() => Err(AdmissionError::NotWasm("it is text")),
        _ => Err(AdmissionError::NotWasm("its first bytes are not those of WebAssembly")),
    }
}

async fn run_self_test(
    blueprint: &Blueprint,
    reserved: &[&str],
) -> Result<Descriptor, AdmissionError> {
    let mut guest = start(blueprint).await?;
    let text = guest.describe().await.map_err(failed("its `describe`"))?;
    if guest.describe().await.map_err(failed("its `describe`"))? != text {
        return Err(AdmissionError::SelfTest("`describe` returned two different texts"));
    }
    drop(guest);
    let descriptor = Descriptor::parse(&text).map_err(AdmissionError::Descriptor)?;
    let faults = capability::overreach(&descriptor, reserved);
    if !faults.is_empty() {
        return Err(AdmissionError::Descriptor(DescriptorError::Content(faults.join("; "))));
    }
    // The guest of a link never describes itself, so the rest of the test uses another guest.
    let mut guest = start(blueprint).await?;
    if !guest
        .handle(Vec::new())
        .await
        .map_err(failed("its first `handle`, without inputs"))?
        .is_empty()
    {
        return Err(AdmissionError::SelfTest("`handle` without inputs returned actions"));
    }
    guest.handle(vec![first_prompt()]).await.map_err(failed("its `handle` of a first prompt"))?;
    Ok(sanitize_labels(descriptor))
}

/// Removes characters from a descriptor's texts that move the cursor, hide text or reorder it.
fn sanitize_labels(mut descriptor: Descriptor) -> Descriptor {
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

fn first_prompt() -> TimedInput {
    TimedInput {
        at_ms: 0.0,
        input: Input::Command(HostCommand::StartTurn(StartTurn::plain("Hello", Safety::Default))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_a_descriptor_are_sanitised() {
        let odd = r"\u001b[2Jgood\u202elab";
        let json = format!(
            r#"{{"name":"x","label":"{odd}","version":"1{odd}","programs":[{{"name":"x"}}],
                "models":[{{"id":"m","label":"{odd}"}}],"efforts":[{{"id":"e","label":"{odd}"}}]}}"#
        );
        let plain = sanitize_labels(Descriptor::parse(&json).expect("valid"));
        assert_eq!([&plain.label, &plain.models[0].label, &plain.efforts[0].label], ["goodlab"; 3]);
        assert_eq!(plain.version, "1goodlab");
    }
}
