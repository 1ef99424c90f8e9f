//! Real processes: trees that ignore, flee and storm.

use std::{path::Path, process::Stdio};

use tokio::{
    io::{AsyncBufReadExt, BufReader},
    time::timeout,
};

use super::*;

const PATIENCE: Duration = Duration::from_secs(10);
const GRACE: Duration = Duration::from_millis(200);

/// Starts a script and waits until it has printed so many lines, each the number of a process of its tree.
async fn start(script: &str, lines: usize) -> (ProcessTree, Vec<u32>) {
    let mut command = Command::new("bash");
    command
        .args(["-c", script])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let mut tree = ProcessTree::spawn(&mut command).unwrap();
    let mut output = BufReader::new(tree.child().stdout.take().unwrap()).lines();
    let mut pids = Vec::new();
    for _ in 0..lines {
        let line = timeout(PATIENCE, output.next_line()).await.unwrap();
        pids.push(line.unwrap().unwrap().trim().parse().unwrap());
    }
    (tree, pids)
}

fn lives(pid: u32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/stat"))
        .is_ok_and(|stat| !stat.rsplit_once(')').unwrap().1.trim().starts_with('Z'))
}

#[tokio::test]
async fn a_tree_that_ignores_terminate_is_gone_after_kill() {
    let script = "trap '' TERM; (trap '' TERM; echo $BASHPID; while :; do sleep 1000; done) & echo $$; while :; do sleep 1000; done";
    let (mut tree, pids) = start(script, 2).await;
    timeout(PATIENCE, tree.end(GRACE)).await.unwrap().unwrap();
    timeout(PATIENCE, tree.reap()).await.unwrap().unwrap();
    assert!(!pids.into_iter().any(lives));
    assert!(tree.leftovers().await.is_empty());
}

#[tokio::test]
async fn a_descendant_in_a_session_of_its_own_is_found_by_its_parents() {
    let script = "setsid bash -c 'echo $$; while :; do sleep 1000; done' & echo $$; wait";
    let (mut tree, pids) = start(script, 2).await;
    timeout(PATIENCE, tree.end(GRACE)).await.unwrap().unwrap();
    timeout(PATIENCE, tree.reap()).await.unwrap().unwrap();
    assert!(!pids.into_iter().any(lives));
}

#[tokio::test]
async fn an_orphan_in_another_group_of_the_session_is_a_leftover_with_its_command_line() {
    let (mut tree, pids) = start("set -m; sleep 987 >/dev/null & echo $!", 1).await;
    timeout(PATIENCE, tree.leader_ended())
        .await
        .unwrap()
        .unwrap();
    assert_eq!(
        tree.leftovers().await,
        vec![Member {
            pid: pids[0],
            command_line: "sleep 987".to_owned()
        }]
    );
    timeout(PATIENCE, tree.end(GRACE)).await.unwrap().unwrap();
    assert!(!lives(pids[0]));
}

#[tokio::test]
async fn processes_that_hand_over_to_children_all_the_time_are_ended() {
    let script =
        "trap '' TERM; f() { sleep 0.005; f & }; for i in {1..8}; do f & done; echo $$; sleep 1000";
    let (mut tree, _) = start(script, 1).await;
    timeout(PATIENCE, tree.end(GRACE)).await.unwrap().unwrap();
    timeout(PATIENCE, tree.reap()).await.unwrap().unwrap();
    assert!(tree.leftovers().await.is_empty());
}

#[tokio::test]
async fn dropping_a_tree_kills_it() {
    let (tree, pids) = start("(trap '' TERM; sleep 1000) & echo $!; wait", 1).await;
    drop(tree);
    timeout(PATIENCE, async {
        while lives(pids[0]) {
            tokio::task::yield_now().await;
        }
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn a_child_gets_no_descriptor_but_the_standard_three() {
    let file = std::fs::File::open("/dev/null").unwrap();
    let leaked = rustix::io::dup(&file).unwrap();
    assert!(
        Path::new(&format!(
            "/proc/self/fd/{}",
            std::os::fd::AsRawFd::as_raw_fd(&leaked)
        ))
        .exists()
    );
    close_descriptors_on_exec().unwrap();
    let (mut tree, counts) = start("ls /proc/self/fd | wc -l", 1).await;
    timeout(PATIENCE, tree.reap()).await.unwrap().unwrap();
    // `ls` itself opens the directory.
    assert_eq!(counts, [4]);
}
