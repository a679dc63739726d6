//! The capabilities of the backends that are shipped with this version, from their descriptors.

use super::{Capabilities, Capability};
use crate::agent::Descriptor;

/// The descriptors of the backends in `guest-backends`.
const SHIPPED: [&str; 7] = [
    include_str!("../../../../../guest-backends/acp/src/descriptor.json"),
    include_str!("../../../../../guest-backends/claude/src/descriptor.json"),
    include_str!("../../../../../guest-backends/codex/src/descriptor.json"),
    include_str!("../../../../../guest-backends/demo/src/descriptor.json"),
    include_str!("../../../../../guest-backends/droid/src/descriptor.json"),
    include_str!("../../../../../guest-backends/gemini/src/descriptor.json"),
    include_str!("../../../../../guest-backends/opencode/src/descriptor.json"),
];

/// Returns the capabilities of the shipped backend with this name, or `None` if there is no such
/// backend.
#[must_use]
pub fn shipped(name: &str) -> Option<Capabilities> {
    let descriptors = SHIPPED.iter().filter_map(|json| Descriptor::parse(json).ok());
    descriptors
        .filter(|descriptor| descriptor.name == name)
        .map(|descriptor| Capability::of(&descriptor))
        .next()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::capability::overreach;

    #[test]
    fn every_shipped_descriptor_is_valid_and_within_the_bounds() {
        let names: Vec<String> =
            SHIPPED.iter().map(|json| Descriptor::parse(json).expect("sound").name).collect();
        assert_eq!(names, ["acp", "claude", "codex", "demo", "droid", "gemini", "opencode"]);
        let own: Vec<&str> =
            crate::config::VARIABLES.iter().map(|variable| variable.name).collect();
        for json in SHIPPED {
            let descriptor = Descriptor::parse(json).expect("sound");
            assert_eq!(overreach(&descriptor, &own), Vec::<String>::new(), "{}", descriptor.name);
            assert_eq!(shipped(&descriptor.name), Some(Capability::of(&descriptor)));
        }
        assert_eq!(shipped("mini"), None);
    }
}
