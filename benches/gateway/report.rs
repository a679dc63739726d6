//! Prints figures, one per line.

use std::time::Duration;

/// Prints the title of a group of figures.
pub fn part(title: &str) {
    println!("\n{title}");
}

/// Prints a figure without a goal.
pub fn figure(what: &str, value: &str) {
    println!("  {what:<58} {value:>28}");
}

/// Prints a figure and its goal.
pub fn goal(what: &str, value: &str, goal: &str, met: bool) {
    println!("  {what:<58} {value:>28}   goal {goal}: {}", if met { "met" } else { "MISSED" });
}

/// Returns the value that `percent` percent of the values do not exceed.
pub fn percentile<T: Copy + PartialOrd>(values: &[T], percent: usize) -> T {
    let mut sorted = values.to_vec();
    sorted.sort_by(|a, b| a.partial_cmp(b).expect("comparable"));
    sorted[(sorted.len() * percent / 100).min(sorted.len() - 1)]
}

/// Formats a time in milliseconds or microseconds, whichever is more readable.
pub fn time(time: Duration) -> String {
    let micros = time.as_secs_f64() * 1e6;
    if micros < 1000.0 { format!("{micros:.1} µs") } else { format!("{:.1} ms", micros / 1000.0) }
}

/// Formats the median and the 99th percentile.
pub fn spread(times: &[Duration]) -> String {
    format!("p50 {}, p99 {}", time(percentile(times, 50)), time(percentile(times, 99)))
}

/// Formats megabytes (10^6) per second.
pub fn rate(bytes: usize, time: Duration) -> String {
    format!("{:.0} MB/s", bytes as f64 / 1e6 / time.as_secs_f64())
}
