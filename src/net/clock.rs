//! The host's clocks and what the process uses of it.
//!
//! The data plane knows one clock: monotonic, in microseconds, the same for all processes of one host as long as
//! they share [`host_clock_id`]. Wall time does not enter (FAULTS 90), but for when
//! connect tokens end. The clock stops while the host sleeps
//! (FAULTS 89).
#![allow(unsafe_code)]

/// The monotonic clock in microseconds since the host began. Never falls.
pub fn monotonic_us() -> u64 {
    read_ns(libc::CLOCK_MONOTONIC) / 1_000
}

/// Wall time in seconds since 1970: for when connect tokens end, and for nothing else. 0 where the host's clock is before.
pub fn unix_s() -> u64 {
    std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |since| since.as_secs())
}

/// The monotonic clock in nanoseconds, for durations within the process.
pub fn monotonic_ns() -> u64 {
    read_ns(libc::CLOCK_MONOTONIC)
}

/// Processor time used by the calling thread, in nanoseconds.
pub fn thread_cpu_ns() -> u64 {
    read_ns(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// Processor time used by the process, all threads, in nanoseconds.
pub fn process_cpu_ns() -> u64 {
    read_ns(libc::CLOCK_PROCESS_CPUTIME_ID)
}

/// Names the clock behind [`monotonic_us`]: readings of two processes may be compared when both have the same id
/// and it is not 0. It changes with each start of the host, and differs between time namespaces. 0 if unknown.
pub fn host_clock_id() -> u64 {
    let Ok(boot) = std::fs::read("/proc/sys/kernel/random/boot_id") else {
        return 0;
    };
    let boot = boot.trim_ascii();
    if boot.is_empty() {
        return 0;
    }
    let namespace = std::fs::read_link("/proc/self/ns/time").unwrap_or_default();
    clock_id(boot, namespace.as_os_str().as_encoded_bytes())
}

/// FNV-1a over the host's start and the time namespace; never 0.
fn clock_id(boot: &[u8], namespace: &[u8]) -> u64 {
    let bytes = boot.iter().chain(b"/").chain(namespace);
    let hash = bytes.fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    hash.max(1)
}

/// Resident memory of the process in bytes; 0 if unknown. Reads a file of the system: not for the data plane.
pub fn rss_bytes() -> u64 {
    // SAFETY: no pointers; asks for a constant of the system.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    let pages = std::fs::read_to_string("/proc/self/statm")
        .ok()
        .and_then(|statm| statm.split_ascii_whitespace().nth(1)?.parse::<u64>().ok());
    pages
        .unwrap_or(0)
        .saturating_mul(u64::try_from(page).unwrap_or(0))
}

/// One clock in nanoseconds. The clocks asked for exist on every Linux, so the call cannot fail; 0 if it did.
fn read_ns(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the pointer is to `time`, which outlives the call and which any result leaves valid.
    let code = unsafe { libc::clock_gettime(clock, &raw mut time) };
    debug_assert_eq!(code, 0, "clock {clock} exists");
    (time.tv_sec as u64)
        .wrapping_mul(1_000_000_000)
        .wrapping_add(time.tv_nsec as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_monotonic_clock_never_falls() {
        let mut last = monotonic_us();
        assert!(last > 0);
        for _ in 0..1_000 {
            let now = monotonic_us();
            assert!(now >= last);
            last = now;
        }
    }

    /// FAULTS 90: wall time is read in three places: for the epoch of the origin that comes with this program, for the stamp of a
    /// last line of the log, and here for when tokens end, which the gate, the minter, `token show` and the attacks with tokens ask, and `top`, for how long a relay is up. So a wall clock that jumps moves no timer, session or snapshot.
    #[test]
    fn faults_90_wall_time_makes_epochs_and_nothing_else() {
        let mut directories = vec![std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src")];
        let (mut readers, mut callers) = (Vec::new(), Vec::new());
        while let Some(directory) = directories.pop() {
            for entry in std::fs::read_dir(directory).expect("the sources") {
                let path = entry.expect("an entry").path();
                if path.is_dir() {
                    directories.push(path);
                } else if path.extension().is_some_and(|extension| extension == "rs") {
                    let text = std::fs::read_to_string(&path).expect("text");
                    let names = [concat!("System", "Time"), concat!("CLOCK_", "REALTIME")];
                    if text.contains("unix_s") && text.contains(concat!("net::", "clock::")) {
                        callers.push(path.clone());
                    }
                    if names.iter().any(|name| text.contains(name)) {
                        readers.push(path);
                    }
                }
            }
        }
        let are = |mut found: Vec<std::path::PathBuf>, expected: &[&str]| {
            found.sort();
            found.len() == expected.len() && found.iter().zip(expected).all(|(path, end)| path.ends_with(end))
        };
        assert!(
            are(
                readers.clone(),
                &["net/clock.rs", "node/logging.rs", "node/origin.rs"]
            ),
            "{readers:?}"
        );
        assert!(
            are(
                callers.clone(),
                &[
                    "bench/attack/tokens.rs",
                    "cli/token.rs",
                    "cli/top.rs",
                    "node/minter.rs",
                    "node/relay.rs"
                ]
            ),
            "{callers:?}"
        );
    }

    #[test]
    fn work_costs_processor_time() {
        let (process, thread) = (process_cpu_ns(), thread_cpu_ns());
        let mut sum = 0u64;
        while thread_cpu_ns() < thread + 1_000_000 {
            sum = std::hint::black_box(sum.wrapping_add(1));
        }
        assert!(process_cpu_ns() >= process + 1_000_000, "{sum}");
    }

    #[test]
    fn the_clock_has_one_id_a_boot_and_namespace() {
        assert_eq!(host_clock_id(), host_clock_id());
        assert_ne!(clock_id(b"a", b"time:[1]"), clock_id(b"b", b"time:[1]"));
        assert_ne!(clock_id(b"a", b"time:[1]"), clock_id(b"a", b"time:[2]"));
    }

    #[test]
    fn memory_is_counted_in_bytes() {
        let before = rss_bytes();
        let held = std::hint::black_box(vec![1u8; 64 << 20]);
        assert!(rss_bytes() >= before + (32 << 20), "{before} and {}", held.len());
    }
}
