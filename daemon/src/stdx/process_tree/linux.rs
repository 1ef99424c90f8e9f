//! The process table of Linux: who belongs to a tree, and signals that cannot hit a stranger.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    os::{
        fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd},
        unix::fs::MetadataExt,
    },
    path::Path,
};

use rustix::{
    io::FdFlags,
    process::{Pid, PidfdFlags, pidfd_open, pidfd_send_signal},
};
use tokio::io::{Interest, unix::AsyncFd};

use super::{Member, PipeId, Told};

/// Longest command line that is read, in bytes.
const COMMAND_LINE_BYTES: usize = 4096;

/// Tells of a process's end without reaping it.
#[derive(Debug)]
pub(super) struct Handle(AsyncFd<OwnedFd>);

impl Handle {
    /// `None` where the kernel has no such handles or no descriptor is free.
    pub(super) fn open(pid: u32) -> Option<Self> {
        let handle = pidfd_open(to_pid(pid)?, PidfdFlags::empty()).ok()?;
        #[allow(unsafe_code)]
        // SAFETY: the descriptor is owned by the `AsyncFd`, which is private here and never lets it be exchanged.
        let registered = unsafe { AsyncFd::register_with_interest(handle, Interest::READABLE) };
        registered.ok().map(Self)
    }

    pub(super) async fn ended(&self) -> io::Result<()> {
        // Readiness stays: an ended process does not come back.
        self.0
            .readable()
            .await
            .map(|mut guard| guard.retain_ready())
    }
}

/// What a look at the process table found.
pub(super) struct Found {
    /// Start times of the living members by number, the leader left out.
    pub(super) started: BTreeMap<u32, u64>,
    /// The same, for people.
    pub(super) members: Vec<Member>,
    /// Sessions that members lead, the tree's own first among them; one that died out is left out.
    pub(super) sessions: BTreeSet<u32>,
}

/// One line of the process table.
struct Process {
    parent: u32,
    session: u32,
    started: u64,
    alive: bool,
}

/// The living members of a leader's tree: its session, those seen before, holders of `output`, the descendants of all of
/// these, and the sessions that members lead or led when last seen. Blocks.
pub(super) fn scan(
    leader: u32,
    output: Option<PipeId>,
    seen: &BTreeMap<u32, u64>,
    mut sessions: BTreeSet<u32>,
) -> Found {
    let table = read_table();
    sessions.insert(leader);
    let mut members: BTreeSet<u32> = table
        .iter()
        .filter(|(pid, process)| {
            sessions.contains(&process.session) || seen.get(pid) == Some(&process.started)
        })
        .map(|(pid, _)| *pid)
        .collect();
    if let Some(pipe) = output {
        members.extend(table.keys().filter(|pid| holds_for_writing(**pid, pipe)));
    }
    let own = std::process::id();
    members.remove(&own);
    // Children of members are members, down to the leaves.
    loop {
        let before = members.len();
        let children: Vec<u32> = table
            .iter()
            .filter(|(_, process)| {
                members.contains(&process.parent) || sessions.contains(&process.session)
            })
            .map(|(pid, _)| *pid)
            .collect();
        sessions.extend(children.iter().filter(|pid| {
            table
                .get(pid)
                .is_some_and(|process| process.session == **pid)
        }));
        members.extend(children);
        members.remove(&own);
        if members.len() == before {
            break;
        }
    }
    sessions.retain(|session| table.values().any(|process| process.session == *session));
    let started: BTreeMap<u32, u64> = members
        .into_iter()
        .filter(|pid| *pid != leader)
        .filter_map(|pid| {
            Some((
                pid,
                table.get(&pid).filter(|process| process.alive)?.started,
            ))
        })
        .collect();
    Found {
        members: started
            .keys()
            .map(|pid| Member {
                pid: *pid,
                command_line: command_line(*pid),
            })
            .collect(),
        started,
        sessions,
    }
}

/// Signals each process through a handle, if it is still the one that was seen. Blocks shortly.
pub(super) fn tell(seen: &BTreeMap<u32, u64>, told: Told) {
    for (pid, started) in seen {
        let Some(handle) = to_pid(*pid).and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok())
        else {
            continue;
        };
        // The handle holds the process it was opened for, so the check cannot go stale.
        if read_process(*pid).is_some_and(|process| process.started == *started) {
            // It may have ended by itself, and another user's process cannot be signalled; the next look tells.
            pidfd_send_signal(&handle, told.signal()).ok();
        }
    }
}

fn to_pid(pid: u32) -> Option<Pid> {
    i32::try_from(pid).ok().and_then(Pid::from_raw)
}

fn read_table() -> BTreeMap<u32, Process> {
    let Ok(entries) = fs::read_dir("/proc") else {
        return BTreeMap::new();
    };
    entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter_map(|pid| Some((pid, read_process(pid)?)))
        .collect()
}

fn read_process(pid: u32) -> Option<Process> {
    parse_stat(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// The program's name stands in parentheses and may hold anything, parentheses too, so the fields begin after the last.
fn parse_stat(stat: &str) -> Option<Process> {
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    Some(Process {
        alive: !matches!(*fields.first()?, "Z" | "X"),
        parent: fields.get(1)?.parse().ok()?,
        session: fields.get(3)?.parse().ok()?,
        started: fields.get(19)?.parse().ok()?,
    })
}

fn holds_for_writing(pid: u32, PipeId(inode): PipeId) -> bool {
    let Ok(descriptors) = fs::read_dir(format!("/proc/{pid}/fd")) else {
        return false;
    };
    let target = format!("pipe:[{inode}]");
    descriptors.filter_map(Result::ok).any(|descriptor| {
        let path = descriptor.path();
        fs::read_link(&path).is_ok_and(|link| link == Path::new(&target))
            && fs::symlink_metadata(&path).is_ok_and(|link| link.mode() & 0o200 != 0)
    })
}

fn command_line(pid: u32) -> String {
    let mut bytes = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    bytes.truncate(COMMAND_LINE_BYTES);
    while bytes.last() == Some(&0) {
        bytes.pop();
    }
    for byte in &mut bytes {
        if *byte == 0 {
            *byte = b' ';
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

pub(super) fn close_descriptors_on_exec() -> io::Result<()> {
    let descriptors: Vec<RawFd> = fs::read_dir("/proc/self/fd")?
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(|descriptor| *descriptor > io::stderr().as_raw_fd())
        .collect();
    for descriptor in descriptors {
        #[allow(unsafe_code)]
        // SAFETY: the number is used for this one system call, which closes nothing and fails on a number that is no
        // longer open.
        let descriptor = unsafe { BorrowedFd::borrow_raw(descriptor) };
        // The descriptor that read the directory is closed by now.
        if let Ok(flags) = rustix::io::fcntl_getfd(descriptor) {
            rustix::io::fcntl_setfd(descriptor, flags | FdFlags::CLOEXEC)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_name_with_parentheses_and_blanks_does_not_shift_the_fields() {
        let stat = "12 (a) b) c) S 3 12 7 0 -1 4 0 0 0 0 0 0 0 0 20 0 1 0 99 1 1";
        let process = parse_stat(stat).unwrap();
        assert_eq!(
            (
                process.parent,
                process.session,
                process.started,
                process.alive
            ),
            (3, 7, 99, true)
        );
    }
}
