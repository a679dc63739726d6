//! The functions on a guest's stack, by name and, with debug info, by source line.
//!
//! Names come from the component's `name` section and cost nothing until a guest fails. Source
//! lines need tables that only [`Engine::explaining`](super::Engine::explaining) compiles.

use wasmtime::{Error, FrameInfo, WasmBacktrace};

use aetheel_model::plain::short_line;

/// Largest number of functions that a failure names.
const FUNCTIONS_MAX: usize = 6;
/// Largest lengths of the name of a function and of a source file, in characters.
const NAME_MAX: usize = 120;
const FILE_MAX: usize = 160;

/// Beginnings of names of functions that only report a failure. The function that failed called
/// them.
const REPORTING: [&str; 6] = ["std::", "core::", "alloc::", "__rust", "rust_", "panic_"];
/// Parts of the paths of Rust's standard library. Its functions are not named, unless all are.
const LIBRARY: [&str; 3] = ["/library/std/src/", "/library/core/src/", "/library/alloc/src/"];

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct StackFrame {
    /// The mangled name, or `None` if the component has no names.
    name: Option<String>,
    /// The number of the function in its module.
    index: u32,
    pub(super) file: Option<String>,
    /// The source line, from 1, if it is known.
    pub(super) line: Option<u32>,
}

impl StackFrame {
    /// Returns the name of the function for people.
    pub(super) fn label(&self) -> String {
        match &self.name {
            Some(name) => short_line(&demangled(name), NAME_MAX),
            None => format!("function {}", self.index),
        }
    }

    pub(super) fn is_named(&self) -> bool {
        self.name.is_some()
    }

    fn is_reporting(&self) -> bool {
        let label = self.label();
        let reports =
            label == "abort" || REPORTING.iter().any(|beginning| label.starts_with(beginning));
        self.is_named() && reports
    }

    fn is_library(&self) -> bool {
        let file = self.file.as_deref().unwrap_or_default();
        LIBRARY.iter().any(|part| file.contains(part))
    }

    fn described(&self) -> String {
        let name = match &self.name {
            Some(_) => format!("`{}`", self.label()),
            None => self.label(),
        };
        match (&self.file, self.line) {
            (Some(file), Some(line)) => format!("{name} ({}:{line})", short_line(file, FILE_MAX)),
            _ => name,
        }
    }
}

/// Returns the functions of a backtrace, the innermost first. A function that the compiler inlined
/// has a frame of its own if there is debug info.
pub(super) fn frames(trace: &WasmBacktrace) -> impl DoubleEndedIterator<Item = StackFrame> {
    trace.frames().iter().flat_map(frames_of)
}

fn frames_of(info: &FrameInfo) -> Vec<StackFrame> {
    let index = info.func_index();
    if info.symbols().is_empty() {
        let name = info.func_name().map(str::to_owned);
        return vec![StackFrame { name, index, file: None, line: None }];
    }
    let mut frames: Vec<StackFrame> = info
        .symbols()
        .iter()
        .map(|symbol| StackFrame {
            name: symbol.name().map(str::to_owned),
            index,
            file: symbol.file().map(str::to_owned),
            line: symbol.line(),
        })
        .collect();
    // The last one is the function itself. Line tables have its name without its path.
    if let (Some(last), Some(name)) = (frames.last_mut(), info.func_name()) {
        last.name = Some(name.to_owned());
    }
    frames
}

/// Describes the stack of a guest that failed, or returns `None` if the failure has no stack.
pub(super) fn describe(error: &Error) -> Option<String> {
    let frames: Vec<StackFrame> = frames(error.downcast_ref::<WasmBacktrace>()?).collect();
    described(&frames)
}

fn described(frames: &[StackFrame]) -> Option<String> {
    let ours = |frame: &StackFrame| !frame.is_reporting() && !frame.is_library();
    let failed = frames.iter().position(ours).unwrap_or(0);
    let callers = frames.iter().skip(failed + 1).filter(|frame| !frame.is_library());
    let shown = frames.get(failed).into_iter().chain(callers);
    let mut shown = shown.take(FUNCTIONS_MAX).map(StackFrame::described);
    let innermost = shown.next()?;
    let callers: Vec<String> = shown.collect();
    let stripped = if !frames.iter().any(StackFrame::is_named) {
        " (the component has no function names)"
    } else {
        ""
    };
    Some(if callers.is_empty() {
        format!("in {innermost}{stripped}")
    } else {
        format!("in {innermost}, called by {}{stripped}", callers.join(", "))
    })
}

fn demangled(name: &str) -> String {
    if let Ok(rust) = rustc_demangle::try_demangle(name) {
        return format!("{rust:#}");
    }
    let symbol = cpp_demangle::Symbol::new(name).ok();
    symbol.and_then(|symbol| symbol.demangle().ok()).unwrap_or_else(|| name.to_owned())
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(crate) fn frame(name: &str, place: Option<(&str, u32)>) -> StackFrame {
        StackFrame {
            name: Some(name.to_owned()),
            index: 0,
            file: place.map(|(file, _)| file.to_owned()),
            line: place.map(|(_, line)| line),
        }
    }

    #[test]
    fn names_are_demangled() {
        for (mangled, name) in [
            ("_ZN4mini4line17h0123456789abcdefE", "mini::line"),
            ("_RNvCs1234_7mycrate3foo", "mycrate::foo"),
            ("_ZN6parser4lineEPKc", "parser::line(char const*)"),
            ("parse_line", "parse_line"),
        ] {
            assert_eq!(frame(mangled, None).label(), name);
        }
    }

    #[test]
    fn a_stack_begins_with_the_function_that_failed() {
        let stack = [
            frame("_ZN3std9panicking11begin_panic17h0123456789abcdefE", None),
            frame("rust_begin_unwind", None),
            frame("_ZN4core9panicking9panic_fmt17h0123456789abcdefE", Some(("panicking.rs", 75))),
            frame("unwrap", Some(("/rustc/1234/library/core/src/option.rs", 9))),
            frame("_ZN4mini4line17h0123456789abcdefE", Some(("src/lib.rs", 42))),
            frame("with", Some(("/rustc/1234/library/std/src/thread/local.rs", 9))),
            frame("handle", None),
        ];
        assert_eq!(
            described(&stack).as_deref(),
            Some("in `mini::line` (src/lib.rs:42), called by `handle`")
        );
        assert_eq!(described(&stack[1..2]).as_deref(), Some("in `rust_begin_unwind`"));
        assert_eq!(described(&[]), None);
    }

    #[test]
    fn a_stack_is_short_and_on_one_line() {
        let odd = frame("a\n\u{1b}[2Jb", Some((&"x/".repeat(1_000), 1)));
        let stack: Vec<StackFrame> = vec![odd; 100];
        let text = described(&stack).expect("a stack");
        assert!(text.len() < 6 * 400 && !text.contains(['\n', '\u{1b}']), "{text}");
    }

    #[test]
    fn without_names_the_functions_are_numbered() {
        let stack = [7, 3].map(|index| StackFrame { name: None, index, file: None, line: None });
        assert_eq!(
            described(&stack).as_deref(),
            Some("in function 7, called by function 3 (the component has no function names)")
        );
    }
}
