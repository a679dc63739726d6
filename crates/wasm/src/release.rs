//! The capabilities that are accepted from the start: those of the components that are built from
//! the same source as this program.
//!
//! They are compiled in because they decide which component files may serve. A file cannot vouch
//! for itself, and others may be able to write to the folder of components. Everything else that
//! the host knows of an agent comes from the descriptor of the component that serves.

use aetheel_model::agent::Descriptor;
use aetheel_model::agent::capability::{Capabilities, Capability};

/// The descriptors of the components in `guest-backends`, which `build.rs` collects.
const DESCRIPTORS: &[&str] = include!(concat!(env!("OUT_DIR"), "/descriptors.rs"));

/// Returns the capabilities of the component of this release with this name, or `None` if there is
/// no such component.
pub(crate) fn accepted(name: &str) -> Option<Capabilities> {
    let descriptors = DESCRIPTORS.iter().filter_map(|json| Descriptor::parse(json).ok());
    descriptors
        .filter(|descriptor| descriptor.name == name)
        .map(|descriptor| Capability::of(&descriptor))
        .next()
}

#[cfg(test)]
mod tests {
    use super::*;
    use aetheel_model::agent::capability::overreach;

    #[test]
    fn every_descriptor_of_the_release_is_valid_and_within_the_bounds() {
        for json in DESCRIPTORS {
            let descriptor = Descriptor::parse(json).expect("valid");
            assert_eq!(overreach(&descriptor, &[]), Vec::<String>::new(), "{}", descriptor.name);
            assert_eq!(accepted(&descriptor.name), Some(Capability::of(&descriptor)));
        }
        assert!(DESCRIPTORS.len() > 1, "{}", DESCRIPTORS.len());
        assert_eq!(accepted("mini"), None);
    }
}
