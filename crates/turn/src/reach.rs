//! The files that a confined agent may access: decided here, enforced by the launcher.
//!
//! Everything that the agent may read or write is listed. The rest of the machine is out of its
//! reach, above all the gateway's own files. A [`ReachPolicy`] has the operator's decisions for all
//! agents, a [`Reach`] the resulting rules for one process.

use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::{fs, io};

use serde::{Deserialize, Serialize};

use super::os_text;
use aetheel_model::agent::Descriptor;
use aetheel_model::agent::descriptor::{StateAccess, StatePath};

/// Variables whose values are the paths of certificates that any program has to read.
const CERTIFICATE_VARIABLES: [&str; 3] = ["SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS"];

/// A part of the names of such variables of single agents. Certificates are not secret, so the
/// component need not say that it reads them.
const CERTIFICATES: &str = "_CA_CERT";

/// The files that one process may access, in addition to the system's own folders and its program.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reach {
    /// Further programs that the process starts, as paths or names to look up. Their installations
    /// can be read.
    #[serde(with = "os_text::list")]
    pub programs: Vec<PathBuf>,
    /// Paths that can be read and executed, with everything below them.
    #[serde(with = "os_text::list")]
    pub read: Vec<PathBuf>,
    /// Paths that can be read, executed and changed, with everything below them.
    #[serde(with = "os_text::list")]
    pub write: Vec<PathBuf>,
    /// Paths that can be neither read nor written, even if a path above them can.
    #[serde(with = "os_text::list")]
    pub hidden: Vec<PathBuf>,
    /// Paths that cannot be written, even if a path above them can.
    #[serde(with = "os_text::list")]
    pub read_only: Vec<PathBuf>,
    /// Folders in which agents work. A link in one of them is not followed, because an agent could
    /// have made it.
    #[serde(with = "os_text::list")]
    pub agent_folders: Vec<PathBuf>,
    /// Whether the agent confines its own commands by mounts, which some sandboxes do not allow.
    pub own_sandbox: bool,
}

/// The operator's decisions for all agents.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReachPolicy {
    /// Folders of `AGENT_READ`.
    pub read: Vec<PathBuf>,
    /// Folders of `AGENT_WRITE`.
    pub write: Vec<PathBuf>,
    /// The gateway's own files: configuration, state, recordings, caches and the env file.
    pub hidden: Vec<PathBuf>,
    /// The gateway's own files that are not secret, such as the folder of components.
    pub read_only: Vec<PathBuf>,
    /// Folders in which agents work.
    pub agent_folders: Vec<PathBuf>,
}

impl ReachPolicy {
    /// Returns the reach of a backend's agent with these variables. Creates missing state of the
    /// agent, because a confined agent could not create it.
    #[must_use]
    pub fn reach(
        &self,
        descriptor: &Descriptor,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Reach {
        let mut reach = Reach {
            read: self.read.clone(),
            write: self.write.clone(),
            hidden: self.hidden.clone(),
            read_only: self.read_only.clone(),
            agent_folders: self.agent_folders.clone(),
            own_sandbox: descriptor.own_sandbox,
            ..Reach::default()
        };
        let passed = descriptor.environment.pass.iter().map(String::as_str);
        let certificates = passed.filter(|name| name.contains(CERTIFICATES));
        let mut names = Vec::from(CERTIFICATE_VARIABLES);
        names.extend(certificates.chain(descriptor.path_variables()));
        let named = names.into_iter().filter_map(&variable).map(PathBuf::from);
        reach.read.extend(named.filter(|path| path.is_absolute()));
        for state in &descriptor.state {
            let Some(place) = state.place(&variable) else { continue };
            if let Err(error) = make(state, &place) {
                tracing::debug!(path = %place.display(), %error, "state of an agent cannot be created");
            }
            match state.access {
                StateAccess::Write => reach.write.push(place),
                StateAccess::Read => reach.read.push(place),
            }
        }
        reach
    }
}

/// Creates a file or folder for an agent's state, private to this user.
fn make(state: &StatePath, place: &Path) -> io::Result<()> {
    if fs::symlink_metadata(place).is_ok() {
        return Ok(());
    }
    let folder = |path: &Path| fs::DirBuilder::new().recursive(true).mode(0o700).create(path);
    if state.is_folder() {
        return folder(place);
    }
    place.parent().map_or(Ok(()), folder)?;
    let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(place)?;
    let is_json = place.extension().is_some_and(|extension| extension == "json");
    io::Write::write_all(&mut file, if is_json { b"{}\n" } else { b"" })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn the_component_names_the_variables_whose_paths_its_agent_reads() {
        let reads = |environment: &str| {
            let json = format!(
                r#"{{"name":"x","version":"1","programs":[{{"name":"x"}}],"environment":{environment},
                "credentials":[{{"variable":"X_LOGIN_FILE"}},{{"variable":"X_KEY"}}]}}"#
            );
            let descriptor = Descriptor::parse(&json).unwrap();
            let variable = |name: &str| match name {
                "X_KEY" => Some("no-path".to_owned()),
                "HOME" => None,
                other => Some(format!("/{other}")),
            };
            let reach = ReachPolicy::default().reach(&descriptor, variable);
            let own = reach.read.iter().filter(|path| {
                path.starts_with("/X_LOGIN_FILE")
                    || path.starts_with("/X_SETTINGS")
                    || path.starts_with("/X_EXTRA_CA_CERTS")
            });
            own.map(|path| path.display().to_string()).collect::<Vec<_>>()
        };
        assert_eq!(
            reads(r#"{"pass":["X_SETTINGS","X_MODE"],"paths":["X_SETTINGS"]}"#),
            ["/X_SETTINGS"]
        );
        assert_eq!(reads(r#"{"pass":["X_SETTINGS"]}"#), ["/X_LOGIN_FILE"], "it does not say");
        assert_eq!(
            reads(r#"{"pass":["X_EXTRA_CA_CERTS"],"paths":[]}"#),
            ["/X_EXTRA_CA_CERTS"],
            "certificates are not secret"
        );
    }

    #[test]
    fn missing_state_is_created_privately_and_existing_state_is_unchanged() {
        let home = tempfile::tempdir().unwrap();
        let descriptor = Descriptor::parse(
            r#"{"name":"x","version":"1","programs":[{"name":"x"}],"environment":{"pass":["X_HOME"]},"state":[
                {"path":"~/.x/deep/"},{"path":"~/.x.json"},{"path":"~/.old"},{"path":"~/.y/","access":"read"},
                {"path":"~/.z/","moved-by":"X_HOME","below":"z"}]}"#,
        )
        .unwrap();
        fs::write(home.path().join(".old"), "kept").unwrap();
        let fence = ReachPolicy {
            read: vec!["/srv".into()],
            hidden: vec!["/secret".into()],
            ..ReachPolicy::default()
        };
        let (at, moved) = (home.path().to_owned(), home.path().join("moved"));
        let reach = fence.reach(&descriptor, |name| match name {
            "HOME" => Some(at.display().to_string()),
            "X_HOME" => Some(moved.display().to_string()),
            "SSL_CERT_FILE" => Some("/certificates.pem".to_owned()),
            _ => None,
        });
        assert_eq!(
            reach.write,
            [at.join(".x/deep"), at.join(".x.json"), at.join(".old"), moved.join("z")]
        );
        assert_eq!(reach.read, [PathBuf::from("/srv"), "/certificates.pem".into(), at.join(".y")]);
        assert_eq!(reach.hidden, [PathBuf::from("/secret")]);
        assert_eq!(fs::read_to_string(at.join(".x.json")).unwrap(), "{}\n");
        assert_eq!(fs::read_to_string(at.join(".old")).unwrap(), "kept");
        assert_eq!(fs::metadata(at.join(".x/deep")).unwrap().permissions().mode() & 0o777, 0o700);
        assert!(moved.join("z").is_dir());
    }
}
