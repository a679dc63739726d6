//! The version of an agent, and what it means for its backend.

use aetheel_model::agent::Descriptor;
use aetheel_model::finding::Finding;

/// Returns a warning if an agent printed no version, so that its compatibility is unknown.
pub(super) fn missing_version(descriptor: &Descriptor, version: Option<&str>) -> Option<Finding> {
    (version.is_none() && !descriptor.understands.is_empty()).then(|| {
        Finding::warning("agent", format!(
            "the agent of backend `{}` reports no version number: it is unknown whether it is one that the backend was made for ({})",
            descriptor.name,
            descriptor.understands.join(" or ")
        ))
    })
}

/// Returns a warning if the backend was not made for the installed version.
pub(super) fn untested_version(descriptor: &Descriptor, version: Option<&str>) -> Option<Finding> {
    let installed = version?;
    (descriptor.fits(installed) == Some(false)).then(|| {
        Finding::warning("agent", format!(
            "backend `{}` was made for agent versions {}, installed is {installed}; if answers are lost, look for a newer backend",
            descriptor.name,
            descriptor.understands.join(" or ")
        ))
    })
}

/// Finds the first `number.number…` in a program's output.
pub(super) fn version_in(said: &str) -> Option<String> {
    let said = said.split(|c: char| c.is_whitespace() || "(),/@".contains(c));
    said.map(|word| word.trim_start_matches('v'))
        .find(|word| word.starts_with(|c: char| c.is_ascii_digit()) && word.contains('.'))
        .map(|word| word.chars().take_while(char::is_ascii_graphic).take(64).collect())
}
