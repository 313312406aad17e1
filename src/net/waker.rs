//! Waiting for a socket, and being woken by another thread.
//!
//! A waker is an `eventfd` beside the socket in one `ppoll`. Put the message where the waiting thread looks for
//! it, then wake: a wake is never lost, and wakes before the waiter looks are one.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::socket::ShardSocket;

/// Wakes the thread that waits with it. Clones wake the same thread.
#[derive(Clone, Debug)]
pub struct Waker {
    event: Arc<Event>,
}

#[derive(Debug)]
struct Event {
    fd: OwnedFd,
    /// True from a wake until the waiter takes it: further wakes need no system call.
    raised: AtomicBool,
}

/// What [`wait`] saw. Neither: the time was up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ready {
    /// The socket has a datagram or an error to receive.
    pub socket: bool,
    /// The waker was used since the last wait.
    pub woken: bool,
}

impl Waker {
    /// Makes a waker.
    ///
    /// # Errors
    /// When the process may open no more files.
    pub fn new() -> io::Result<Waker> {
        // SAFETY: no pointers; the result is checked before use.
        let fd = unsafe { libc::eventfd(0, libc::EFD_NONBLOCK | libc::EFD_CLOEXEC) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: `fd` was just made, is open and has no other owner.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        Ok(Waker {
            event: Arc::new(Event {
                fd,
                raised: AtomicBool::new(false),
            }),
        })
    }

    /// Ends the current or the next [`wait`]. What this thread wrote before is visible to the woken one.
    pub fn wake(&self) {
        if self.event.raised.swap(true, Ordering::AcqRel) {
            return;
        }
        let one = 1u64.to_ne_bytes();
        loop {
            // SAFETY: the pointer and length describe `one`, which outlives the call.
            let written = unsafe { libc::write(self.event.fd.as_raw_fd(), one.as_ptr().cast(), one.len()) };
            // The only other failure is a counter at its end (EAGAIN), and then the event is raised already.
            if written >= 0 || io::Error::last_os_error().kind() != io::ErrorKind::Interrupted {
                return;
            }
        }
    }

    /// Takes the wakes so far. The order matters: empty the event first, then lower the flag, so that a wake in
    /// between either is seen by the caller now or raises the event again.
    fn take(&self) {
        let mut count = [0u8; 8];
        // SAFETY: the pointer and length describe `count`, which outlives the call. The event does not block.
        unsafe { libc::read(self.event.fd.as_raw_fd(), count.as_mut_ptr().cast(), count.len()) };
        self.event.raised.swap(false, Ordering::AcqRel);
    }
}

/// Waits until `socket` can be received from, `waker` is used, or `timeout` is over (`None`: without end).
/// Signals do not end it.
///
/// # Errors
/// When the system refuses to wait: a closed descriptor or no memory.
pub fn wait(socket: &ShardSocket, waker: &Waker, timeout: Option<Duration>) -> io::Result<Ready> {
    // A timeout beyond the clock's range is one without end.
    let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
    let mut left = timeout.filter(|_| deadline.is_some());
    let mut polled = [
        libc::pollfd {
            fd: socket.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        },
        libc::pollfd {
            fd: waker.event.fd.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        },
    ];
    loop {
        match poll_once(&mut polled, left) {
            Ok(()) => break,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {
                left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            }
            Err(error) => return Err(error),
        }
    }
    let [socket, event] = polled;
    if (socket.revents | event.revents) & libc::POLLNVAL != 0 {
        return Err(io::Error::from_raw_os_error(libc::EBADF));
    }
    let ready = Ready {
        socket: socket.revents != 0,
        woken: event.revents != 0,
    };
    if ready.woken {
        waker.take();
    }
    Ok(ready)
}

/// One `ppoll` with a timeout in nanoseconds.
fn poll_once(polled: &mut [libc::pollfd; 2], timeout: Option<Duration>) -> io::Result<()> {
    let limit = timeout.map(|timeout| libc::timespec {
        tv_sec: libc::time_t::try_from(timeout.as_secs()).unwrap_or(libc::time_t::MAX),
        tv_nsec: timeout.subsec_nanos() as _,
    });
    let limit = limit.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: `polled` is a valid array of the length given; `limit` is null or points to a time that outlives the
    // call; a null signal mask is allowed and changes nothing.
    let code = unsafe {
        libc::ppoll(
            polled.as_mut_ptr(),
            polled.len() as libc::nfds_t,
            limit,
            std::ptr::null(),
        )
    };
    if code >= 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;

    use super::*;
    use crate::net::socket::SocketOptions;

    const SOON: Option<Duration> = Some(Duration::from_millis(1));
    const LONG: Option<Duration> = Some(Duration::from_secs(60));

    fn socket() -> ShardSocket {
        ShardSocket::bind("127.0.0.1:0".parse().unwrap(), SocketOptions::default()).unwrap()
    }

    #[test]
    fn time_up_is_neither() {
        let (socket, waker) = (socket(), Waker::new().unwrap());
        assert_eq!(wait(&socket, &waker, SOON).unwrap(), Ready::default());
        assert_eq!(
            wait(&socket, &waker, Some(Duration::ZERO)).unwrap(),
            Ready::default()
        );
    }

    #[test]
    fn a_datagram_ends_the_wait_and_stays_ready() {
        let (socket, waker) = (socket(), Waker::new().unwrap());
        UdpSocket::bind("127.0.0.1:0")
            .unwrap()
            .send_to(b"x", socket.local_addr())
            .unwrap();
        for _ in 0..2 {
            assert_eq!(
                wait(&socket, &waker, LONG).unwrap(),
                Ready {
                    socket: true,
                    woken: false
                }
            );
        }
    }

    /// Several wakes before the wait are one, and a later one is not lost.
    #[test]
    fn wakes_gather_and_none_is_lost() {
        let (socket, waker) = (socket(), Waker::new().unwrap());
        for _ in 0..3 {
            waker.clone().wake();
            waker.wake();
            assert_eq!(
                wait(&socket, &waker, Some(Duration::MAX)).unwrap(),
                Ready {
                    socket: false,
                    woken: true
                }
            );
            assert_eq!(wait(&socket, &waker, SOON).unwrap(), Ready::default());
        }
    }

    /// Every message handed over before a wake is seen by the woken thread: a lost wake would hang until `LONG`.
    #[test]
    fn another_thread_wakes_the_wait() {
        const ROUNDS: usize = 2_000;
        let (socket, waker) = (socket(), Waker::new().unwrap());
        let (sender, inbox) = std::sync::mpsc::channel();
        let handle = {
            let waker = waker.clone();
            std::thread::spawn(move || {
                for round in 0..ROUNDS {
                    sender.send(round).unwrap();
                    waker.wake();
                }
            })
        };
        let mut seen = 0;
        while seen < ROUNDS {
            assert!(
                wait(&socket, &waker, LONG).unwrap().woken,
                "a wake was lost after {seen}"
            );
            seen += inbox.try_iter().count();
        }
        handle.join().unwrap();
    }

    extern "C" fn ignore(_signal: libc::c_int) {}

    /// A signal neither ends a wait nor fails it.
    #[test]
    fn a_signal_does_not_end_the_wait() {
        let (socket, waker) = (socket(), Waker::new().unwrap());
        let handler = ignore as extern "C" fn(libc::c_int) as libc::sighandler_t;
        // SAFETY: the handler does nothing, and no other test uses this signal.
        unsafe { libc::signal(libc::SIGUSR2, handler) };
        // SAFETY: no arguments; the thread waits below until the other one is done, so it outlives its use.
        let waiting = unsafe { libc::pthread_self() };
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for _ in 0..20 {
                    std::thread::sleep(Duration::from_millis(1));
                    // SAFETY: the waiting thread outlives this scope, and the signal has a handler.
                    unsafe { libc::pthread_kill(waiting, libc::SIGUSR2) };
                }
                waker.wake();
            });
            assert_eq!(
                wait(&socket, &waker, LONG).unwrap(),
                Ready {
                    socket: false,
                    woken: true
                }
            );
        });
    }
}
