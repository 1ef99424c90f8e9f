//! Marks of sessions with an open turn, so that a start after a crash finds them without reading any session.
//!
//! A mark is an empty file named by the id. It is a hint: losing one only means that the session is set right when it is
//! next loaded.

use std::{
    fs::{self, OpenOptions},
    io,
};

use crystal_protocol::ids::SessionId;
use tokio::task::spawn_blocking;

use super::{error::StoreError, load::names_a_file};
use crate::home::HomePaths;

/// Marks a session: its turn is open.
///
/// # Errors
/// [`StoreError::Write`].
pub async fn mark_open(paths: &HomePaths, id: &SessionId) -> Result<(), StoreError> {
    let (paths, path) = (paths.clone(), paths.open_turns().join(id.as_str()));
    let stopped = StoreError::stopped(&path);
    spawn_blocking(move || {
        let mark = || {
            let mut options = OpenOptions::new();
            options.write(true).create(true).truncate(false);
            #[cfg(unix)]
            {
                use std::os::unix::fs::OpenOptionsExt;
                options.mode(0o600);
            }
            options.open(&path).map(drop)
        };
        match mark() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                paths.make(&paths.open_turns()).and_then(|()| mark())
            }
            result => result,
        }
        .map_err(|error| StoreError::write(&path, error))
    })
    .await
    .map_err(|_| stopped)?
}

/// Takes the mark away; without one it does nothing.
///
/// # Errors
/// [`StoreError::Write`].
pub async fn clear_open(paths: &HomePaths, id: &SessionId) -> Result<(), StoreError> {
    let path = paths.open_turns().join(id.as_str());
    let stopped = StoreError::stopped(&path);
    spawn_blocking(move || match fs::remove_file(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(StoreError::write(&path, error))
        }
        _ => Ok(()),
    })
    .await
    .map_err(|_| stopped)?
}

/// The sessions that are marked, in order of their ids.
///
/// # Errors
/// [`StoreError::Read`].
pub async fn open_turns(paths: &HomePaths) -> Result<Vec<SessionId>, StoreError> {
    let directory = paths.open_turns();
    let stopped = StoreError::stopped(&directory);
    spawn_blocking(move || {
        let list = || -> io::Result<Vec<SessionId>> {
            let mut ids = Vec::new();
            for entry in fs::read_dir(&directory)? {
                let name = entry?.file_name();
                if let Some(id) = name.to_str().filter(|id| names_a_file(id)) {
                    ids.push(SessionId::new(id));
                }
            }
            ids.sort();
            Ok(ids)
        };
        match list() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            result => result.map_err(|error| StoreError::read(&directory, error)),
        }
    })
    .await
    .map_err(|_| stopped)?
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::samples::{home, session};

    #[tokio::test]
    async fn a_mark_is_found_until_it_is_cleared() {
        let (_dir, paths) = home();
        assert!(open_turns(&paths).await.unwrap().is_empty());
        clear_open(&paths, &session("s1")).await.unwrap();
        for _ in 0..2 {
            mark_open(&paths, &session("s2")).await.unwrap();
            mark_open(&paths, &session("s1")).await.unwrap();
        }
        let marked = open_turns(&paths).await.unwrap();
        assert_eq!(marked, [session("s1"), session("s2")]);
        clear_open(&paths, &session("s1")).await.unwrap();
        assert_eq!(open_turns(&paths).await.unwrap(), [session("s2")]);
    }
}
