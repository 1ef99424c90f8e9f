//! The two directions of a local socket's stream, each with an owner of its own.

use std::{
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use interprocess::local_socket::tokio::Stream;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// One direction of a stream that both halves share: the stream itself reads and writes through a shared reference.
pub(super) struct Half(Arc<Stream>);

impl Half {
    /// A half of a stream.
    pub(super) fn of(stream: &Arc<Stream>) -> Self {
        Self(stream.clone())
    }
}

impl AsyncRead for Half {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut &*self.0).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Half {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut &*self.0).poll_write(cx, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut &*self.0).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(end_of_sending(&self.0))
    }
}

/// Tells the other side that nothing more will come, while it may still send.
#[cfg(unix)]
fn end_of_sending(stream: &Stream) -> io::Result<()> {
    use std::os::fd::AsFd;
    let Stream::UdSocket(socket) = stream;
    match rustix::net::shutdown(socket.as_fd(), rustix::net::Shutdown::Write) {
        // The other side has gone already.
        Err(rustix::io::Errno::NOTCONN) => Ok(()),
        result => Ok(result?),
    }
}

/// Tells the other side that nothing more will come: a named pipe cannot, its end does.
#[cfg(not(unix))]
fn end_of_sending(_: &Stream) -> io::Result<()> {
    Ok(())
}
