//! Reading and writing at a place in a file, without a cursor that two users could fight over.

use std::{
    fs::File,
    io::{self, Read},
    sync::Arc,
};

/// Writes all of `bytes` at `offset`. On failure a part of it may be there.
#[cfg(unix)]
pub(super) fn write_all_at(file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
    std::os::unix::fs::FileExt::write_all_at(file, bytes, offset)
}

/// Writes all of `bytes` at `offset`. On failure a part of it may be there.
#[cfg(windows)]
pub(super) fn write_all_at(file: &File, mut bytes: &[u8], mut offset: u64) -> io::Result<()> {
    use std::os::windows::fs::FileExt;
    while !bytes.is_empty() {
        match file.seek_write(bytes, offset) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => {
                bytes = &bytes[written..];
                offset += written as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[cfg(unix)]
fn read_at(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    std::os::unix::fs::FileExt::read_at(file, buffer, offset)
}

#[cfg(windows)]
fn read_at(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    std::os::windows::fs::FileExt::seek_read(file, buffer, offset)
}

/// The bytes of a log: the file, then what could not be written to it yet.
#[derive(Clone, Debug)]
pub(super) struct LogBytes {
    file: Arc<File>,
    file_end: u64,
    unwritten: Arc<[u8]>,
}

impl LogBytes {
    /// `unwritten` follows the first `file_end` bytes of `file`.
    pub(super) fn new(file: Arc<File>, file_end: u64, unwritten: Arc<[u8]>) -> Self {
        Self {
            file,
            file_end,
            unwritten,
        }
    }

    /// Reads from `offset` up to `end`.
    pub(super) fn range(&self, offset: u64, end: u64) -> Range<'_> {
        Range {
            bytes: self,
            offset,
            end,
        }
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        if let Some(rest) = self.file_end.checked_sub(offset).filter(|rest| *rest > 0) {
            let wanted = clamp(rest, buffer.len());
            return read_at(&self.file, &mut buffer[..wanted], offset);
        }
        let begin = usize::try_from(offset - self.file_end).unwrap_or(usize::MAX);
        let rest = self.unwritten.get(begin..).unwrap_or_default();
        let count = rest.len().min(buffer.len());
        buffer[..count].copy_from_slice(&rest[..count]);
        Ok(count)
    }
}

/// A stretch of a log, read in order.
#[derive(Debug)]
pub(super) struct Range<'a> {
    bytes: &'a LogBytes,
    offset: u64,
    end: u64,
}

impl Read for Range<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let wanted = clamp(self.end.saturating_sub(self.offset), buffer.len());
        if wanted == 0 {
            return Ok(0);
        }
        let count = self.bytes.read_at(&mut buffer[..wanted], self.offset)?;
        self.offset += count as u64;
        Ok(count)
    }
}

fn clamp(bytes: u64, most: usize) -> usize {
    usize::try_from(bytes).map_or(most, |bytes| bytes.min(most))
}
