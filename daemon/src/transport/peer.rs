//! Who is at the other end of a local socket.

/// Whether a user id is the daemon's own.
#[cfg(unix)]
pub fn is_same_user(uid: Option<u32>) -> bool {
    uid == Some(rustix::process::geteuid().as_raw())
}

/// Windows: the pipe's access list admits its owner only, so whoever is there may be.
#[cfg(not(unix))]
pub fn is_same_user(_: Option<u32>) -> bool {
    true
}
