//! Collects the descriptors of the components that are built from this repository, whichever these
//! are, for `src/release.rs`.

use std::path::{Path, PathBuf};
use std::{env, fs, io};

fn main() -> io::Result<()> {
    let guests = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../guest-backends");
    println!("cargo::rerun-if-changed={}", guests.display());
    let mut descriptors: Vec<PathBuf> = fs::read_dir(&guests)?
        .map(|guest| Ok(guest?.path().join("src/descriptor.json")))
        .collect::<io::Result<_>>()?;
    descriptors.retain(|path| path.is_file());
    descriptors.sort();
    let mut list = String::from("&[");
    for path in &descriptors {
        println!("cargo::rerun-if-changed={}", path.display());
        list += &format!("include_str!({:?}),", path.canonicalize()?.display().to_string());
    }
    list.push(']');
    let out = env::var_os("OUT_DIR").ok_or_else(|| io::Error::other("OUT_DIR is not set"))?;
    fs::write(PathBuf::from(out).join("descriptors.rs"), list)
}
