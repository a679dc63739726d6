//! Lists the differences between two versions of a component that an operator should know. Pure.

use std::collections::BTreeSet;

use aetheel_model::agent::Descriptor;
use aetheel_model::agent::descriptor::{Credential, Feature};

/// Returns all entries of one kind in a descriptor.
type DescriptorItems = fn(&Descriptor) -> BTreeSet<String>;

/// Returns one line for each kind of entry that the new descriptor adds or removes. The list is
/// empty if there are no such changes.
pub(super) fn changes(before: &Descriptor, after: &Descriptor) -> Vec<String> {
    let kinds: [(&str, DescriptorItems); 7] = [
        ("programs", programs),
        ("flags", flags),
        ("command-line words", command_words),
        ("variables", variables),
        ("credentials", credentials),
        ("features", features),
        ("agent versions", |descriptor| descriptor.understands.iter().cloned().collect()),
    ];
    let mut lines = Vec::new();
    for (what, of) in kinds {
        let (old, new) = (of(before), of(after));
        let list =
            |of: Vec<&String>| of.into_iter().map(String::as_str).collect::<Vec<_>>().join(", ");
        let (more, fewer) =
            (list(new.difference(&old).collect()), list(old.difference(&new).collect()));
        lines.extend((!more.is_empty()).then(|| format!("new {what}: {more}")));
        lines.extend((!fewer.is_empty()).then(|| format!("gone {what}: {fewer}")));
    }
    lines
}

fn programs(descriptor: &Descriptor) -> BTreeSet<String> {
    descriptor.programs.iter().map(|program| program.name.clone()).collect()
}

/// Lists each flag with the lowest safety level that allows it, so that a flag with a lower level
/// counts as new.
fn flags(descriptor: &Descriptor) -> BTreeSet<String> {
    let of = |program: &aetheel_model::agent::descriptor::Program| {
        let name = program.name.clone();
        let flags = program.flags.iter().map(move |flag| {
            let values = if flag.values.is_empty() {
                String::new()
            } else {
                format!("={}", flag.values.join("|"))
            };
            let level = serde_json::to_value(flag.safety)
                .ok()
                .and_then(|level| level.as_str().map(str::to_owned))
                .unwrap_or_default();
            format!("{name} {}{values} (from {level})", flag.name)
        });
        flags.collect::<Vec<_>>()
    };
    descriptor.programs.iter().flat_map(of).collect()
}

fn command_words(descriptor: &Descriptor) -> BTreeSet<String> {
    descriptor
        .programs
        .iter()
        .flat_map(|program| program.words.iter().map(|word| format!("{} {word}", program.name)))
        .collect()
}

fn variables(descriptor: &Descriptor) -> BTreeSet<String> {
    let environment = &descriptor.environment;
    let set = environment.set.iter().map(|name| format!("{name} (set)"));
    set.chain(environment.pass.iter().map(|name| format!("{name} (passed on)"))).collect()
}

fn credentials(descriptor: &Descriptor) -> BTreeSet<String> {
    let name = |credential: &Credential| match credential {
        Credential::Variable(name) => name.clone(),
        Credential::File(path) => path.clone(),
    };
    descriptor.credentials.iter().map(name).collect()
}

fn features(descriptor: &Descriptor) -> BTreeSet<String> {
    let known = descriptor.features.iter().filter(|feature| **feature != Feature::Unknown);
    known
        .filter_map(|feature| Some(serde_json::to_value(feature).ok()?.as_str()?.to_owned()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn added_and_removed_entries_are_listed() {
        let parse = |json: &str| Descriptor::parse(json).expect("valid");
        let before = parse(
            r#"{"name":"x","version":"1","programs":[{"name":"x","flags":[{"name":"--yolo","safety":"danger"},{"name":"--json"}]}],
            "environment":{"pass":["X_KEY"]},"features":["resume"],"understands":["^1"]}"#,
        );
        let after = parse(
            r#"{"name":"x","version":"2","programs":[{"name":"x","words":["exec"],"flags":[{"name":"--yolo","safety":"edit"},{"name":"--json"}]},
            {"name":"y"}],"environment":{"pass":["X_KEY"],"set":["X_HOME"]},"features":["resume","plan"],"understands":["^2"]}"#,
        );
        let wanted = [
            "new programs: y",
            "new flags: x --yolo (from edit)",
            "gone flags: x --yolo (from danger)",
            "new command-line words: x exec",
            "new variables: X_HOME (set)",
            "new features: plan",
            "new agent versions: ^2",
            "gone agent versions: ^1",
        ];
        assert_eq!(changes(&before, &after), wanted);
        assert_eq!(changes(&before, &before), Vec::<String>::new());
    }
}
