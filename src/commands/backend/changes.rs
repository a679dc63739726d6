//! The changes an operator should know of before a new version of a component serves. Pure.

use std::collections::BTreeSet;

use crate::agent::Descriptor;
use crate::agent::descriptor::{Credential, Feature};

/// Everything of one kind that a descriptor lists.
type Listed = fn(&Descriptor) -> BTreeSet<String>;

/// Lists what the new descriptor adds to the old one and takes away from it, one line each; empty:
/// nothing that matters.
pub(super) fn changes(before: &Descriptor, after: &Descriptor) -> Vec<String> {
    let kinds: [(&str, Listed); 7] = [
        ("programs", programs),
        ("flags", flags),
        ("words of its command line", words),
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

/// Each with the lowest level it may be used at: a flag that needs less than before is a new one.
fn flags(descriptor: &Descriptor) -> BTreeSet<String> {
    let of = |program: &crate::agent::descriptor::Program| {
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

fn words(descriptor: &Descriptor) -> BTreeSet<String> {
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
    fn what_a_component_may_do_more_or_less_is_named() {
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
            "new words of its command line: x exec",
            "new variables: X_HOME (set)",
            "new features: plan",
            "new agent versions: ^2",
            "gone agent versions: ^1",
        ];
        assert_eq!(changes(&before, &after), wanted);
        assert_eq!(changes(&before, &before), Vec::<String>::new());
    }
}
