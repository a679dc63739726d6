//! Records in which functions guests spend their time, by sampling their stacks.
//!
//! A sample is taken at each tick of the engine in which a guest runs. Guests notice ticks at the
//! beginning of functions and loops only, so a sample names the next function that begins. While the
//! host copies inputs or actions, that is the guest's `cabi_realloc` or `cabi_post_…`.

mod firefox;

use std::collections::{BTreeSet, HashMap};
use std::hash::Hash;
use std::io::{self, Write};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use parking_lot::Mutex;
use wasmtime::{Store, UpdateDeadline, WasmBacktrace};

use super::backtrace::{self, StackFrame};
use super::sandbox::StoreState;

/// Largest number of samples, so that a long profile does not fill the memory.
const SAMPLES_MAX: usize = 1_000_000;

/// The stacks of guests at the ticks of an engine
/// ([`Engine::profiling`](super::Engine::profiling)).
#[derive(Debug)]
pub struct StackProfile {
    start: Instant,
    started: SystemTime,
    recorded: Mutex<Recorded>,
}

/// How many samples of a profile contain a function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FunctionShare {
    /// The name of the function.
    pub name: String,
    /// The number of samples in which the function itself ran.
    pub own: usize,
    /// The number of samples in which the function, or one that it called, ran.
    pub total: usize,
}

#[derive(Debug, Default)]
struct Recorded {
    frames: Interner<StackFrame>,
    stacks: Interner<StackNode>,
    samples: Vec<Sample>,
}

/// A frame and the stack of its caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct StackNode {
    caller: Option<usize>,
    frame: usize,
}

#[derive(Clone, Copy, Debug)]
struct Sample {
    /// The time since the beginning of the profile.
    at: Duration,
    stack: usize,
}

impl Default for StackProfile {
    fn default() -> Self {
        Self { start: Instant::now(), started: SystemTime::now(), recorded: Mutex::default() }
    }
}

impl StackProfile {
    /// Records the stack of a store's guest from now on.
    pub(super) fn follow(self: Arc<Self>, store: &mut Store<StoreState>) {
        store.epoch_deadline_callback(move |context| {
            self.record(backtrace::frames(&WasmBacktrace::force_capture(&context)));
            Ok(UpdateDeadline::YieldCustom(1, Box::pin(tokio::task::yield_now())))
        });
    }

    /// Records a stack, the innermost frame first.
    fn record(&self, frames: impl DoubleEndedIterator<Item = StackFrame>) {
        let at = self.start.elapsed();
        let mut recorded = self.recorded.lock();
        if recorded.samples.len() >= SAMPLES_MAX {
            return;
        }
        let mut stack = None;
        for frame in frames.rev() {
            let frame = recorded.frames.index_of(frame);
            stack = Some(recorded.stacks.index_of(StackNode { caller: stack, frame }));
        }
        if let Some(stack) = stack {
            recorded.samples.push(Sample { at, stack });
        }
    }

    /// Returns the number of samples.
    #[must_use]
    pub fn samples(&self) -> usize {
        self.recorded.lock().samples.len()
    }

    /// Returns all functions, those with most samples of their own first.
    #[must_use]
    pub fn functions(&self) -> Vec<FunctionShare> {
        let recorded = self.recorded.lock();
        let labels: Vec<String> = recorded.frames.values.iter().map(StackFrame::label).collect();
        let mut shares: HashMap<&str, (usize, usize)> = HashMap::new();
        let mut times: HashMap<usize, usize> = HashMap::new();
        for sample in &recorded.samples {
            *times.entry(sample.stack).or_default() += 1;
        }
        for (stack, count) in times {
            let mut names = BTreeSet::new();
            let mut node = Some(stack);
            while let Some(at) = node {
                let StackNode { caller, frame } = recorded.stacks.values[at];
                names.insert(&*labels[frame]);
                if at == stack {
                    shares.entry(&labels[frame]).or_default().0 += count;
                }
                node = caller;
            }
            for name in names {
                shares.entry(name).or_default().1 += count;
            }
        }
        let mut functions: Vec<FunctionShare> = shares
            .into_iter()
            .map(|(name, (own, total))| FunctionShare { name: name.to_owned(), own, total })
            .collect();
        functions.sort_by(|a, b| {
            (b.own, b.total).cmp(&(a.own, a.total)).then_with(|| a.name.cmp(&b.name))
        });
        functions
    }

    /// Returns whether at least one function has a name.
    #[must_use]
    pub fn has_names(&self) -> bool {
        self.recorded.lock().frames.values.iter().any(StackFrame::is_named)
    }

    /// Writes the profile in the format of <https://profiler.firefox.com>, with this title.
    ///
    /// # Errors
    /// The error of `out`.
    pub fn write_firefox(&self, title: &str, out: impl Write) -> io::Result<()> {
        let form = firefox::document(title, self.started, &self.recorded.lock());
        serde_json::to_writer(out, &form).map_err(io::Error::from)
    }
}

/// Numbers equal values once.
#[derive(Debug)]
struct Interner<T> {
    values: Vec<T>,
    known: HashMap<T, usize>,
}

impl<T> Default for Interner<T> {
    fn default() -> Self {
        Self { values: Vec::new(), known: HashMap::new() }
    }
}

impl<T: Clone + Eq + Hash> Interner<T> {
    fn index_of(&mut self, value: T) -> usize {
        if let Some(index) = self.known.get(&value) {
            return *index;
        }
        let index = self.values.len();
        self.values.push(value.clone());
        self.known.insert(value, index);
        index
    }
}

#[cfg(test)]
mod tests {
    use super::super::backtrace::tests::frame;
    use super::*;

    /// Records stacks that are written with the innermost function first.
    fn profile(stacks: &[&[&str]]) -> StackProfile {
        let profile = StackProfile::default();
        for stack in stacks {
            profile.record(stack.iter().map(|name| frame(name, Some(("src/lib.rs", 7)))));
        }
        profile
    }

    #[test]
    fn a_function_that_calls_itself_counts_once_a_sample() {
        let profile = profile(&[
            &["text", "line", "handle"],
            &["line", "line", "handle"],
            &["text", "line", "handle"],
            &[],
        ]);
        assert_eq!(profile.samples(), 3);
        let share = |name: &str, own, total| FunctionShare { name: name.to_owned(), own, total };
        assert_eq!(
            profile.functions(),
            [share("text", 2, 2), share("line", 1, 3), share("handle", 0, 3)]
        );
    }

    #[test]
    fn the_document_has_every_function_and_stack() {
        let profile = profile(&[&["text", "line"], &["text", "line"], &["line"]]);
        let mut bytes = Vec::new();
        profile.write_firefox("mini 1", &mut bytes).expect("memory");
        let form: serde_json::Value = serde_json::from_slice(&bytes).expect("JSON");
        assert_eq!(form["meta"]["product"], "mini 1");
        let thread = &form["threads"][0];
        let strings: Vec<&str> = thread["stringArray"]
            .as_array()
            .expect("a list")
            .iter()
            .filter_map(serde_json::Value::as_str)
            .collect();
        assert_eq!(strings, ["line", "src/lib.rs", "text"]);
        assert_eq!(thread["samples"]["stack"], serde_json::json!([1, 1, 0]));
        assert_eq!(thread["stackTable"]["prefix"], serde_json::json!([null, 0]));
        assert_eq!(thread["frameTable"]["line"], serde_json::json!([7, 7]));
        // Every table says how long its columns are.
        for table in ["samples", "stackTable", "frameTable", "funcTable", "markers"] {
            let length = thread[table]["length"].as_u64().expect("a length") as usize;
            for (column, values) in thread[table].as_object().expect("a table") {
                if let Some(values) = values.as_array() {
                    assert_eq!(values.len(), length, "{table}.{column}");
                }
            }
        }
    }
}
