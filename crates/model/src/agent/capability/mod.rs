//! The capabilities of a backend: everything of its descriptor that decides what runs, what reaches
//! an agent, and which of the operator's settings hold. Pure.
//!
//! Each capability is one small thing, so that two descriptors compare as sets: what is not
//! [covered](Capability::covers) by what was accepted is more. A part that takes something away
//! from safety by being left out of a descriptor (a rule for the root user, what is neutralised in
//! prompts) is a capability too: not having it is what has to be accepted.

mod bounds;
mod lines;
mod shipped;
mod words;

use std::collections::BTreeSet;

use super::Safety;
use super::descriptor::{
    Access, Credential, Descriptor, Expands, Feature, FlagValue, Sharing, State,
};

pub use bounds::overreach;
pub use lines::{lines, parse};
pub use shipped::shipped;
pub use words::say;

/// Everything that can be neutralised.
const EXPANDS: [Expands; 4] =
    [Expands::AtPath, Expands::SlashCommand, Expands::Bang, Expands::LeadingDash];

/// All of a backend.
pub type Capabilities = BTreeSet<Capability>;

/// One thing a backend may do.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Capability {
    /// Has a program started; the first one may be another file of the operator's
    /// (`BACKEND_CLI_PATH`), and is asked for its version.
    Program { name: String, first: bool },
    /// Has a program asked for its version, before any prompt.
    Version { program: String, arguments: Vec<String> },
    /// Gives a program an argument as it is.
    Word { program: String, word: String },
    /// Gives a program a flag, from this level of safety on, with values that are this, or begin so
    /// before a `*`.
    Flag { program: String, flag: String, takes: FlagValue, value: String, from: Safety },
    /// Chooses a variable's value, or passes the gateway's own on.
    Sets(String),
    /// Has the gateway's own value of a variable passed on.
    Passes(String),
    /// Has the gateway's own value of a secret passed on.
    Secret(String),
    /// Names a file by which a signed-in agent is known.
    SignInFile(String),
    /// Has a place of the operator's open to its agent, which is confined otherwise.
    Keeps(State),
    /// Has its agent confined so that it can confine its own commands by mounts: by bubblewrap
    /// rather than Landlock.
    OwnSandbox,
    /// Runs at this level as the root user; only where a variable is set, or always.
    AsRoot { at: Safety, unless: Option<String> },
    /// Leaves something in people's text that agents may expand.
    Leaves(Expands),
    /// Gets one of the agent's tools where the operator allows a kind of tool.
    Tool { kind: String, name: String },
    /// The fate of a setting of the operator's that limits an agent.
    Limit { limit: Limit, kept: Kept },
    /// How many conversations one agent serves.
    Shares(Sharing),
}

/// A setting that limits an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Limit {
    /// The variable `ALLOWED_TOOLS`: the agent uses only the tools it names.
    Tools,
    /// The mode `plan`: the agent changes nothing.
    Plan,
}

/// Whether a backend says that it keeps a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kept {
    Always,
    /// Not in one-shot runs.
    Live,
    Never,
}

impl Capability {
    /// Everything a backend with this descriptor may do.
    #[must_use]
    pub fn of(descriptor: &Descriptor) -> Capabilities {
        let mut all = Capabilities::new();
        for (index, program) in descriptor.programs.iter().enumerate() {
            let name = || program.name.clone();
            all.insert(Self::Program { name: name(), first: index == 0 });
            if !program.version_arguments.is_empty() {
                all.insert(Self::Version {
                    program: name(),
                    arguments: program.version_arguments.clone(),
                });
            }
            all.extend(
                program.words.iter().map(|word| Self::Word { program: name(), word: word.clone() }),
            );
            for flag in &program.flags {
                let with = |value: &str| Self::Flag {
                    program: name(),
                    flag: flag.name.clone(),
                    takes: flag.value,
                    value: value.to_owned(),
                    from: flag.safety,
                };
                match (flag.value, flag.values.is_empty()) {
                    (FlagValue::None, _) => drop(all.insert(with(""))),
                    (_, true) => drop(all.insert(with("*"))),
                    (_, false) => all.extend(flag.values.iter().map(|value| with(value))),
                }
            }
        }
        all.extend(descriptor.environment.set.iter().cloned().map(Self::Sets));
        all.extend(descriptor.environment.pass.iter().cloned().map(Self::Passes));
        all.extend(descriptor.credentials.iter().map(|credential| match credential {
            Credential::Variable(name) => Self::Secret(name.clone()),
            Credential::File(path) => Self::SignInFile(path.clone()),
        }));
        all.extend(descriptor.state.iter().cloned().map(Self::Keeps));
        all.extend(descriptor.own_sandbox.then_some(Self::OwnSandbox));
        for at in [Safety::Default, Safety::Edit, Safety::Danger] {
            let rule = descriptor.root.as_ref().filter(|rule| rule.refused_from <= at);
            all.insert(Self::AsRoot { at, unless: rule.map(|rule| rule.unless_variable.clone()) });
        }
        all.extend(
            EXPANDS.into_iter().filter(|kind| !descriptor.expands.contains(kind)).map(Self::Leaves),
        );
        for (kind, names) in &descriptor.tools {
            all.extend(
                names.iter().map(|name| Self::Tool { kind: kind.clone(), name: name.clone() }),
            );
        }
        for (limit, feature) in
            [(Limit::Tools, Feature::AllowedTools), (Limit::Plan, Feature::Plan)]
        {
            let kept = match (descriptor.has(feature), descriptor.live_only.contains(&feature)) {
                (false, _) => Kept::Never,
                (true, true) => Kept::Live,
                (true, false) => Kept::Always,
            };
            all.insert(Self::Limit { limit, kept });
        }
        all.insert(Self::Shares(descriptor.sharing));
        all
    }

    /// Whether who accepted this accepted the other one with it.
    #[must_use]
    pub fn covers(&self, other: &Self) -> bool {
        match (self, other) {
            (
                Self::Flag { program, flag, takes, value, from },
                Self::Flag { program: of, flag: other, takes: taking, value: more, from: needs },
            ) => {
                program == of
                    && flag == other
                    && takes == taking
                    && from <= needs
                    && fits(more, value)
            }
            // Who may choose a value may pass the gateway's on, which it could name; one that is
            // passed on in the open may be secret.
            (Self::Sets(name), Self::Passes(other) | Self::Secret(other))
            | (Self::Passes(name), Self::Secret(other)) => name == other,
            (Self::Keeps(place), Self::Keeps(other)) => {
                place == other || *place == State { access: Access::Write, ..other.clone() }
            }
            (Self::AsRoot { at, unless: None }, Self::AsRoot { at: other, .. }) => at == other,
            (Self::Shares(most), Self::Shares(other)) => most >= other,
            _ => self == other,
        }
    }
}

/// Returns the part of `wanted` that `accepted` does not cover.
#[must_use]
pub fn beyond(accepted: &Capabilities, wanted: &Capabilities) -> Capabilities {
    wanted
        .iter()
        .filter(|wanted| !accepted.iter().any(|accepted| accepted.covers(wanted)))
        .cloned()
        .collect()
}

/// Whether a value is this one, or begins so before a `*`. A value that ends in `*` itself stands
/// for all that it allows.
fn fits(value: &str, allowed: &str) -> bool {
    allowed.strip_suffix('*').map_or(value == allowed, |beginning| value.starts_with(beginning))
}

#[cfg(test)]
mod tests;
