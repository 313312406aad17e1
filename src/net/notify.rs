//! Datagrams to what started the process, as `sd_notify(3)` has them: lines `NAME=value` to the socket that the
//! environment names.

use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// A way to whoever supervises the process.
#[derive(Debug)]
pub struct NotifySocket {
    socket: UnixDatagram,
    to: SocketAddr,
}

impl NotifySocket {
    /// To the socket of this name: a path from `/`, or after `@` a name that is in no file system.
    ///
    /// # Errors
    /// Another kind of name, one that is too long, or no socket to be had.
    pub fn open(name: &OsStr) -> io::Result<NotifySocket> {
        let to = match name.as_bytes() {
            [b'@', rest @ ..] => SocketAddr::from_abstract_name(rest)?,
            [b'/', ..] => SocketAddr::from_pathname(name)?,
            _ => {
                let text = "it is neither a path from / nor an abstract name after @";
                return Err(io::Error::new(io::ErrorKind::Unsupported, text));
            }
        };
        let socket = UnixDatagram::unbound()?;
        // Whoever supervises may be slow to read; the process goes on.
        socket.set_nonblocking(true)?;
        Ok(NotifySocket { socket, to })
    }

    /// Sends lines.
    ///
    /// # Errors
    /// Nobody listens there, or its queue is full.
    pub fn send(&self, lines: &str) -> io::Result<()> {
        self.socket.send_to_addr(lines.as_bytes(), &self.to).map(|_| ())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_paths_or_abstract() {
        let name = format!("ackline-notify-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name).expect("a name");
        let heard = UnixDatagram::bind_addr(&address).expect("binds");
        let way = NotifySocket::open(OsStr::new(&format!("@{name}"))).expect("opens");
        way.send("READY=1").expect("is sent");
        let mut bytes = [0; 64];
        let length = heard.recv(&mut bytes).expect("is heard");
        assert_eq!(&bytes[..length], b"READY=1");

        for wrong in ["", "relative", "vsock:2:1"] {
            let error = NotifySocket::open(OsStr::new(wrong)).expect_err(wrong);
            assert_eq!(error.kind(), io::ErrorKind::Unsupported, "{wrong}");
        }
        assert!(NotifySocket::open(OsStr::new(&format!("/{}", "x".repeat(200)))).is_err());
        let nobody = NotifySocket::open(OsStr::new("/nowhere/at/all")).expect("is asked when it sends");
        assert!(nobody.send("READY=1").is_err());
    }
}
