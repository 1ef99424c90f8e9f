//! Deleting a session for good.

use std::{fs, io};

use crystal_protocol::ids::SessionId;
use tokio::task::spawn_blocking;

use super::error::StoreError;
use crate::home::HomePaths;

/// Removes a session's files. The head goes first: a log alone still is a whole session, should the rest fail.
///
/// # Errors
/// [`StoreError::Write`]; files that are gone already are no error.
pub async fn remove(paths: &HomePaths, id: &SessionId) -> Result<(), StoreError> {
    let files = [
        paths.session_head(id),
        paths.session_log(id),
        paths.open_turns().join(id.as_str()),
    ];
    let stopped = StoreError::stopped(&files[1]);
    spawn_blocking(move || {
        for file in files {
            match fs::remove_file(&file) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(StoreError::write(&file, error));
                }
                _ => {}
            }
        }
        Ok(())
    })
    .await
    .map_err(|_| stopped)?
}
