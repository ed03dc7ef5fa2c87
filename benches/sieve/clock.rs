//! CPU time, which other processes on the machine do not change.

/// The threads whose CPU time counts.
#[derive(Clone, Copy)]
pub(crate) enum Of {
    /// The current thread.
    Thread,
    /// All threads of the process.
    Process,
}

/// Returns seconds of CPU time. Elapsed time would include other work on the machine.
pub(crate) struct Clock(Of, f64);

impl Clock {
    pub(crate) fn now() -> Self {
        Self::of(Of::Thread)
    }

    pub(crate) fn of(of: Of) -> Self {
        Self(of, cpu_seconds(of))
    }

    pub(crate) fn seconds(&self) -> f64 {
        cpu_seconds(self.0) - self.1
    }
}

#[cfg(target_os = "linux")]
fn cpu_seconds(of: Of) -> f64 {
    let clock = match of {
        Of::Thread => libc::CLOCK_THREAD_CPUTIME_ID,
        Of::Process => libc::CLOCK_PROCESS_CPUTIME_ID,
    };
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid place for the call to write to.
    unsafe { libc::clock_gettime(clock, &mut time) };
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

#[cfg(not(target_os = "linux"))]
fn cpu_seconds(_: Of) -> f64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs_f64()
}
