//! Completes the generated Go bindings. They import two small packages from the network; this
//! module includes those packages and rewrites the imports.

use wit_bindgen_core::Files;

/// Name of the Go module that contains the generated files and the two packages.
const MODULE: &str = "wit_component";
/// Module from which the generated files import the two packages.
const UPSTREAM_MODULE: &str = "go.bytecodealliance.org/pkg/wit";

/// Returns the generated files together with the packages that they import.
pub(super) fn with_imports(generated: &Files) -> Files {
    let mut files = Files::default();
    for (name, content) in generated.iter() {
        let content = match name {
            "go.mod" => format!("module {MODULE}\n\ngo 1.25\n"),
            _ => {
                String::from_utf8_lossy(content).replace(UPSTREAM_MODULE, &format!("{MODULE}/wit"))
            }
        };
        files.push(name, content.as_bytes());
    }
    files.push("wit/types/types.go", include_bytes!("go_types.go"));
    files.push("wit/runtime/runtime.go", include_bytes!("go_runtime.go"));
    files
}
