//! `aetheel backend publish`: stores a component in a registry, with its signature and cases. Tested
//! by `tests/artifacts`.

use std::path::{Path, PathBuf};

use wit_component::DecodedWasm;

use super::artifacts::ArtifactAccess;
use super::open::{self, KitError, OpenedComponent};
use crate::cli::exit;
use crate::disk::read_ordinary;
use crate::kit::{self, describe_versions, proven_versions, selftest};
use crate::oci::{
    ArtifactInput, ArtifactReference, BackendArtifact, MAX_SIGNATURE_BYTES, OciError, pack_cases,
};
use crate::plain::{counted, with_causes};
use crate::startup::is_component_name;
use crate::startup::settings::OperatorSettings;
use crate::terminal;

pub(in crate::commands) async fn run(
    settings: &OperatorSettings,
    component: &Path,
    reference: &ArtifactReference,
    replace: bool,
) -> u8 {
    match publish(settings, component, reference, replace).await {
        Ok(()) => exit::OK,
        Err(error) => {
            let text = settings.redactor.redact(error.text);
            KitError { text, ..error }.report()
        }
    }
}

async fn publish(
    settings: &OperatorSettings,
    component: &Path,
    reference: &ArtifactReference,
    replace: bool,
) -> Result<(), KitError> {
    if reference.tag().is_none() || reference.digest().is_some() {
        return Err(KitError::usage(format!(
            "{reference}: publish under a tag (`oci://HOST/NAME:TAG`); the registry computes the digest"
        )));
    }
    let access = ArtifactAccess::new(settings, None);
    let opened = open::component(&open::explaining_engine()?, component).await?;
    let (cases, proven) = match cases_of(component) {
        Some(folder) => (Some(pack_cases(&folder)), check(&opened, folder).await?),
        None => (None, None),
    };
    let failed = |error: &dyn std::error::Error| KitError::failed(with_causes(error));
    let cases = cases.transpose().map_err(|error| failed(&error))?;
    let input = input(component, cases)?;
    let artifact = BackendArtifact::pack(&input, access.limit()).map_err(OciError::from)?;
    let login = access.login(reference)?;
    let published = artifact.push(reference, login, replace).await?;
    let proven = match (&input.cases, proven) {
        (None, _) => "no cases: nothing shows users which agent it reads".to_owned(),
        (Some(_), None) => "its cases name no version of the agent".to_owned(),
        (Some(_), Some(versions)) => format!("proven with agent version {versions}"),
    };
    let signed = if input.signature.is_some() { "signed" } else { "not signed" };
    terminal::line(&format!("{}: {signed}; {proven}", open::title(&opened)));
    terminal::line(&format!("published as {published}"));
    Ok(())
}

/// Returns the folder with the cases of a component: `X.cases` beside `X.wasm`, otherwise `cases`.
fn cases_of(component: &Path) -> Option<PathBuf> {
    let beside = component.parent().unwrap_or(Path::new("")).join("cases");
    [selftest::folder_of(component), beside].into_iter().find(|folder| folder.is_dir())
}

/// Tests the component with its cases, as `install` will. Returns the versions of the agent that
/// made them.
async fn check(opened: &OpenedComponent, folder: PathBuf) -> Result<Option<String>, KitError> {
    let read = tokio::task::spawn_blocking(move || selftest::read(&folder)).await;
    let cases = read
        .map_err(|error| KitError::failed(error.to_string()))?
        .map_err(|error| KitError::failed(with_causes(&error)))?;
    selftest::run(&opened.backend, &cases)
        .await
        .map_err(|error| KitError::failed(with_causes(&error)))?;
    let areas = kit::check::check(&opened.backend, &cases)
        .await
        .map_err(|failure| KitError::failed(format!("no guest can be opened: {failure}")))?;
    match areas.iter().map(|area| area.findings.len()).sum::<usize>() {
        0 => Ok(describe_versions(&proven_versions(&cases))),
        findings => Err(KitError::failed(format!(
            "it does not pass its check: {}; hint: `aetheel backend check` shows them",
            counted(findings, "finding")
        ))),
    }
}

fn input(component: &Path, cases: Option<Vec<u8>>) -> Result<ArtifactInput, KitError> {
    let shown = component.display();
    let unreadable = |error: std::io::Error| KitError::usage(format!("{shown}: {error}"));
    let file = component.file_name().and_then(|name| name.to_str()).unwrap_or_default().to_owned();
    if !is_component_name(&file) {
        return Err(KitError::usage(format!("{shown}: rename it to `NAME.wasm`")));
    }
    let bytes = std::fs::read(component).map_err(unreadable)?;
    let mut beside = component.as_os_str().to_owned();
    beside.push(".minisig");
    let signature = match read_ordinary(Path::new(&beside), MAX_SIGNATURE_BYTES) {
        Ok(signature) => Some(signature.into()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
        Err(error) => return Err(unreadable(error)),
    };
    let (exports, imports) = interfaces(&bytes)
        .ok_or_else(|| KitError::failed(format!("{shown}: its interfaces cannot be read")))?;
    let cases = cases.map(Into::into);
    Ok(ArtifactInput { file, component: bytes.into(), signature, cases, exports, imports })
}

/// Returns the names of the interfaces that a component exports and imports.
fn interfaces(component: &[u8]) -> Option<(Vec<String>, Vec<String>)> {
    let DecodedWasm::Component(resolve, world) = wit_component::decode(component).ok()? else {
        return None;
    };
    let world = &resolve.worlds[world];
    let names = |keys: Vec<&wit_parser::WorldKey>| {
        keys.into_iter().map(|key| resolve.name_world_key(key)).collect()
    };
    Some((names(world.exports.keys().collect()), names(world.imports.keys().collect())))
}
