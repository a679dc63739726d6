//! The identity of this machine in its cluster, because two machines may have the same name by
//! mistake.

use std::io;
use std::path::Path;

use aetheel_runtime::ordinary::read_ordinary;
use aetheel_store::disk::replace;

const IDENTITY: &str = "node.md";

/// Returns the identity of this machine in its cluster, or `None` if it never joined one.
///
/// # Errors
/// Returns the error of the system if the file cannot be read.
pub fn read_identity(config: &Path) -> io::Result<Option<String>> {
    let text = match read_ordinary(&config.join("state").join(IDENTITY), 1 << 10) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        text => text.unwrap_or_default(),
    };
    Ok(String::from_utf8_lossy(&text).split('`').nth(1).map(str::to_owned))
}

/// Returns the identity of this machine, and creates it at the first start.
///
/// # Errors
/// Returns the error of the system if the file cannot be read or written.
pub fn create_identity(config: &Path) -> io::Result<String> {
    if let Some(known) = read_identity(config)? {
        return Ok(known);
    }
    let made = uuid::Uuid::new_v4().to_string();
    let text = format!("# Node\n\nWhich machine this is among those of its cluster: `{made}`.\n");
    replace(&config.join("state").join(IDENTITY), text.as_bytes())?;
    Ok(made)
}
