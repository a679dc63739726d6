//! Checks the command that a guest wants to start against its descriptor.
//!
//! The rule keeps people's text out of the command line: every argument is a declared flag, the
//! value of one, or a declared word. A value never begins with a dash unless it is attached to its
//! flag by `=`. Pure. `tests/dispatch/turns.rs` also tests this module (forged flags and
//! environment).

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use aetheel_model::agent::descriptor::{Flag, FlagValue, Program};
use aetheel_model::agent::{ArgumentValue, Descriptor, Safety, Spawn};

/// Maximum length of an argument or variable, in bytes: `MAX_ARG_STRLEN` of the kernel without the
/// NUL (131,071 bytes pass; one more fails with `E2BIG`).
pub const ARGUMENT_LIMIT: usize = 131_071;

/// A spawn that passed the check, with its values filled in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckedSpawn {
    /// The name of the declared program.
    pub program: String,
    /// The arguments, without the program.
    pub arguments: Vec<String>,
    /// The variables that the guest sets, in addition to those that the host passes on.
    pub environment: Vec<(String, String)>,
}

/// The reason why a spawn is refused. Nothing was started.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanFault {
    /// The program is not one of the descriptor's programs.
    #[error("program {0:?} is not declared in the descriptor")]
    Program(String),
    /// The descriptor does not declare this flag.
    #[error("flag {0:?} is not declared in the descriptor")]
    Flag(String),
    /// The flag, or its value, needs a higher safety level.
    #[error("{0:?} is not allowed at safety level `{1}`")]
    Level(String, &'static str),
    /// The argument is not a declared flag, value or word.
    #[error("argument {0} is neither a declared flag, the value of one, nor a declared word")]
    Stray(usize),
    /// The value would be read as a flag.
    #[error("the value of {0:?} begins with a dash")]
    Dash(String),
    /// The value of the flag is missing.
    #[error("{0:?} lacks its value")]
    NoValue(String),
    /// The descriptor does not let the guest set this variable.
    #[error("environment variable {0:?} is not declared in the descriptor")]
    Variable(String),
    /// The text is longer than the kernel accepts.
    #[error("{0} has {1} bytes, the limit is {ARGUMENT_LIMIT}")]
    TooLong(String, usize),
    /// The text contains a NUL byte.
    #[error("{0} holds a NUL byte")]
    Nul(String),
    /// No `put-file` action wrote this file before.
    #[error("file {0:?} was not written by `put-file`")]
    File(String),
    /// The link has no secret of this name.
    #[error("there is no secret {0:?}")]
    Secret(String),
    /// This host does not support the request.
    #[error("{0} is not supported by this host")]
    Unsupported(&'static str),
}

/// The values that can be filled in.
#[derive(Clone, Copy, Debug)]
pub struct ValueSources<'a> {
    /// The paths of the link's files, by name.
    pub files: &'a HashMap<String, PathBuf>,
    /// The link's secrets, by name.
    pub secrets: &'a HashMap<String, String>,
    /// The port assigned to a process that listens.
    pub port: Option<u16>,
    /// The address of the MCP server for the link, without the session.
    pub tool_server: Option<&'a str>,
    /// The gateway's own environment variables.
    pub inherited: &'a HashMap<String, String>,
}

/// Checks a spawn at a safety level and fills in its values.
///
/// # Errors
/// The first [`PlanFault`] found.
pub fn check(
    spawn: &Spawn,
    descriptor: &Descriptor,
    safety: Safety,
    known: ValueSources<'_>,
) -> Result<CheckedSpawn, PlanFault> {
    let program = descriptor
        .programs
        .iter()
        .find(|program| program.name == spawn.program)
        .ok_or_else(|| PlanFault::Program(spawn.program.clone()))?;
    let mut arguments = Vec::with_capacity(spawn.arguments.len());
    for (number, value) in spawn.arguments.iter().enumerate() {
        if matches!(value, ArgumentValue::Secret(_) | ArgumentValue::ToolServer(_)) {
            // Every user of the machine can read the arguments of every process.
            return Err(PlanFault::Unsupported("a secret as an argument"));
        }
        let text = fill(value, known)?.ok_or(PlanFault::Unsupported("`inherit` as an argument"))?;
        check_text(&format!("argument {}", number + 1), &text)?;
        arguments.push(text);
    }
    check_arguments(&arguments, program, safety)?;
    let mut environment = Vec::with_capacity(spawn.environment.len());
    for variable in &spawn.environment {
        if !descriptor.environment.set.contains(&variable.name) {
            return Err(PlanFault::Variable(variable.name.clone()));
        }
        let value =
            fill(&variable.value, known)?.or_else(|| known.inherited.get(&variable.name).cloned());
        if let Some(value) = value {
            check_text(&variable.name, &value)?;
            environment.push((variable.name.clone(), value));
        }
    }
    Ok(CheckedSpawn { program: program.name.clone(), arguments, environment })
}

/// Returns the text of a value, or `None` for `inherit`.
fn fill(value: &ArgumentValue, known: ValueSources<'_>) -> Result<Option<String>, PlanFault> {
    match value {
        ArgumentValue::Text(text) => Ok(Some(text.clone())),
        ArgumentValue::File(name) => known
            .files
            .get(name)
            .map(|path| Some(display(path)))
            .ok_or_else(|| PlanFault::File(name.clone())),
        ArgumentValue::Inherit => Ok(None),
        ArgumentValue::Port => known
            .port
            .map(|port| Some(port.to_string()))
            .ok_or(PlanFault::Unsupported("the port of a process that does not listen")),
        ArgumentValue::Secret(name) => known
            .secrets
            .get(name)
            .map(|secret| Some(secret.clone()))
            .ok_or_else(|| PlanFault::Secret(name.clone())),
        ArgumentValue::ToolServer(session) => known
            .tool_server
            .map(|server| Some(format!("{server}/{session}")))
            .ok_or(PlanFault::Unsupported("the address of the tools")),
    }
}

fn display(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

fn check_text(what: &str, text: &str) -> Result<(), PlanFault> {
    if text.len() > ARGUMENT_LIMIT {
        return Err(PlanFault::TooLong(what.to_owned(), text.len()));
    }
    if text.contains('\0') {
        return Err(PlanFault::Nul(what.to_owned()));
    }
    Ok(())
}

fn check_arguments(
    arguments: &[String],
    program: &Program,
    safety: Safety,
) -> Result<(), PlanFault> {
    let mut open: Option<(&str, FlagValue)> = None;
    for (index, argument) in arguments.iter().enumerate() {
        let dashed = argument.len() > 1 && argument.starts_with('-');
        if let Some((flag, FlagValue::One)) = open {
            if argument.starts_with('-') {
                return Err(PlanFault::Dash(flag.to_owned()));
            }
            check_value(program, flag, argument, safety)?;
            open = None;
        } else if dashed {
            let (name, attached) = match argument.split_once('=') {
                Some((name, value)) if argument.starts_with("--") => (name, Some(value)),
                _ => (argument.as_str(), None),
            };
            let entry = find_flag(program, name, safety)?;
            open = match attached {
                Some(_) if entry.value == FlagValue::None => {
                    return Err(PlanFault::Flag(argument.clone()));
                }
                Some(value) => {
                    check_value(program, name, value, safety)?;
                    None
                }
                None => {
                    (entry.value != FlagValue::None).then_some((entry.name.as_str(), entry.value))
                }
            };
        } else if let Some((flag, FlagValue::Many)) = open
            && argument != "-"
        {
            check_value(program, flag, argument, safety)?;
        } else if !program.words.contains(argument) {
            return Err(PlanFault::Stray(index + 1));
        }
    }
    match open {
        Some((flag, FlagValue::One)) => Err(PlanFault::NoValue(flag.to_owned())),
        _ => Ok(()),
    }
}

/// Returns the first entry for a flag that the safety level permits.
fn find_flag<'a>(program: &'a Program, name: &str, safety: Safety) -> Result<&'a Flag, PlanFault> {
    let mut entries = program.flags.iter().filter(|flag| flag.name == name).peekable();
    if entries.peek().is_none() {
        return Err(PlanFault::Flag(name.to_owned()));
    }
    entries
        .find(|flag| flag.safety <= safety)
        .ok_or_else(|| PlanFault::Level(name.to_owned(), level(safety)))
}

fn check_value(
    program: &Program,
    name: &str,
    value: &str,
    safety: Safety,
) -> Result<(), PlanFault> {
    let allowed = program
        .flags
        .iter()
        .filter(|flag| flag.name == name && flag.safety <= safety && flag.value != FlagValue::None)
        .any(|flag| {
            flag.values.is_empty() || flag.values.iter().any(|allowed| fits(value, allowed))
        });
    if allowed { Ok(()) } else { Err(PlanFault::Level(format!("{name} {value}"), level(safety))) }
}

fn fits(value: &str, allowed: &str) -> bool {
    match allowed.strip_suffix('*') {
        Some(beginning) => value.starts_with(beginning),
        None => value == allowed,
    }
}

fn level(safety: Safety) -> &'static str {
    match safety {
        Safety::Default => "default",
        Safety::Edit => "edit",
        Safety::Danger => "danger",
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use aetheel_model::agent::AgentVariable;

    fn descriptor() -> Descriptor {
        Descriptor::parse(
            r#"{"name":"x","version":"1","environment":{"set":["X_MODE"]},"programs":[{"name":"agent","words":["exec","-"],"flags":[
                {"name":"-p"},{"name":"--resume","value":"one"},{"name":"--tools","value":"many"},{"name":"--yolo","safety":"danger"},
                {"name":"--mode","value":"one","values":["plan","default"]},{"name":"--mode","value":"one","values":["edits"],"safety":"edit"},{"name":"-c","value":"one","values":["effort=*"]}]}]}"#,
        )
        .expect("valid")
    }

    fn spawn(arguments: &[&str]) -> Spawn {
        Spawn {
            proc: 1,
            program: "agent".into(),
            arguments: arguments.iter().map(|text| ArgumentValue::Text((*text).into())).collect(),
            environment: vec![],
            stdin: vec![],
            keep_open: false,
            listens: false,
            basic_auth: None,
            session: None,
            turn: None,
        }
    }

    fn verdict(arguments: &[&str], safety: Safety) -> Result<CheckedSpawn, PlanFault> {
        verdict_on(&spawn(arguments), safety, &HashMap::new(), &HashMap::new())
    }

    fn verdict_on(
        spawn: &Spawn,
        safety: Safety,
        files: &HashMap<String, PathBuf>,
        inherited: &HashMap<String, String>,
    ) -> Result<CheckedSpawn, PlanFault> {
        let secrets = HashMap::from([("password".to_owned(), "0123".to_owned())]);
        let port = spawn.listens.then_some(4096);
        check(
            spawn,
            &descriptor(),
            safety,
            ValueSources {
                files,
                secrets: &secrets,
                port,
                tool_server: Some("http://127.0.0.1:1/mcp/0123"),
                inherited,
            },
        )
    }

    #[test]
    fn ports_and_secrets_are_filled_in_only_where_allowed() {
        let mut wish = spawn(&["--resume"]);
        wish.arguments.push(ArgumentValue::Port);
        assert!(matches!(
            verdict_on(&wish, Safety::Default, &HashMap::new(), &HashMap::new()),
            Err(PlanFault::Unsupported(_))
        ));
        wish.listens = true;
        wish.environment = vec![AgentVariable {
            name: "X_MODE".into(),
            value: ArgumentValue::Secret("password".into()),
        }];
        let plan =
            verdict_on(&wish, Safety::Default, &HashMap::new(), &HashMap::new()).expect("allowed");
        assert_eq!((plan.arguments[1].as_str(), plan.environment[0].1.as_str()), ("4096", "0123"));
        wish.arguments[1] = ArgumentValue::Secret("password".into());
        assert!(matches!(
            verdict_on(&wish, Safety::Danger, &HashMap::new(), &HashMap::new()),
            Err(PlanFault::Unsupported(_))
        ));
    }

    #[test]
    fn declared_flags_values_and_words_pass() {
        for good in [
            &["exec", "-p", "--resume", "abc", "-"][..],
            &["--tools", "a", "b", "-p"],
            &["--resume=--x"],
            &["--mode", "plan"],
            &["-c", "effort=high"],
            &[],
        ] {
            assert!(verdict(good, Safety::Default).is_ok(), "{good:?}");
        }
    }

    #[test]
    fn everything_else_is_refused() {
        for (bad, fault) in [
            (&["--evil"][..], PlanFault::Flag("--evil".into())),
            (&["--evil=1"], PlanFault::Flag("--evil".into())),
            (&["hello"], PlanFault::Stray(1)),
            (&["-p", "prompt"], PlanFault::Stray(2)),
            (&["--resume", "--yolo"], PlanFault::Dash("--resume".into())),
            (&["--resume", "-"], PlanFault::Dash("--resume".into())),
            (&["--resume"], PlanFault::NoValue("--resume".into())),
            (&["--yolo"], PlanFault::Level("--yolo".into(), "default")),
            (&["--mode", "edits"], PlanFault::Level("--mode edits".into(), "default")),
            (&["-c", "sandbox=off"], PlanFault::Level("-c sandbox=off".into(), "default")),
            (&["--mode=edits"], PlanFault::Level("--mode edits".into(), "default")),
            (&["-p=1"], PlanFault::Flag("-p=1".into())),
            (&["--"], PlanFault::Flag("--".into())),
        ] {
            assert_eq!(verdict(bad, Safety::Default), Err(fault), "{bad:?}");
        }
        assert!(verdict(&["--yolo", "--mode", "edits"], Safety::Danger).is_ok());
        assert!(verdict(&["--mode", "edits"], Safety::Edit).is_ok());
    }

    #[test]
    fn a_lone_dash_is_a_word_and_never_one_of_many_values() {
        assert!(verdict(&["--tools", "a", "-"], Safety::Default).is_ok(), "it is declared");
        let mut undeclared = descriptor();
        undeclared.programs[0].words.clear();
        let (files, secrets, inherited) = (HashMap::new(), HashMap::new(), HashMap::new());
        let known = ValueSources {
            files: &files,
            secrets: &secrets,
            port: None,
            tool_server: None,
            inherited: &inherited,
        };
        assert_eq!(
            check(&spawn(&["--tools", "a", "-"]), &undeclared, Safety::Danger, known),
            Err(PlanFault::Stray(3))
        );
    }

    #[test]
    fn the_kernels_argument_limit_is_kept_to_the_byte() {
        let fits = "x".repeat(ARGUMENT_LIMIT);
        assert!(verdict(&["--resume", &fits], Safety::Default).is_ok());
        let long = "x".repeat(ARGUMENT_LIMIT + 1);
        assert_eq!(
            verdict(&["--resume", &long], Safety::Default),
            Err(PlanFault::TooLong("argument 2".into(), 131_072))
        );
        assert_eq!(
            verdict(&["--resume", "a\0b"], Safety::Default),
            Err(PlanFault::Nul("argument 2".into()))
        );
    }

    #[test]
    fn only_declared_variables_and_put_files_are_filled_in() {
        let mut wish = spawn(&[]);
        wish.environment =
            vec![AgentVariable { name: "X_MODE".into(), value: ArgumentValue::Inherit }];
        let inherited = HashMap::from([("X_MODE".to_owned(), "1".to_owned())]);
        let plan =
            verdict_on(&wish, Safety::Default, &HashMap::new(), &inherited).expect("allowed");
        assert_eq!(plan.environment, [("X_MODE".to_owned(), "1".to_owned())]);
        wish.environment[0].name = "LD_PRELOAD".into();
        assert!(matches!(
            verdict_on(&wish, Safety::Danger, &HashMap::new(), &inherited),
            Err(PlanFault::Variable(_))
        ));
        let mut wish = spawn(&["--resume"]);
        wish.arguments.push(ArgumentValue::File("system.md".into()));
        assert_eq!(
            verdict_on(&wish, Safety::Default, &HashMap::new(), &inherited),
            Err(PlanFault::File("system.md".into()))
        );
        let files = HashMap::from([("system.md".to_owned(), PathBuf::from("/run/x/system.md"))]);
        assert_eq!(
            verdict_on(&wish, Safety::Default, &files, &inherited).expect("put").arguments[1],
            "/run/x/system.md"
        );
    }

    proptest! {
        /// Whatever a guest returns, a command that passes the check consists of declared flags and
        /// words, and free text occurs only after a flag that takes a value.
        #[test]
        fn free_text_never_becomes_a_flag(arguments in proptest::collection::vec("(--yolo|--resume|--tools|-p|exec|[-a-z =]{0,12})", 0..6)) {
            let texts: Vec<&str> = arguments.iter().map(String::as_str).collect();
            if let Ok(checked) = verdict(&texts, Safety::Default) {
                prop_assert!(checked.arguments.iter().all(|argument| argument != "--yolo"));
                for (index, argument) in checked.arguments.iter().enumerate() {
                    if argument.starts_with('-') && argument != "-" {
                        let name = argument.split('=').next().unwrap_or_default();
                        prop_assert!(["-p", "--resume", "--tools", "--mode", "-c"].contains(&name), "{argument}");
                    } else if !["exec", "-"].contains(&argument.as_str()) {
                        prop_assert!(index > 0 && checked.arguments[..index].iter().any(|earlier| earlier.starts_with("--")));
                    }
                }
            }
        }
    }
}
