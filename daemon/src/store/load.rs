//! Loading a session: its head, then the log behind the head's mark.
//!
//! The log is the truth. A head that cannot be read, or does not fit its log, is rebuilt by folding the whole log. Records
//! that do not check out are passed over and noted; their bytes stay where they are. After loading, the head covers the
//! whole file, so what was noted once is not read again.

use std::{fs::File, io, path::PathBuf, sync::Arc};

use crystal_protocol::ids::SessionId;
use tokio::task::spawn_blocking;

use super::{
    error::LoadError,
    head::Head,
    head_file::{self, Stored},
    line::{self, Line, LineReader, Shape},
    log::{self, Opened, SessionLog},
    positioned::LogBytes,
    record::Record,
};
use crate::home::HomePaths;

/// Records passed over that are noted one by one; of further ones only the number is told.
const NOTED_RECORDS: usize = 8;

/// Longest session id, in bytes.
const ID_BYTES: usize = 128;

/// A session, ready to go on.
#[derive(Debug)]
pub struct Loaded {
    /// What its log folds to. Its numbers are those of the last reservation unless the end was clean.
    pub head: Head,
    /// Where it goes on.
    pub log: SessionLog,
    /// What was dropped, passed over or rebuilt, in English sentences for people.
    pub notes: Vec<String>,
}

/// Loads a session. Nothing on disk changes, except that a log that never began is made.
///
/// # Errors
/// See [`LoadError`]; the files are as they were.
pub async fn load(paths: &HomePaths, id: &SessionId) -> Result<Loaded, LoadError> {
    let (paths, id) = (paths.clone(), id.clone());
    spawn_blocking(move || load_now(&paths, &id))
        .await
        .map_err(|_| LoadError::Stopped)?
}

fn load_now(paths: &HomePaths, id: &SessionId) -> Result<Loaded, LoadError> {
    let Folded { head, notes, log } = fold(paths, id)?;
    let log = match log {
        Some(opened) => SessionLog::open(opened),
        None => SessionLog::create_now(paths, paths.session_log(id))
            .map_err(|error| damaged(paths, id, format!("its log is missing and {error}")))?,
    };
    Ok(Loaded { head, log, notes })
}

/// Whether an id can name a file: letters, digits, `-` and `_`.
pub(super) fn names_a_file(id: &str) -> bool {
    !id.is_empty()
        && id.len() <= ID_BYTES
        && id
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
}

/// What the files of a session say.
#[derive(Debug)]
pub(super) struct Folded {
    pub(super) head: Head,
    pub(super) notes: Vec<String>,
    /// Absent for a session whose log never began.
    pub(super) log: Option<Opened>,
}

/// Reads a session's files and changes nothing. Blocks.
pub(super) fn fold(paths: &HomePaths, id: &SessionId) -> Result<Folded, LoadError> {
    if !names_a_file(id.as_str()) {
        return Err(LoadError::NotFound { id: id.clone() });
    }
    let stored = head_file::read(&paths.session_head(id), id)?;
    let Some(opened) = open_log(paths.session_log(id))? else {
        return without_log(paths, id, stored);
    };
    let bytes = LogBytes::new(opened.file.clone(), opened.end, Arc::default());
    let refused = |source| LoadError::Read {
        path: opened.path.clone(),
        source,
    };

    let mut notes = Vec::new();
    let (numbers, unknown) = match stored {
        Stored::Head(head) => match misfit(&head, id, &bytes, opened.end).map_err(refused)? {
            None => {
                let mut head = Some(*head);
                replay(&bytes, opened.end, &mut head, &mut notes).map_err(refused)?;
                return finish(paths, id, head, notes, opened);
            }
            Some(why) => {
                notes.push(rebuilt(&why));
                let ours = head.id == *id;
                let numbers = if ours {
                    (head.next_seq, head.next_id)
                } else {
                    (1, 1)
                };
                (numbers, ours.then_some(head.unknown))
            }
        },
        Stored::Unreadable(why) => {
            notes.push(rebuilt(&why));
            ((1, 1), None)
        }
        Stored::Missing => {
            notes.push(rebuilt("it is missing"));
            ((1, 1), None)
        }
    };

    let mut head = None;
    replay(&bytes, opened.end, &mut head, &mut notes).map_err(refused)?;
    if let Some(head) = &mut head {
        // Numbers are never used twice, even when the log lost the reservation that the head knew of.
        head.next_seq = head.next_seq.max(numbers.0);
        head.next_id = head.next_id.max(numbers.1);
        head.unknown = unknown.unwrap_or_default();
    }
    finish(paths, id, head, notes, opened)
}

fn finish(
    paths: &HomePaths,
    id: &SessionId,
    head: Option<Head>,
    notes: Vec<String>,
    opened: Opened,
) -> Result<Folded, LoadError> {
    let reason = match &head {
        None => "its log does not tell how the session was made".to_owned(),
        Some(head) if head.id != *id => format!("its log is that of session {}", head.id),
        Some(_) => String::new(),
    };
    match head {
        Some(mut head) if reason.is_empty() => {
            head.log_bytes = opened.end;
            Ok(Folded {
                head,
                notes,
                log: Some(opened),
            })
        }
        _ => Err(damaged(paths, id, reason)),
    }
}

fn without_log(paths: &HomePaths, id: &SessionId, stored: Stored) -> Result<Folded, LoadError> {
    match stored {
        Stored::Missing => Err(LoadError::NotFound { id: id.clone() }),
        Stored::Unreadable(why) => Err(damaged(
            paths,
            id,
            format!("its log is missing, and of its head {why}"),
        )),
        Stored::Head(head) if head.log_bytes == 0 && head.id == *id => Ok(Folded {
            head: *head,
            notes: vec!["The session's log was missing; it had no entries.".to_owned()],
            log: None,
        }),
        Stored::Head(_) => Err(damaged(paths, id, "its log is missing".to_owned())),
    }
}

fn damaged(paths: &HomePaths, id: &SessionId, reason: String) -> LoadError {
    LoadError::Damaged {
        id: id.clone(),
        directory: paths.sessions(),
        reason,
    }
}

fn rebuilt(why: &str) -> String {
    format!("The session's head was rebuilt from its log: {why}.")
}

fn open_log(path: PathBuf) -> Result<Option<Opened>, LoadError> {
    let opened = match log::options().open(&path) {
        Ok(file) => Ok((file, true)),
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem
            ) =>
        {
            File::open(&path).map(|file| (file, false))
        }
        Err(error) => Err(error),
    };
    let inspected = opened.and_then(|(file, writable)| {
        let file = Arc::new(file);
        let end = file.metadata()?.len();
        let bytes = LogBytes::new(file.clone(), end, Arc::default());
        let torn = end > 0 && byte_at(&bytes, end - 1)? != Some(b'\n');
        Ok((file, writable, end, torn))
    });
    match inspected {
        Ok((file, writable, end, torn)) => Ok(Some(Opened {
            path,
            file,
            writable,
            end,
            torn,
        })),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(LoadError::Read { path, source }),
    }
}

/// Why a head does not belong to its log.
fn misfit(head: &Head, id: &SessionId, log: &LogBytes, end: u64) -> io::Result<Option<String>> {
    if head.id != *id {
        return Ok(Some(format!("it is that of session {}", head.id)));
    }
    if head.log_bytes > end {
        return Ok(Some("its log is shorter than it says".to_owned()));
    }
    let at_boundary = head.log_bytes == 0
        || head.log_bytes == end
        || byte_at(log, head.log_bytes - 1)? == Some(b'\n')
        || byte_at(log, head.log_bytes)? == Some(b'\n');
    Ok((!at_boundary).then(|| "it ends inside a record of its log".to_owned()))
}

fn byte_at(log: &LogBytes, offset: u64) -> io::Result<Option<u8>> {
    let mut byte = [0];
    let count = io::Read::read(&mut log.range(offset, offset + 1), &mut byte)?;
    Ok((count == 1).then_some(byte[0]))
}

/// Folds the log behind the head's mark; without a head, all of it.
fn replay(
    log: &LogBytes,
    end: u64,
    head: &mut Option<Head>,
    notes: &mut Vec<String>,
) -> io::Result<()> {
    let begin = head.as_ref().map_or(0, |head| head.log_bytes);
    let mut lines = LineReader::new(log.range(begin, end), begin);
    let mut skipped = Skipped::default();
    while let Some(found) = lines.next_line()? {
        let decoded = match found.shape {
            Shape::TooLong => Line::Damaged,
            Shape::Whole | Shape::Unterminated => line::decode(found.bytes),
        };
        match decoded {
            Line::Empty => {}
            Line::UnknownKind => skipped.settle(),
            Line::Damaged => skipped.add(found.offset, Cause::Damage, notes),
            Line::UnknownForm(why) => skipped.add(found.offset, Cause::Form(why), notes),
            Line::Record(record) => {
                skipped.settle();
                match (head.as_mut(), &*record) {
                    (Some(head), record) => head.apply(record, found.offset, found.end),
                    (None, Record::Created { id, at, settings }) => {
                        let mut made = Head::new(id.clone(), *at, settings.clone());
                        made.apply(&record, found.offset, found.end);
                        *head = Some(made);
                    }
                    (None, _) => {
                        let cause = Cause::Form("it stands before the session was made".to_owned());
                        skipped.add(found.offset, cause, notes);
                    }
                }
            }
        }
    }
    skipped.finish(notes);
    Ok(())
}

enum Cause {
    Damage,
    Form(String),
}

/// Records passed over. The note of damage waits until it is known whether it is the log's last record.
#[derive(Default)]
struct Skipped {
    count: usize,
    last: Option<u64>,
    pending: Option<String>,
}

impl Skipped {
    fn add(&mut self, offset: u64, cause: Cause, notes: &mut Vec<String>) {
        self.flush(notes);
        self.count += 1;
        self.last = None;
        self.pending = Some(match cause {
            Cause::Damage => {
                self.last = Some(offset);
                format!("A damaged record at byte {offset} of the session's log was passed over.")
            }
            Cause::Form(why) => format!(
                "A record at byte {offset} of the session's log was passed over, since this version cannot read it: {why}."
            ),
        });
    }

    /// A whole record follows.
    fn settle(&mut self) {
        self.last = None;
    }

    fn flush(&mut self, notes: &mut Vec<String>) {
        if let Some(note) = self.pending.take()
            && self.count <= NOTED_RECORDS
        {
            notes.push(note);
        }
    }

    fn finish(mut self, notes: &mut Vec<String>) {
        if let Some(offset) = self.last.take() {
            self.pending = None;
            self.count -= 1;
            notes.push(format!(
                "The last record of the session's log, at byte {offset}, was damaged or cut short and was dropped."
            ));
        }
        self.flush(notes);
        if self.count > NOTED_RECORDS {
            notes.push(format!(
                "{} more records were passed over.",
                self.count - NOTED_RECORDS
            ));
        }
    }
}

#[cfg(test)]
mod tests;
