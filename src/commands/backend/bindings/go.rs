//! Bindings for Go that are whole: the generator's name a module of the network for two small
//! packages, ours have them along.

use wit_bindgen_core::Files;

/// The module the generator's files belong to, and where its two packages are in it.
const MODULE: &str = "wit_component";
/// Where the generator would have them from.
const ELSEWHERE: &str = "go.bytecodealliance.org/pkg/wit";

/// The files with everything they import.
pub(super) fn whole(generated: &Files) -> Files {
    let mut files = Files::default();
    for (name, content) in generated.iter() {
        let content = match name {
            "go.mod" => format!("module {MODULE}\n\ngo 1.25\n"),
            _ => String::from_utf8_lossy(content).replace(ELSEWHERE, &format!("{MODULE}/wit")),
        };
        files.push(name, content.as_bytes());
    }
    files.push("wit/types/types.go", include_bytes!("go_types.go"));
    files.push("wit/runtime/runtime.go", include_bytes!("go_runtime.go"));
    files
}
