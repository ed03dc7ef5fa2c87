//! Times the contenders alternately (A B C A B C …), so that disturbances of the machine affect all of them equally.

use super::plan::Plan;
use std::time::{Duration, Instant};

/// Measures the CPU time of this thread, or the elapsed time on systems without such a clock.
struct Clock {
    #[cfg(target_os = "linux")]
    worked: Duration,
    #[cfg(not(target_os = "linux"))]
    start: Instant,
}

impl Clock {
    #[cfg(target_os = "linux")]
    fn start() -> Self {
        Self { worked: Self::worked() }
    }

    #[cfg(target_os = "linux")]
    fn elapsed(&self) -> Duration {
        Self::worked() - self.worked
    }

    #[cfg(target_os = "linux")]
    fn worked() -> Duration {
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: `time` may be written to, and Linux supports this clock.
        let result = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
        assert_eq!(result, 0, "Linux has a clock for each thread");
        Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32)
    }

    #[cfg(not(target_os = "linux"))]
    fn start() -> Self {
        Self { start: Instant::now() }
    }

    #[cfg(not(target_os = "linux"))]
    fn elapsed(&self) -> Duration {
        self.start.elapsed()
    }
}

/// An implementation that does the work of a case.
pub(crate) struct Contender<'a> {
    name: String,
    run: Box<dyn FnMut() + 'a>,
}

impl<'a> Contender<'a> {
    pub(crate) fn new(name: impl Into<String>, run: impl FnMut() + 'a) -> Self {
        Self { name: name.into(), run: Box::new(run) }
    }
}

/// A case: an operation on some values.
pub(crate) struct Case {
    /// `hash`, `insert` or `check`, where a check may specify its probes: `check absent`.
    pub(crate) operation: &'static str,
    /// The kind of values, such as `int64`. `hashes` are values that have already been hashed.
    pub(crate) values: &'static str,
    /// Size of the filter, if there is one.
    pub(crate) num_bytes: Option<usize>,
    pub(crate) num_values: usize,
    /// The contender that ratios refer to.
    pub(crate) peer: &'static str,
    pub(crate) timings: Vec<Timing>,
}

/// The time per value in nanoseconds.
pub(crate) struct Timing {
    pub(crate) name: String,
    pub(crate) min: f64,
    pub(crate) median: f64,
}

/// Minimum and maximum number of rounds. No further round starts once `LONG_ENOUGH` has passed.
const ROUNDS: std::ops::RangeInclusive<usize> = 5..=31;
const LONG_ENOUGH: Duration = Duration::from_millis(2500);

impl Case {
    /// Times the contenders and prints the results.
    pub(crate) fn race(mut self, plan: &Plan, mut contenders: Vec<Contender<'_>>) -> Self {
        let mut times = vec![Vec::new(); contenders.len()];
        let started = Instant::now();
        let (min_rounds, max_rounds) = if plan.smoke { (1, 1) } else { (*ROUNDS.start(), *ROUNDS.end()) };
        for round in 0..max_rounds {
            if round >= min_rounds && started.elapsed() > LONG_ENOUGH {
                break;
            }
            for (contender, times) in contenders.iter_mut().zip(&mut times) {
                let clock = Clock::start();
                (contender.run)();
                times.push(clock.elapsed().as_nanos() as f64 / self.num_values as f64);
            }
        }
        for (contender, mut times) in contenders.into_iter().zip(times) {
            times.sort_by(f64::total_cmp);
            self.timings.push(Timing { name: contender.name, min: times[0], median: times[times.len() / 2] });
        }
        self.print();
        self
    }

    /// Returns the speed of `name` relative to the peer, by their shortest times.
    pub(crate) fn ratio(&self, name: &str) -> Option<f64> {
        self.ratio_to(self.peer, name)
    }

    pub(crate) fn ratio_to(&self, peer: &str, name: &str) -> Option<f64> {
        let min = |name: &str| self.timings.iter().find(|timing| timing.name == name).map(|timing| timing.min);
        Some(min(peer)? / min(name)?)
    }

    fn print(&self) {
        let size = self.num_bytes.map_or(String::new(), |num_bytes| format!(", {}", size(num_bytes)));
        println!("\n{} {}{size} ({} values)", self.operation, self.values, self.num_values);
        println!("  {:<28} {:>9} {:>9}  {:>9}", "ns per value", "min", "median", format!("× {}", self.peer));
        for Timing { name, min, median } in &self.timings {
            let ratio = self.ratio(name).map_or(String::new(), |ratio| format!("{ratio:.2}×"));
            println!("  {name:<28} {min:>9.3} {median:>9.3}  {ratio:>9}");
        }
    }
}

/// Formats a size, such as `256 KiB`.
pub(crate) fn size(num_bytes: usize) -> String {
    if num_bytes < 1 << 20 { format!("{} KiB", num_bytes >> 10) } else { format!("{} MiB", num_bytes >> 20) }
}
