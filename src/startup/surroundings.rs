//! Checks everything that a start needs except the backends: the token, folders, addresses and
//! access lists.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use super::{Purpose, cluster, dashboard, file_modes, survey, webhooks};
use aetheel_discord::Checkup;
use aetheel_model::access;
use aetheel_model::finding::{Finding, FindingLevel, is_passing};
use aetheel_model::id::UserId;
use aetheel_model::permission::{READS_ONLY, READS_ONLY_HINT, reads_only};
use aetheel_model::redact::Redactor;
use aetheel_settings::{Config, MendMode};
use aetheel_store::disk::write_probe;

/// Checks everything that a start for this purpose needs, without network requests.
#[must_use]
pub fn examine(
    config: &Config,
    variables: &HashMap<String, String>,
    redactor: &Redactor,
    purpose: Purpose,
) -> Vec<Finding> {
    let mut findings = Vec::new();
    if purpose != Purpose::Console {
        findings.extend(token(config, redactor, purpose));
        findings.extend(folders(config));
    }
    if purpose == Purpose::Check {
        findings.extend(file_modes::examine(config));
    }
    findings.extend(survey::wrapper(config, variables));
    findings.extend(dashboard::finding(config));
    findings.extend(cluster::findings(config));
    findings.extend(mending(config));
    if purpose != Purpose::Console {
        findings.extend(addresses(config, purpose));
        findings.extend(access(config));
        findings.extend(tools(config, variables));
        findings.extend(invented_users(config));
    }
    findings
}

/// Reports agents that may only read. It is a warning unless the operator chose that.
fn tools(config: &Config, variables: &HashMap<String, String>) -> Option<Finding> {
    let is_chosen = variables.get("ALLOWED_TOOLS").is_some_and(|tools| !tools.trim().is_empty());
    reads_only(&config.allowed_tools).then(|| match is_chosen {
        true => Finding::ok("tools", READS_ONLY),
        false => Finding::warning("tools", READS_ONLY).with_hint(READS_ONLY_HINT),
    })
}

fn token(config: &Config, redactor: &Redactor, purpose: Purpose) -> Option<Finding> {
    if config.discord_bot_token.is_none() {
        return (purpose == Purpose::Serve).then(|| {
            let says = "DISCORD_BOT_TOKEN is not set";
            let hint =
                "copy the bot's token from Discord's developer portal, or run `aetheel init`";
            Finding::invalid("discord token", says).with_hint(hint)
        });
    }
    let error = crate::startup::discord_options(config, redactor.clone())
        .and_then(|options| Checkup::new(&options))
        .err();
    Some(match error {
        Some(error) => error.finding("discord token"),
        None => Finding::ok("discord token", "has the form of a token"),
    })
}

/// Checks that the gateway can mend backends if it is to.
fn mending(config: &Config) -> Option<Finding> {
    let folder = match (config.backend_mend, &config.backend_sources) {
        (MendMode::Off, _) => return None,
        (_, None) => {
            let says =
                "BACKEND_MEND needs BACKEND_SOURCES, the folder with the sources of the backends";
            let hint =
                "set it to `guest-backends` of a checkout of this release, or remove BACKEND_MEND";
            return Some(Finding::invalid("mending", says).with_hint(hint));
        }
        (_, Some(folder)) => folder,
    };
    (!folder.is_dir()).then(|| {
        let says = format!("BACKEND_SOURCES: there is no folder {}", folder.display());
        Finding::invalid("mending", says)
    })
}

/// Tries to write into each folder that the gateway and its agents need.
fn folders(config: &Config) -> Vec<Finding> {
    let needed = FindingLevel::Invalid;
    let all = [
        ("CONFIG_DIR", config.config_dir.clone(), needed),
        ("CONFIG_DIR/state", config.config_dir.join("state"), needed),
        ("WORKSPACE_DIR", config.workspace_dir.clone(), needed),
        ("RECORDINGS_DIR", config.recordings_dir.clone(), FindingLevel::LeftOut),
        ("CACHE_DIR", config.cache_dir.clone(), FindingLevel::LeftOut),
    ];
    all.into_iter().map(|(name, path, level)| folder(name, &path, level)).collect()
}

/// Tries to write into a folder, or into its nearest existing parent if it does not exist.
pub fn folder(name: &str, folder: &Path, level: FindingLevel) -> Finding {
    let shown = folder.display();
    let Some(there) = nearest(folder) else {
        let says = format!("{name}: cannot create the folder {shown}");
        let hint = format!("create it, or set {name} to another one");
        return Finding::new(level, name, says).with_hint(hint);
    };
    match write_probe(&there) {
        Ok(()) if there == folder => Finding::ok(name, format!("{shown} can be written to")),
        Ok(()) => Finding::ok(name, format!("{shown} does not exist yet and can be created")),
        Err(error) => {
            let says = format!("{name}: {} cannot be written to: {error}", there.display());
            if is_passing(&error) {
                let level = level.min(FindingLevel::Passing);
                let hint = "free some space; the next start may succeed without another change";
                return Finding::new(level, name, says).with_hint(hint);
            }
            let hint =
                "give the gateway's user the folder: `chown`, or ReadWritePaths= of its unit";
            Finding::new(level, name, says).with_hint(hint)
        }
    }
}

/// Returns the folder if it exists, otherwise its nearest existing parent. Returns `None` if that
/// parent is not a folder.
pub fn nearest(folder: &Path) -> Option<PathBuf> {
    let absolute = std::path::absolute(folder).ok()?;
    if absolute.is_dir() {
        return Some(folder.to_owned());
    }
    absolute
        .ancestors()
        .find(|above| above.exists())
        .filter(|above| above.is_dir())
        .map(Path::to_owned)
}

/// Checks the addresses that the gateway will listen at.
fn addresses(config: &Config, purpose: Purpose) -> Vec<Finding> {
    // In a start, the status pages are already open.
    let mut findings = survey::addresses(config, purpose != Purpose::Serve);
    if let Some(address) = config.status_address.filter(|address| !address.ip().is_loopback()) {
        findings.push(open_status(address));
    }
    findings.extend(webhooks::warnings(config));
    findings
}

fn open_status(address: SocketAddr) -> Finding {
    let says = format!(
        "STATUS_ADDRESS {address} can be reached from other machines: anyone there can see the activity of this bot"
    );
    Finding::warning("status pages", says).with_hint("listen at 127.0.0.1, or behind a firewall")
}

/// Reports the access lists. Returns `None` without a token, because nobody can use the bot then.
fn access(config: &Config) -> Option<Finding> {
    config.discord_bot_token.as_ref()?;
    let open = access::warning(&config.discord.allowed, config.safety);
    Some(
        open.unwrap_or_else(|| {
            Finding::ok("access", "only listed people and roles may use the bot")
        }),
    )
}

/// The smallest id that Discord has given. Ids contain the time since 2015.
const FIRST_ID: u64 = 10_000_000_000_000_000;

/// Returns a problem for each user in `ALLOWED_USERS` whose id cannot be one of Discord.
fn invented_users(config: &Config) -> impl Iterator<Item = Finding> {
    let is_invented =
        |user: &&UserId| user.to_string().parse::<u64>().is_ok_and(|id| id < FIRST_ID);
    config.discord.allowed.users.iter().filter(is_invented).map(|user| {
        Finding::invalid("access lists", format!("ALLOWED_USERS: {user} is not the id of a user"))
            .with_hint("copy the id with Discord's developer mode; it has 17 digits or more")
    })
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_missing_folder_is_judged_by_its_nearest_parent() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(nearest(&folder.path().join("a/b/c")), Some(folder.path().to_owned()));
        fs::write(folder.path().join("file"), "").unwrap();
        assert_eq!(nearest(&folder.path().join("file/x")), None);
    }

    #[test]
    fn a_read_only_folder_is_a_problem_that_names_the_setting() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("file"), "").unwrap();
        let found = super::folder("WORKSPACE_DIR", &at("file/x"), FindingLevel::LeftOut);
        assert_eq!(found.level, FindingLevel::LeftOut);
        assert!(found.message.starts_with("WORKSPACE_DIR: "), "{found}");
        // Even root cannot write there.
        let found = super::folder("RECORDINGS_DIR", Path::new("/proc/1/x"), FindingLevel::LeftOut);
        assert_eq!(found.level, FindingLevel::LeftOut, "{found}");
        fs::create_dir(at("open")).unwrap();
        fs::set_permissions(at("open"), fs::Permissions::from_mode(0o700)).unwrap();
        assert_eq!(
            super::folder("CONFIG_DIR", &at("open"), FindingLevel::Invalid).level,
            FindingLevel::Ok
        );
    }
}
