//! Limits of the host that would look like limits of the relay: checked before a run, said in words (FAULTS 96, 110).

use std::fs;

use crate::net::files::raise_open_files;

/// Files a process needs besides its clients' sockets.
const FILES_BESIDES: u64 = 128;

/// What the host says before a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Preflight {
    /// What stops the run.
    pub faults: Vec<String>,
    /// What may spoil its figures.
    pub warnings: Vec<String>,
}

/// Checks open files, ports, connection tracking and cores for a run of `clients` clients on `threads` threads.
#[must_use]
pub fn check(clients: u64, threads: u64, is_local: bool) -> Preflight {
    let mut preflight = Preflight::default();
    let wanted = clients + FILES_BESIDES;
    match raise_open_files(wanted) {
        Ok(files) if files < wanted => preflight.faults.push(format!(
            "{clients} clients need {wanted} open files and this process may have {files}: raise the limit (ulimit -n {wanted}) or take fewer clients"
        )),
        Ok(_) => {}
        Err(error) => preflight.warnings.push(format!("the limit of open files is not known: {error}")),
    }
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    if let Some(ports) = ports(&read("/proc/sys/net/ipv4/ip_local_port_range"))
        && clients > ports
    {
        preflight.faults.push(format!(
            "{clients} clients need as many local ports and the system gives {ports}: widen net.ipv4.ip_local_port_range or use several hosts and bench merge"
        ));
    }
    let tracked = (
        number(&read("/proc/sys/net/netfilter/nf_conntrack_max")),
        number(&read("/proc/sys/net/netfilter/nf_conntrack_count")),
    );
    if let (Some(max), Some(count)) = tracked
        && count + clients > max
    {
        preflight.warnings.push(format!(
            "the kernel tracks {count} of at most {max} connections, {clients} more do not fit: new clients may be dropped by net.netfilter.nf_conntrack_max, not by the relay"
        ));
    }
    let cores = cores();
    let needed = threads + if is_local { 2 } else { 0 };
    if needed > cores && !is_local {
        preflight.warnings.push(format!(
            "{threads} threads of the bench share {cores} cores: the bench may be the bottleneck"
        ));
    }
    preflight
}

/// Cores this process may use.
#[must_use]
pub fn cores() -> u64 {
    std::thread::available_parallelism().map_or(1, |cores| cores.get() as u64)
}

/// The kernel's release.
#[must_use]
pub fn kernel() -> String {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    format!("Linux {}", release.trim())
}

/// UDP datagrams the kernel dropped at full receive buffers, on the whole host (or network namespace) since it
/// started; `None` where it does not say.
#[must_use]
pub fn kernel_drops() -> Option<u64> {
    receive_buffer_errors(&fs::read_to_string("/proc/self/net/snmp").ok()?)
}

fn receive_buffer_errors(snmp: &str) -> Option<u64> {
    let mut lines = snmp.lines().filter_map(|line| line.strip_prefix("Udp:"));
    let (names, values) = (lines.next()?, lines.next()?);
    let column = names.split_whitespace().position(|name| name == "RcvbufErrors")?;
    values.split_whitespace().nth(column)?.parse().ok()
}

fn ports(range: &str) -> Option<u64> {
    let mut ends = range.split_whitespace().filter_map(|end| end.parse::<u64>().ok());
    let (low, high) = (ends.next()?, ends.next()?);
    Some((high + 1).saturating_sub(low))
}

fn number(text: &str) -> Option<u64> {
    text.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// FAULTS 110: more clients than the host has files or ports is said before the run.
    #[test]
    fn faults_110_what_the_host_cannot_give_is_said() {
        assert_eq!(check(1, 1, true).faults, Vec::<String>::new());
        let much = check(10_000_000_000, 1, false);
        assert!(
            much.faults.iter().any(|fault| fault.contains("open files")),
            "{much:?}"
        );
        assert!(
            check(1, 10_000, false)
                .warnings
                .iter()
                .any(|text| text.contains("bottleneck"))
        );
    }

    #[test]
    fn the_kernels_tables_are_read() {
        let snmp = "Ip: a b\nIp: 1 2\nUdp: InDatagrams NoPorts InErrors OutDatagrams RcvbufErrors SndbufErrors\nUdp: 9 8 7 6 5 4\nUdpLite: x\nUdpLite: 1\n";
        assert_eq!(receive_buffer_errors(snmp), Some(5));
        assert_eq!(receive_buffer_errors("Udp:\nUdp:\n"), None);
        assert_eq!(
            (ports("32768\t60999\n"), ports("x"), number(" 7\n")),
            (Some(28_232), None, Some(7))
        );
        assert!(kernel().starts_with("Linux ") && cores() > 0);
    }
}
