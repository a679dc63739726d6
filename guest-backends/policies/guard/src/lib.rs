//! `guard` is a policy of Aetheel. It allows commands and tools that only read, and denies writing
//! outside of the working directory. People are asked about everything else.
//!
//! `options` has the operator's choices, and `command` reads a command of a shell.

mod command;
mod options;

pub use self::options::{GuardOptions, Outside};

/// A file of a request, resolved by the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolFile {
    /// The absolute path.
    pub resolved: String,
    /// Whether it is the working directory or below it.
    pub is_inside: bool,
}

/// The part of a request that the decision depends on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolUse {
    /// The unified kind of the tool.
    pub kind: String,
    /// The command of a shell.
    pub command: Option<String>,
    /// The files that the tool reads or changes.
    pub files: Vec<ToolFile>,
}

/// A decision, with its reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The agent may use the tool.
    Allow(String),
    /// People are asked.
    Ask(String),
    /// The agent may not use the tool.
    Deny(String),
    /// There is no rule for the request.
    Pass,
}

/// Decides about a request.
#[must_use]
pub fn decide(request: &ToolUse, options: &GuardOptions) -> Verdict {
    let outside =
        request.files.iter().find(|file| !file.is_inside && !options.is_inside(&file.resolved));
    match (request.kind.as_str(), &request.command, outside) {
        ("file_write" | "file_edit", _, Some(file)) => {
            let reason = format!("{} is outside of the working directory", file.resolved);
            match options.write_outside {
                Outside::Deny => Verdict::Deny(reason),
                Outside::Ask => Verdict::Ask(reason),
            }
        }
        ("file_read", _, Some(_)) if !options.read_outside => Verdict::Pass,
        ("file_read", _, _) if !request.files.is_empty() => {
            Verdict::Allow("it only reads".to_owned())
        }
        ("bash", Some(command), _) if only_reads(command, options) => {
            Verdict::Allow("the command only reads".to_owned())
        }
        _ => Verdict::Pass,
    }
}

/// Returns whether a command starts only programs of the operator's list, with arguments that name
/// no file outside of the working directory.
fn only_reads(command: &str, options: &GuardOptions) -> bool {
    let Some(programs) = command::programs(command) else { return false };
    programs.iter().all(|words| {
        let whole = words.join(" ");
        let is_listed = options.commands.iter().any(|listed| match listed.contains(' ') {
            true => *listed == whole,
            false => *listed == words[0],
        });
        is_listed
            && (options.read_outside
                || words.iter().skip(1).all(|word| !command::leads_outside(word)))
    })
}

#[cfg(target_arch = "wasm32")]
mod component {
    use std::cell::RefCell;

    use super::{GuardOptions, ToolFile, ToolUse, Verdict};

    wit_bindgen::generate!({ path: "../../../wit/policy", world: "tool-policy" });

    use exports::aetheel::policy::policy as wit;

    struct Component;

    // A policy has one instance for each decision, and an instance has one thread.
    thread_local! {
        static OPTIONS: RefCell<GuardOptions> = RefCell::default();
    }

    impl wit::Guest for Component {
        fn describe() -> String {
            serde_json::json!({
                "name": "guard",
                "version": env!("CARGO_PKG_VERSION"),
                "description": env!("CARGO_PKG_DESCRIPTION"),
            })
            .to_string()
        }

        fn configure(options: String) -> Result<(), String> {
            OPTIONS.set(GuardOptions::parse(&options)?);
            Ok(())
        }

        fn decide(request: wit::Request) -> Result<wit::Decision, String> {
            let files = request
                .paths
                .into_iter()
                .map(|path| ToolFile { resolved: path.resolved, is_inside: path.inside });
            let (kind, command, files) = (request.kind, request.command, files.collect());
            let request = ToolUse { kind, command, files };
            let decision = OPTIONS.with_borrow(|options| super::decide(&request, options));
            let (effect, reason) = match decision {
                Verdict::Allow(reason) => (wit::Effect::Allow, reason),
                Verdict::Ask(reason) => (wit::Effect::Ask, reason),
                Verdict::Deny(reason) => (wit::Effect::Deny, reason),
                Verdict::Pass => (wit::Effect::Pass, String::new()),
            };
            Ok(wit::Decision { effect, reason })
        }
    }

    export!(Component);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(kind: &str, command: Option<&str>, files: &[(&str, bool)]) -> ToolUse {
        let files = files.iter().map(|(resolved, is_inside)| ToolFile {
            resolved: (*resolved).to_owned(),
            is_inside: *is_inside,
        });
        let command = command.map(str::to_owned);
        ToolUse { kind: kind.to_owned(), command, files: files.collect() }
    }

    fn options(text: &str) -> GuardOptions {
        GuardOptions::parse(text).expect("valid")
    }

    #[test]
    fn commands_that_only_read_are_allowed() {
        let of = |command, text| decide(&request("bash", Some(command), &[]), &options(text));
        assert!(matches!(of("ls -la | head -n 3", ""), Verdict::Allow(_)));
        for command in [
            "rm a",
            "ls; rm a",
            "ls && curl x",
            "cat /etc/passwd",
            "./ls",
            "A=1 ls",
            "find . -delete",
        ] {
            assert_eq!(of(command, ""), Verdict::Pass, "{command}");
        }
        assert!(matches!(of("cat /etc/os-release", r#"{"read-outside":true}"#), Verdict::Allow(_)));
        let git = r#"{"commands":["git status"]}"#;
        assert!(matches!(of("git status", git), Verdict::Allow(_)));
        assert_eq!(of("git status -v", git), Verdict::Pass);
        assert_eq!(of("ls", git), Verdict::Pass, "a list replaces the usual commands");
    }

    #[test]
    fn writing_outside_is_denied_and_inside_left_to_people() {
        let of = |files: &[(&str, bool)], text| {
            decide(&request("file_edit", None, files), &options(text))
        };
        assert!(matches!(of(&[("/w/a", true), ("/etc/b", false)], ""), Verdict::Deny(_)));
        assert_eq!(of(&[("/w/a", true)], ""), Verdict::Pass);
        assert!(matches!(of(&[("/etc/b", false)], r#"{"write-outside":"ask"}"#), Verdict::Ask(_)));
        let tmp = r#"{"also-inside":["/tmp/"]}"#;
        assert_eq!(of(&[("/tmp/b", false)], tmp), Verdict::Pass);
        assert!(matches!(of(&[("/tmpfile", false)], tmp), Verdict::Deny(_)));
    }

    #[test]
    fn wrong_options_are_explained() {
        for (text, part) in [
            ("{", "EOF"),
            (r#"{"comands":[]}"#, "comands"),
            (r#"{"also-inside":["tmp"]}"#, "absolute"),
        ] {
            let error = GuardOptions::parse(text).expect_err(text);
            assert!(error.contains(part), "{error}");
        }
    }
}
