//! The parts of the program that a build can leave out.
//!
//! Each part has a cargo feature. Without it, the file `X_absent.rs` replaces the module `X`: it has
//! the same items, and refuses the settings and commands of the part.

use crate::cli::exit;
use crate::terminal::print_stderr;
use aetheel_model::finding::Finding;

/// A part of the program with a cargo feature of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OptionalPart {
    /// Several machines that serve one bot.
    Cluster,
    /// The conversation at the terminal.
    Console,
    /// The pages in a browser.
    Dashboard,
    /// The client for registries of backends.
    Registry,
    /// The export of traces to a collector.
    Traces,
}

impl OptionalPart {
    /// All parts.
    pub const ALL: [Self; 5] =
        [Self::Cluster, Self::Console, Self::Dashboard, Self::Registry, Self::Traces];

    /// Returns the cargo feature.
    #[must_use]
    pub fn feature(self) -> &'static str {
        match self {
            Self::Cluster => "cluster",
            Self::Console => "console",
            Self::Dashboard => "dashboard",
            Self::Registry => "registry",
            Self::Traces => "otel",
        }
    }

    /// Explains that the build lacks the part.
    #[must_use]
    pub fn absence(self) -> String {
        let name = match self {
            Self::Registry => "client for registries",
            Self::Traces => "export of traces",
            Self::Cluster | Self::Console | Self::Dashboard => self.feature(),
        };
        let feature = self.feature();
        format!("this build has no {name}; build the program with the cargo feature `{feature}`")
    }

    /// Refuses a command that needs the part. Returns the exit code.
    #[must_use]
    pub fn refuse_command(self) -> u8 {
        print_stderr(&format!("error: {}", self.absence()));
        exit::UNAVAILABLE
    }

    /// Refuses a setting that needs the part.
    #[must_use]
    pub fn refuse_setting(self, setting: &str) -> Finding {
        Finding::invalid(setting, format!("{setting}: {}", self.absence()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_that_a_build_lacks_is_refused_with_its_cargo_feature() {
        let console =
            "this build has no console; build the program with the cargo feature `console`";
        assert_eq!(OptionalPart::Console.absence(), console);
        assert_eq!(OptionalPart::Console.refuse_command(), exit::UNAVAILABLE);
        let finding = OptionalPart::Traces.refuse_setting("OTEL_EXPORTER_OTLP_ENDPOINT");
        assert!(finding.message.starts_with("OTEL_EXPORTER_OTLP_ENDPOINT: this build has no "));
        assert!(finding.message.contains("cargo feature `otel`"), "{finding:?}");
    }

    #[test]
    fn the_manifest_has_exactly_these_features_and_switches_all_of_them_on() {
        let manifest = include_str!("../../Cargo.toml");
        let (_, features) = manifest.split_once("\n[features]\n").expect("features");
        let features = features.split("\n[").next().unwrap_or_default().lines();
        let mut named: Vec<&str> =
            features.filter_map(|line| Some(line.split_once(" = ")?.0)).collect();
        named.retain(|name| *name != "default");
        assert_eq!(named, OptionalPart::ALL.map(OptionalPart::feature));
        let all: Vec<String> = named.iter().map(|name| format!("{name:?}")).collect();
        assert!(manifest.contains(&format!("\ndefault = [{}]\n", all.join(", "))));
    }
}
