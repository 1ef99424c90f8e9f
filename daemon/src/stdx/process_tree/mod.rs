//! A process and everything it starts, as one thing that can be ended whole.
//!
//! The process leads a session of its own, so its descendants are found by that session even after their parents are
//! gone. Those that left the session are found by parentage, as long as a member is between them and the root, or by the
//! output pipe that they still hold. Where a process table can be read (Linux) a single process is signalled through a
//! handle whose process was checked by its start time, so a number that was given to somebody else hits nobody. Elsewhere
//! the process group is what is known of the tree.
//!
//! The leader is reaped last where the platform tells of its end without reaping it, so that its number, which is the
//! group's, stays taken as long as signals are sent.

#[cfg(target_os = "linux")]
mod linux;

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    process::ExitStatus,
    time::{Duration, Instant},
};

use tokio::process::{Child, Command};

/// Between two looks at a tree that is ending.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);

/// How long a tree is swept after KILL: a storm of forks may need several sweeps.
const SWEEP_TIME: Duration = Duration::from_secs(1);

/// What members are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Told {
    Terminate,
    #[cfg_attr(
        not(target_os = "linux"),
        expect(dead_code, reason = "needs a process table")
    )]
    Stop,
    Kill,
}

/// A process of a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its number.
    pub pid: u32,
    /// Its command line, arguments joined by blanks; empty when it cannot be read.
    pub command_line: String,
}

/// Identifies an output pipe, so that the processes that hold it can be found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PipeId(#[cfg_attr(not(target_os = "linux"), expect(dead_code))] u64);

#[cfg(unix)]
impl PipeId {
    /// The pipe that a descriptor is an end of.
    ///
    /// # Errors
    /// Those of `fstat`.
    pub fn of(end: impl std::os::fd::AsFd) -> io::Result<Self> {
        #[allow(
            clippy::useless_conversion,
            reason = "the width differs between platforms"
        )]
        Ok(Self(u64::from(rustix::fs::fstat(end)?.st_ino)))
    }
}

/// A running process and its descendants. Dropping it kills the tree; the runtime reaps the leader.
#[derive(Debug)]
pub struct ProcessTree {
    child: Child,
    leader: u32,
    reaped: bool,
    output: Option<PipeId>,
    /// Members seen so far with their start times, so that one whose parent is gone stays known.
    seen: BTreeMap<u32, u64>,
    /// Sessions that members have made, so that those whose parents are gone stay known.
    sessions: BTreeSet<u32>,
    #[cfg(target_os = "linux")]
    handle: Option<linux::Handle>,
}

impl ProcessTree {
    /// Starts a command as the leader of a new session. Must be called within a runtime.
    ///
    /// # Errors
    /// Those of starting a process.
    pub fn spawn(command: &mut Command) -> io::Result<Self> {
        lead_session(command);
        let child = command.kill_on_drop(true).spawn()?;
        let leader = child
            .id()
            .ok_or_else(|| io::Error::other("the process has no number"))?;
        Ok(Self {
            #[cfg(target_os = "linux")]
            handle: linux::Handle::open(leader),
            child,
            leader,
            reaped: false,
            output: None,
            seen: BTreeMap::new(),
            sessions: BTreeSet::new(),
        })
    }

    /// Processes that hold this pipe open for writing count as members from now on.
    pub fn claim_output(&mut self, pipe: PipeId) {
        self.output = Some(pipe);
    }

    /// The leader's number.
    pub fn leader(&self) -> u32 {
        self.leader
    }

    /// The child itself, for its pipes.
    pub fn child(&mut self) -> &mut Child {
        &mut self.child
    }

    /// Returns when the leader has ended, whatever its descendants do.
    ///
    /// # Errors
    /// Those of waiting.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn leader_ended(&mut self) -> io::Result<()> {
        #[cfg(target_os = "linux")]
        if let Some(handle) = &self.handle {
            return handle.ended().await;
        }
        self.reap().await.map(drop)
    }

    /// Waits for the leader's end and reaps it.
    ///
    /// # Errors
    /// Those of waiting.
    ///
    /// # Cancel safety
    /// Nothing is lost; the status can be asked for again.
    pub async fn reap(&mut self) -> io::Result<ExitStatus> {
        let status = self.child.wait().await?;
        self.reaped = true;
        Ok(status)
    }

    /// Whether the leader has been reaped and its group has no other process: cheap, but blind to those that left it.
    pub fn group_is_empty(&self) -> bool {
        self.reaped && !group_exists(self.leader)
    }

    /// The living descendants, the leader left out. Reads the process table.
    pub async fn leftovers(&mut self) -> Vec<Member> {
        self.look().await
    }

    /// Ends the whole tree: TERM, and KILL to what is left after `grace`. Returns when nothing of it lives, or when
    /// repeated KILL has not helped within a second. The leader is not reaped by it.
    ///
    /// # Errors
    /// Those of waiting for the leader; the tree was told to end all the same.
    pub async fn end(&mut self, grace: Duration) -> io::Result<()> {
        self.look().await;
        self.tell(Told::Terminate).await;
        if !self.is_gone_within(grace).await? {
            self.kill().await?;
        }
        Ok(())
    }

    /// Kills until nothing lives or the sweep time is over.
    async fn kill(&mut self) -> io::Result<()> {
        let start = Instant::now();
        loop {
            #[cfg(target_os = "linux")]
            {
                // Stopped processes do not fork, so that the next look finds all of them.
                self.tell(Told::Stop).await;
                self.look().await;
            }
            self.tell(Told::Kill).await;
            if self.is_gone_within(LOOK_INTERVAL).await? || start.elapsed() >= SWEEP_TIME {
                return Ok(());
            }
        }
    }

    async fn is_gone_within(&mut self, patience: Duration) -> io::Result<bool> {
        let deadline = tokio::time::Instant::now() + patience;
        if let Ok(ended) = tokio::time::timeout_at(deadline, self.leader_ended()).await {
            ended?;
        } else {
            return Ok(false);
        }
        loop {
            if self.group_is_empty() && self.output.is_none() && self.seen.is_empty() {
                return Ok(true);
            }
            if self.look().await.is_empty() && !self.has_unseen_members() {
                return Ok(true);
            }
            let next = tokio::time::Instant::now() + LOOK_INTERVAL;
            if next >= deadline {
                return Ok(false);
            }
            tokio::time::sleep_until(next).await;
        }
    }
}

#[cfg(target_os = "linux")]
impl ProcessTree {
    /// Brings `seen` up to date and returns the living members except the leader.
    async fn look(&mut self) -> Vec<Member> {
        let (leader, output) = (self.leader, self.output);
        let (seen, sessions) = (self.seen.clone(), self.sessions.clone());
        let scan = move || linux::scan(leader, output, &seen, sessions);
        let Ok(found) = tokio::task::spawn_blocking(scan).await else {
            return Vec::new();
        };
        self.seen = found.started;
        self.sessions = found.sessions;
        found.members
    }

    async fn tell(&mut self, told: Told) {
        tell_group(self.leader, self.reaped, told);
        let seen = self.seen.clone();
        // A failed task means that the runtime is going down, and dropping the tree kills its group then.
        drop(tokio::task::spawn_blocking(move || linux::tell(&seen, told)).await);
    }

    fn has_unseen_members(&self) -> bool {
        false
    }
}

#[cfg(not(target_os = "linux"))]
impl ProcessTree {
    async fn look(&mut self) -> Vec<Member> {
        Vec::new()
    }

    async fn tell(&mut self, told: Told) {
        tell_group(self.leader, self.reaped, told);
        #[cfg(not(unix))]
        if !self.reaped {
            // It has ended already when this fails.
            drop(self.child.start_kill());
        }
    }

    fn has_unseen_members(&self) -> bool {
        group_exists(self.leader)
    }
}

impl Drop for ProcessTree {
    fn drop(&mut self) {
        if self.reaped && self.group_is_empty() {
            return;
        }
        tell_group(self.leader, self.reaped, Told::Kill);
        #[cfg(target_os = "linux")]
        linux::tell(&self.seen, Told::Kill);
    }
}

#[cfg(unix)]
fn lead_session(command: &mut Command) {
    #[allow(unsafe_code)]
    // SAFETY: between fork and exec only the system call `setsid` is made: no allocation, no lock.
    unsafe {
        command.pre_exec(|| {
            rustix::process::setsid()?;
            Ok(())
        });
    }
}

#[cfg(not(unix))]
fn lead_session(_: &mut Command) {}

#[cfg(unix)]
fn group(leader: u32) -> Option<rustix::process::Pid> {
    i32::try_from(leader)
        .ok()
        .and_then(rustix::process::Pid::from_raw)
}

#[cfg(unix)]
fn group_exists(leader: u32) -> bool {
    group(leader).is_some_and(|group| rustix::process::test_kill_process_group(group).is_ok())
}

#[cfg(not(unix))]
fn group_exists(_: u32) -> bool {
    false
}

#[cfg(unix)]
fn tell_group(leader: u32, reaped: bool, told: Told) {
    if reaped && !group_exists(leader) {
        return;
    }
    if let Some(group) = group(leader) {
        // The one error that can occur is that nobody is left.
        rustix::process::kill_process_group(group, told.signal()).ok();
    }
}

#[cfg(not(unix))]
fn tell_group(_: u32, _: bool, _: Told) {}

#[cfg(unix)]
impl Told {
    fn signal(self) -> rustix::process::Signal {
        match self {
            Self::Terminate => rustix::process::Signal::TERM,
            Self::Stop => rustix::process::Signal::STOP,
            Self::Kill => rustix::process::Signal::KILL,
        }
    }
}

/// Marks every descriptor but the standard three as closed on exec: those that this process itself inherited are not
/// marked yet, and would reach each of its children. Call it once, early; those opened later are marked by std.
///
/// # Errors
/// Those of reading the list of descriptors.
#[cfg(target_os = "linux")]
pub fn close_descriptors_on_exec() -> io::Result<()> {
    linux::close_descriptors_on_exec()
}

/// Marks every descriptor but the standard three as closed on exec: nothing is known to be open here.
///
/// # Errors
/// None.
#[cfg(not(target_os = "linux"))]
pub fn close_descriptors_on_exec() -> io::Result<()> {
    Ok(())
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests;
