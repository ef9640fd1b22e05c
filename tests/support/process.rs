//! Processes: who is alive, and signals.

use std::time::Duration;

use rustix::process::{Pid, Signal};

/// The ids of all living processes that have this text in an argument. Zombies don't count.
pub(crate) fn with_argument(text: &str) -> Vec<u32> {
    all()
        .into_iter()
        .filter(|(_, arguments)| arguments.contains(text))
        .map(|(pid, _)| pid)
        .collect()
}

#[cfg(target_os = "linux")]
fn all() -> Vec<(u32, String)> {
    std::fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| {
            let pid = entry.ok()?.file_name().to_str()?.parse().ok()?;
            let arguments = std::fs::read(format!("/proc/{pid}/cmdline")).ok()?;
            Some((pid, String::from_utf8_lossy(&arguments).replace('\0', " ")))
        })
        .collect()
}

#[cfg(not(target_os = "linux"))]
fn all() -> Vec<(u32, String)> {
    let output = std::process::Command::new("ps")
        .args(["-axww", "-o", "pid=,args="])
        .output()
        .unwrap();
    String::from_utf8_lossy(&output.stdout)
        .lines()
        .filter_map(|line| {
            let (pid, arguments) = line.trim_start().split_once(' ')?;
            Some((pid.parse().ok()?, arguments.to_owned()))
        })
        .filter(|(_, arguments)| !arguments.contains("<defunct>"))
        .collect()
}

/// The parent of a process (Linux).
pub(crate) fn parent(pid: u32) -> Option<u32> {
    status_field(pid, "PPid:")
}

/// Resident memory of a process in KiB (Linux).
pub(crate) fn resident_kib(pid: u32) -> Option<u32> {
    status_field(pid, "VmRSS:")
}

/// The highest resident memory that a process ever had, in KiB (Linux).
pub(crate) fn peak_resident_kib(pid: u32) -> Option<u32> {
    status_field(pid, "VmHWM:")
}

/// How often a process gave up the processor to wait, over all its threads (Linux).
pub(crate) fn voluntary_switches(pid: u32) -> Option<u32> {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).ok()?;
    threads
        .filter_map(|thread| {
            let status = std::fs::read_to_string(thread.ok()?.path().join("status")).ok()?;
            field(&status, "voluntary_ctxt_switches:")
        })
        .reduce(|sum, switches| sum + switches)
}

/// The process group of a process (Linux).
pub(crate) fn group(pid: u32) -> Option<u32> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The program's name before it may hold anything, even blanks and brackets: state, parent, group follow.
    let (_, fields) = stat.rsplit_once(')')?;
    fields.split_whitespace().nth(2)?.parse().ok()
}

/// The children of a process, their children, and so on, dead ones included (Linux).
pub(crate) fn descendants(pid: u32) -> Vec<u32> {
    let parents: Vec<(u32, u32)> = all()
        .into_iter()
        .filter_map(|(child, _)| Some((child, parent(child)?)))
        .collect();
    let mut found = vec![pid];
    let mut next = 0;
    while let Some(&parent) = found.get(next) {
        let children = parents.iter().filter(|(_, its)| *its == parent);
        found.extend(children.map(|(child, _)| child));
        next += 1;
    }
    found.split_off(1)
}

/// How many threads a process has (Linux).
pub(crate) fn threads(pid: u32) -> usize {
    std::fs::read_dir(format!("/proc/{pid}/task")).map_or(0, Iterator::count)
}

/// The command line of a process, for a message (Linux).
pub(crate) fn command_line(pid: u32) -> String {
    let bytes = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&bytes).replace('\0', " ")
}

/// How many files a process has open (Linux).
pub(crate) fn open_files(pid: u32) -> usize {
    std::fs::read_dir(format!("/proc/{pid}/fd")).map_or(0, Iterator::count)
}

/// The dead children that a process hasn't collected (Linux).
pub(crate) fn zombies_of(pid: u32) -> Vec<u32> {
    std::fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(|&child| {
            std::fs::read_to_string(format!("/proc/{child}/status")).is_ok_and(|status| {
                status
                    .lines()
                    .any(|line| line.starts_with("State:") && line.contains('Z'))
                    && field(&status, "PPid:") == Some(pid)
            })
        })
        .collect()
}

fn status_field(pid: u32, name: &str) -> Option<u32> {
    field(
        &std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?,
        name,
    )
}

fn field(status: &str, name: &str) -> Option<u32> {
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

/// Sends a signal to one process; that it is already gone is fine.
pub(crate) fn signal(pid: u32, signal: Signal) {
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        let _ = rustix::process::kill_process(pid, signal);
    }
}

/// Sends a signal to a process group; that it is already gone is fine.
pub(crate) fn signal_group(group: u32, signal: Signal) {
    if let Some(group) = i32::try_from(group).ok().and_then(Pid::from_raw) {
        let _ = rustix::process::kill_process_group(group, signal);
    }
}

/// Waits until no process with this text in an argument is alive. What a failed test left is killed.
#[track_caller]
pub(crate) fn assert_gone(limit: Duration, marker: &str) {
    let end = std::time::Instant::now() + limit;
    loop {
        let left = with_argument(marker);
        if left.is_empty() {
            return;
        }
        if std::time::Instant::now() >= end {
            let all = all();
            left.iter().for_each(|&pid| signal(pid, Signal::KILL));
            let names: Vec<_> = all.iter().filter(|(pid, _)| left.contains(pid)).collect();
            panic!("still alive after {limit:?}: {names:?}");
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}
