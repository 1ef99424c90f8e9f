//! The local socket: a Unix socket of one's own in a directory of one's own, or an owner-only named pipe.

use std::{io, sync::Arc, time::Duration};

use crystal_protocol::home::Home;
use interprocess::local_socket::{
    ListenerOptions,
    tokio::{Listener, Stream},
    traits::{StreamCommon as _, tokio::Listener as _},
};
use tokio_util::task::TaskTracker;

use super::{
    connection::{self, Shared},
    half::Half,
    peer::is_same_user,
};

/// How long is waited for a client that found the socket's name just before it went.
const BACKLOG_PATIENCE: Duration = Duration::from_millis(20);

/// A listening socket, and what it takes to remove it and nothing else.
pub struct LocalSocket {
    listener: Listener,
    home: Home,
    /// Device and inode of the socket file, so that a successor's is never removed.
    identity: Option<(u64, u64)>,
}

impl LocalSocket {
    /// Listens for the clients of a home. The caller holds the home's lock, so a socket that is there is a dead daemon's.
    ///
    /// # Errors
    /// Those of the file system; a file in the socket's place that is no socket is left alone.
    pub fn bind(home: &Home) -> io::Result<Self> {
        let listener = bind(home)?;
        Ok(Self {
            listener,
            home: home.clone(),
            identity: identity(home),
        })
    }

    /// Serves connections until told to end.
    pub async fn serve(&self, shared: &Shared, tasks: &TaskTracker) {
        loop {
            tokio::select! {
                () = shared.ending.cancelled() => return,
                accepted = self.listener.accept() => match accepted {
                    Ok(stream) => serve_one(stream, shared, tasks),
                    Err(error) => {
                        // Out of descriptors, most likely: give those that are there time to go.
                        tracing::warn!(%error, "a connection could not be accepted");
                        tokio::time::sleep(Duration::from_millis(50)).await;
                    }
                },
            }
        }
    }

    /// Takes the socket's name away, so that new clients start a new daemon, then serves those that had come already.
    /// True when there were any.
    pub async fn retire(&self, shared: &Shared, tasks: &TaskTracker) -> bool {
        self.unlink();
        let mut any = false;
        while let Ok(Ok(stream)) =
            tokio::time::timeout(BACKLOG_PATIENCE, self.listener.accept()).await
        {
            serve_one(stream, shared, tasks);
            any = true;
        }
        any
    }

    /// Listens again after [`LocalSocket::retire`].
    ///
    /// # Errors
    /// As [`LocalSocket::bind`].
    pub fn rebind(&mut self) -> io::Result<()> {
        self.listener = bind(&self.home)?;
        self.identity = identity(&self.home);
        Ok(())
    }

    /// Removes the socket file if it is still ours.
    pub fn unlink(&self) {
        if self.identity.is_some() && identity(&self.home) == self.identity {
            let path = self.home.socket_path();
            if let Err(error) = std::fs::remove_file(&path) {
                tracing::warn!(path = %path.display(), %error, "the socket could not be removed");
            }
        }
    }
}

fn serve_one(stream: Stream, shared: &Shared, tasks: &TaskTracker) {
    if !is_same_user(peer_uid(&stream)) {
        tracing::warn!("a connection of another user was refused");
        return;
    }
    let stream = Arc::new(stream);
    tasks.spawn(connection::serve(
        shared.clone(),
        Half::of(&stream),
        Half::of(&stream),
    ));
}

#[cfg(unix)]
fn peer_uid(stream: &Stream) -> Option<u32> {
    stream.peer_creds().ok()?.euid()
}

#[cfg(not(unix))]
fn peer_uid(_: &Stream) -> Option<u32> {
    None
}

#[cfg(unix)]
fn bind(home: &Home) -> io::Result<Listener> {
    use std::os::unix::fs::FileTypeExt;

    use interprocess::{
        local_socket::{GenericFilePath, ToFsName as _},
        os::unix::local_socket::ListenerOptionsExt as _,
    };

    let path = home.socket_path();
    if let Some(directory) = path.parent() {
        if let Some(above) = directory.parent().filter(|_| directory != home.run_dir()) {
            own_fallback(above)?;
        }
        own_directory(directory)?;
    }
    match std::fs::symlink_metadata(&path) {
        Ok(metadata) if metadata.file_type().is_socket() => std::fs::remove_file(&path)?,
        Ok(_) => {
            let message = format!("{} is there and is no socket; move it away", path.display());
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, message));
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    let name = path.as_path().to_fs_name::<GenericFilePath>()?;
    ListenerOptions::new()
        .name(name)
        .mode(0o600)
        .reclaim_name(false)
        .create_tokio()
}

/// Makes the directory above a fallback socket's; one that anybody may write to must be sticky, as a temporary directory is.
#[cfg(unix)]
fn own_fallback(above: &std::path::Path) -> io::Result<()> {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};

    crate::stdx::atomic_file::private_directory(above)?;
    let metadata = std::fs::symlink_metadata(above)?;
    let mode = metadata.permissions().mode();
    let ours = metadata.uid() == rustix::process::geteuid().as_raw();
    let sticky = mode & 0o1000 != 0 && metadata.uid() == 0;
    if metadata.is_dir() && (sticky || (ours && mode & 0o022 == 0)) {
        return Ok(());
    }
    let message = format!(
        "{} is not safe to put a socket into; set XDG_RUNTIME_DIR to a directory of your own",
        above.display()
    );
    Err(io::Error::new(io::ErrorKind::PermissionDenied, message))
}

/// Makes a directory 0700, and refuses one that somebody else owns.
#[cfg(unix)]
fn own_directory(directory: &std::path::Path) -> io::Result<()> {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};

    crate::stdx::atomic_file::private_directory(directory)?;
    let metadata = std::fs::metadata(directory)?;
    if metadata.uid() != rustix::process::geteuid().as_raw() {
        let message = format!(
            "{} belongs to another user; remove it or choose another home",
            directory.display()
        );
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, message));
    }
    if metadata.permissions().mode() & 0o077 != 0 {
        std::fs::set_permissions(directory, std::fs::Permissions::from_mode(0o700))?;
    }
    Ok(())
}

#[cfg(windows)]
fn bind(home: &Home) -> io::Result<Listener> {
    use interprocess::{
        local_socket::{GenericNamespaced, ToNsName as _},
        os::windows::{
            local_socket::ListenerOptionsExt as _, security_descriptor::SecurityDescriptor,
        },
    };

    // Full access for the owner, nobody else: an SDDL text.
    let descriptor = SecurityDescriptor::deserialize(widestring::u16cstr!("D:P(A;;GA;;;OW)"))?;
    let pipe = home.pipe_name();
    let name = pipe.as_str().to_ns_name::<GenericNamespaced>()?;
    ListenerOptions::new()
        .name(name)
        .security_descriptor(descriptor)
        .create_tokio()
}

#[cfg(unix)]
fn identity(home: &Home) -> Option<(u64, u64)> {
    use std::os::unix::fs::MetadataExt;

    let metadata = std::fs::symlink_metadata(home.socket_path()).ok()?;
    Some((metadata.dev(), metadata.ino()))
}

#[cfg(not(unix))]
fn identity(_: &Home) -> Option<(u64, u64)> {
    None
}
