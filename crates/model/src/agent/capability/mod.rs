//! The capabilities of a backend: the parts of its descriptor that decide which programs run, what
//! is passed to an agent, and which of the operator's settings are enforced. Pure.
//!
//! Each capability is small, so that two descriptors can be compared as sets: everything that the
//! accepted capabilities do not [cover](Capability::covers) is an extension. Some parts of a
//! descriptor increase safety, such as a rule for the root user, or the forms that are neutralised
//! in prompts. The absence of such a part is a capability that must be accepted.

mod bounds;
mod lines;
mod words;

use std::collections::BTreeSet;

use super::Safety;
use super::descriptor::{
    Credential, Descriptor, Expands, Feature, FlagValue, LinkSharing, StateAccess, StatePath,
};

pub use bounds::overreach;
pub use lines::{CapabilityError, lines, parse};
pub use words::describe;

/// All forms that can be neutralised.
const EXPANDS: [Expands; 4] =
    [Expands::AtPath, Expands::SlashCommand, Expands::Bang, Expands::LeadingDash];

/// The capabilities of a backend.
pub type Capabilities = BTreeSet<Capability>;

/// One thing that a backend may do.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Capability {
    /// Starts a program. The operator may replace the file of the first one (`BACKEND_CLI_PATH`),
    /// which is also asked for its version.
    Program { name: String, first: bool },
    /// Runs a program to get its version, before any prompt.
    Version { program: String, arguments: Vec<String> },
    /// Passes an argument to a program.
    Word { program: String, word: String },
    /// Passes a flag to a program at this safety level and above. Its value must equal `value`, or
    /// begin with the part before a final `*`.
    Flag { program: String, flag: String, takes: FlagValue, value: String, from: Safety },
    /// Sets the value of a variable, or passes the gateway's value on.
    Sets(String),
    /// Passes the gateway's value of a variable on.
    Passes(String),
    /// Passes the gateway's value of a secret on.
    Secret(String),
    /// Lets its confined agent read the file or folder that the gateway's value of a variable
    /// names.
    ReadsPathOf(String),
    /// Uses a file as proof that its agent is signed in.
    SignInFile(String),
    /// Gives its confined agent access to one of the operator's paths.
    State(StatePath),
    /// Has its agent confined by bubblewrap instead of Landlock, so that the agent can confine its
    /// own commands with mounts.
    OwnSandbox,
    /// Runs at this level as the root user, always or only if a variable is set.
    AsRoot { at: Safety, unless: Option<String> },
    /// Does not neutralise a form that agents may expand in people's text.
    Leaves(Expands),
    /// Gives the agent one of its tools if the operator allows a kind of tool, or its tools of a
    /// kind if the operator allows this name.
    Tool { kind: String, name: String },
    /// How it treats a setting of the operator's that limits an agent.
    Limit { limit: Limit, support: LimitSupport },
    /// Runs the agents of the operator's launch profiles.
    Profiles,
    /// How many conversations one agent serves.
    Shares(LinkSharing),
}

/// A setting that limits an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Limit {
    /// The variable `ALLOWED_TOOLS`: the agent uses only the tools it names.
    Tools,
    /// The mode `plan`: the agent changes nothing.
    Plan,
}

/// Whether, and in which runs, a backend claims to enforce a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LimitSupport {
    Always,
    /// The limit is enforced in long-lived runs, but not in one-shot runs.
    Live,
    Never,
}

impl Capability {
    /// Returns everything that a backend with this descriptor may do.
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
        // A file that a credential names is a part of that secret.
        let passed = |name: &&str| descriptor.environment.pass.iter().any(|passed| passed == name);
        let paths = descriptor.path_variables().filter(passed);
        all.extend(paths.map(|name| Self::ReadsPathOf(name.to_owned())));
        all.extend(descriptor.credentials.iter().map(|credential| match credential {
            Credential::Variable(name) => Self::Secret(name.clone()),
            Credential::File(path) => Self::SignInFile(path.clone()),
        }));
        all.extend(descriptor.state.iter().cloned().map(Self::State));
        all.extend(descriptor.own_sandbox.then_some(Self::OwnSandbox));
        for at in [Safety::Default, Safety::Edit, Safety::Danger] {
            let rule = descriptor.root.as_ref().filter(|rule| rule.refused_from <= at);
            all.insert(Self::AsRoot { at, unless: rule.map(|rule| rule.unless_variable.clone()) });
        }
        all.extend(
            EXPANDS.into_iter().filter(|kind| !descriptor.expands.contains(kind)).map(Self::Leaves),
        );
        for (kind, names) in descriptor.tools.iter().chain(&descriptor.tool_aliases) {
            all.extend(
                names.iter().map(|name| Self::Tool { kind: kind.clone(), name: name.clone() }),
            );
        }
        for (limit, feature) in
            [(Limit::Tools, Feature::AllowedTools), (Limit::Plan, Feature::Plan)]
        {
            let support = match (descriptor.has(feature), descriptor.live_only.contains(&feature)) {
                (false, _) => LimitSupport::Never,
                (true, true) => LimitSupport::Live,
                (true, false) => LimitSupport::Always,
            };
            all.insert(Self::Limit { limit, support });
        }
        all.extend(descriptor.takes_profiles().then_some(Self::Profiles));
        all.insert(Self::Shares(descriptor.sharing));
        all
    }

    /// Returns whether accepting this capability also accepts the other one.
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
            // A backend that may set a variable could also set the gateway's value. A variable that
            // may be passed on openly may also be passed on as a secret.
            (Self::Sets(name), Self::Passes(other) | Self::Secret(other))
            | (Self::Passes(name), Self::Secret(other)) => name == other,
            (Self::State(place), Self::State(other)) => {
                place == other
                    || *place == StatePath { access: StateAccess::Write, ..other.clone() }
            }
            (Self::AsRoot { at, unless: None }, Self::AsRoot { at: other, .. }) => at == other,
            (Self::Shares(most), Self::Shares(other)) => most >= other,
            _ => self == other,
        }
    }
}

/// Returns the part of `wanted` that `accepted` does not cover.
#[must_use]
pub fn not_covered(accepted: &Capabilities, wanted: &Capabilities) -> Capabilities {
    wanted
        .iter()
        .filter(|wanted| !accepted.iter().any(|accepted| accepted.covers(wanted)))
        .cloned()
        .collect()
}

/// Returns whether a value equals the allowed one, or begins with the part before a final `*` of
/// it. A value that itself ends in `*` stands for all values that it allows.
fn fits(value: &str, allowed: &str) -> bool {
    allowed.strip_suffix('*').map_or(value == allowed, |beginning| value.starts_with(beginning))
}

#[cfg(test)]
mod tests;
