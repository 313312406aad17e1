//! Batches on loopback, against plain sockets of the standard library.

use std::net::UdpSocket;
use std::time::Duration;

use super::*;
use crate::net::address::Family;
use crate::net::socket::{SocketOptions, set_integer};
use crate::net::waker::{Waker, wait};

const LONG: Option<Duration> = Some(Duration::from_secs(60));

fn shard(address: &str) -> ShardSocket {
    ShardSocket::bind(address.parse().unwrap(), SocketOptions::default()).unwrap()
}

/// A dual-stack socket, or `None` where the host has no v6.
fn dual_stack() -> Option<ShardSocket> {
    let bound = ShardSocket::bind("[::]:0".parse().unwrap(), SocketOptions::default());
    if bound.is_err() || UdpSocket::bind("[::1]:0").is_err() {
        println!("skipped: this host has no v6");
        return None;
    }
    bound.ok()
}

fn peer(address: &str) -> UdpSocket {
    let peer = UdpSocket::bind(address).unwrap();
    peer.set_read_timeout(LONG).unwrap();
    peer
}

fn at(ip: &str, socket: &ShardSocket) -> SocketAddr {
    SocketAddr::new(ip.parse().unwrap(), socket.local_addr().port())
}

/// A port that refuses all but one peer that does not exist. Held, so that nobody else gets it meanwhile.
fn closed_port() -> UdpSocket {
    let closed = UdpSocket::bind("127.0.0.1:0").unwrap();
    closed.connect("127.0.0.1:9").unwrap();
    closed
}

fn put(batch: &mut SendBatch, bytes: &[u8], to: SocketAddr, from: Option<IpAddr>) {
    batch.reserve().unwrap()[..bytes.len()].copy_from_slice(bytes);
    batch.commit(bytes.len(), to, from);
}

/// Waits for datagrams and receives once.
fn receive(batch: &mut ReceiveBatch, socket: &ShardSocket) -> ReceiveReport {
    assert!(wait(socket, &Waker::new().unwrap(), LONG).unwrap().socket);
    batch.receive(socket)
}

fn read(peer: &UdpSocket) -> (Vec<u8>, SocketAddr) {
    let mut bytes = [0; 2048];
    let (length, from) = peer.recv_from(&mut bytes).unwrap();
    (bytes[..length].to_vec(), from)
}

/// Late errors of peers, which an unconnected socket hears only when it asks.
fn hear_refusals(socket: &ShardSocket) {
    set_integer(socket, libc::IPPROTO_IP, libc::IP_RECVERR, 1).unwrap();
}

#[test]
fn a_batch_of_all_lengths_goes_out_and_comes_back() {
    let (one, other) = (shard("127.0.0.1:0"), shard("127.0.0.1:0"));
    let (mut out, mut into) = (SendBatch::new(), ReceiveBatch::new());
    assert_eq!(into.receive(&other), ReceiveReport::default());
    assert_eq!(out.flush(&one), FlushReport::default());
    let lengths = |index: usize| if index < 2 { index * SEND_SLOT_BYTES } else { index };
    for index in 0..BATCH_DATAGRAMS {
        assert!(!out.is_full() && out.len() == index);
        put(
            &mut out,
            &vec![index as u8; lengths(index)],
            other.local_addr(),
            None,
        );
    }
    assert!(out.is_full() && out.reserve().is_none());
    let report = out.flush(&one);
    assert_eq!(
        report,
        FlushReport {
            sent: BATCH_DATAGRAMS,
            ..Default::default()
        }
    );
    assert!(out.is_empty());
    // Moved between filling and reading: nothing in a batch points into itself.
    assert_eq!(receive(&mut into, &other).datagrams, BATCH_DATAGRAMS);
    let mut moved = std::thread::spawn(move || into).join().unwrap();
    assert_eq!(moved.datagrams().count(), BATCH_DATAGRAMS);
    for (index, datagram) in moved.datagrams().enumerate() {
        assert_eq!(
            (datagram.from, datagram.local, datagram.truncated),
            (one.local_addr(), None, false)
        );
        assert_eq!(datagram.bytes, vec![index as u8; lengths(index)]);
    }
    assert_eq!(moved.receive(&other), ReceiveReport::default());
    assert_eq!(moved.datagrams().count(), 0);
}

/// More than a batch waits: a full batch says so, and the rest comes next, in order.
#[test]
fn what_exceeds_a_batch_comes_with_the_next() {
    let (socket, sender) = (shard("127.0.0.1:0"), peer("127.0.0.1:0"));
    for index in 0..BATCH_DATAGRAMS as u8 + 3 {
        sender.send_to(&[index], socket.local_addr()).unwrap();
    }
    let mut batch = ReceiveBatch::new();
    assert_eq!(receive(&mut batch, &socket).datagrams, BATCH_DATAGRAMS);
    assert_eq!(batch.datagrams().next().unwrap().bytes, [0]);
    assert_eq!(receive(&mut batch, &socket).datagrams, 3);
    assert_eq!(
        batch
            .datagrams()
            .map(|datagram| datagram.bytes[0])
            .collect::<Vec<_>>(),
        [64, 65, 66]
    );
}

#[test]
fn an_empty_datagram_is_a_datagram() {
    let (socket, sender) = (shard("127.0.0.1:0"), peer("127.0.0.1:0"));
    sender.send_to(&[], socket.local_addr()).unwrap();
    let mut batch = ReceiveBatch::new();
    assert_eq!(receive(&mut batch, &socket).datagrams, 1);
    assert!(batch.datagrams().next().unwrap().bytes.is_empty());
}

/// A datagram longer than a slot is told of as truncated; one that fits exactly is not, nor is its neighbour.
#[test]
fn a_datagram_longer_than_a_slot_is_truncated() {
    let (socket, sender) = (shard("127.0.0.1:0"), peer("127.0.0.1:0"));
    for length in [RECEIVE_SLOT_BYTES, RECEIVE_SLOT_BYTES + 1, 60_000, 5] {
        sender.send_to(&vec![9; length], socket.local_addr()).unwrap();
    }
    let mut batch = ReceiveBatch::new();
    assert_eq!(receive(&mut batch, &socket).datagrams, 4);
    let seen = batch
        .datagrams()
        .map(|datagram| (datagram.bytes.len(), datagram.truncated))
        .collect::<Vec<_>>();
    let whole = RECEIVE_SLOT_BYTES;
    assert_eq!(seen, [(whole, false), (whole, true), (whole, true), (5, false)]);
}

/// A v4 wildcard socket says which address was asked, and replies from it.
#[test]
fn a_reply_leaves_from_the_address_that_was_asked_v4() {
    let socket = shard("0.0.0.0:0");
    let client = peer("127.0.0.1:0");
    let (mut batch, mut out) = (ReceiveBatch::new(), SendBatch::new());
    for asked in ["127.0.0.1", "127.0.0.9"] {
        client.send_to(b"ask", at(asked, &socket)).unwrap();
        receive(&mut batch, &socket);
        let datagram = batch.datagrams().next().unwrap();
        assert_eq!(datagram.from, client.local_addr().unwrap());
        assert_eq!(datagram.local, Some(asked.parse().unwrap()));
        put(&mut out, b"reply", datagram.from, datagram.local);
        assert_eq!(out.flush(&socket).sent, 1);
        assert_eq!(read(&client), (b"reply".to_vec(), at(asked, &socket)));
    }
}

/// FAULTS 104: on a dual-stack socket a v4 peer is a v4 address in every direction; v6 peers work beside it.
#[test]
fn a_dual_stack_socket_knows_v4_peers_by_their_v4_address() {
    let Some(socket) = dual_stack() else { return };
    assert_eq!(socket.family(), Family::V6);
    let (mut batch, mut out) = (ReceiveBatch::new(), SendBatch::new());
    for (client, asked) in [
        ("127.0.0.1:0", "127.0.0.1"),
        ("127.0.0.1:0", "127.0.0.9"),
        ("[::1]:0", "::1"),
    ] {
        let client = peer(client);
        client.send_to(b"ask", at(asked, &socket)).unwrap();
        receive(&mut batch, &socket);
        let datagram = batch.datagrams().next().unwrap();
        assert_eq!(datagram.from, client.local_addr().unwrap());
        assert_eq!(datagram.local, Some(asked.parse().unwrap()));
        put(&mut out, b"reply", datagram.from, datagram.local);
        assert_eq!(out.flush(&socket).sent, 1);
        assert_eq!(read(&client), (b"reply".to_vec(), at(asked, &socket)));
    }
}

/// FAULTS 104: a target given as a mapped literal is reached from sockets of both families.
#[test]
fn a_mapped_target_is_the_v4_target() {
    let client = peer("127.0.0.1:0");
    let mapped = format!("[::ffff:127.0.0.1]:{}", client.local_addr().unwrap().port())
        .parse()
        .unwrap();
    let mut out = SendBatch::new();
    for socket in [Some(shard("127.0.0.1:0")), dual_stack()].into_iter().flatten() {
        put(&mut out, b"hello", mapped, None);
        assert_eq!(out.flush(&socket).sent, 1);
        assert_eq!(read(&client), (b"hello".to_vec(), at("127.0.0.1", &socket)));
    }
}

/// FAULTS 83, THREATS 92: a closed port between two open ones costs neither of them a datagram.
#[test]
fn a_closed_port_costs_nobody_else_a_datagram() {
    let (socket, before, after) = (shard("127.0.0.1:0"), peer("127.0.0.1:0"), peer("127.0.0.1:0"));
    hear_refusals(&socket);
    let closed = closed_port();
    let mut out = SendBatch::new();
    for round in 0..10u8 {
        put(&mut out, &[round, 1], before.local_addr().unwrap(), None);
        put(&mut out, &[round, 2], closed.local_addr().unwrap(), None);
        put(&mut out, &[round, 3], after.local_addr().unwrap(), None);
        let report = out.flush(&socket);
        assert_eq!((report.sent, report.errors.total()), (3, 0));
        assert_eq!(read(&before).0, [round, 1]);
        assert_eq!(read(&after).0, [round, 3]);
    }
}

/// FAULTS 83: the refusal told on the next flush is counted as late, and the datagram it met is sent.
#[test]
fn a_late_refusal_is_counted_and_the_datagram_it_met_is_sent() {
    let (socket, client) = (shard("127.0.0.1:0"), peer("127.0.0.1:0"));
    hear_refusals(&socket);
    let closed = closed_port();
    let mut out = SendBatch::new();
    put(&mut out, b"lost", closed.local_addr().unwrap(), None);
    assert_eq!(out.flush(&socket).sent, 1);
    put(&mut out, b"hello", client.local_addr().unwrap(), None);
    let report = out.flush(&socket);
    assert_eq!((report.sent, report.errors.total()), (1, 0));
    assert_eq!((report.late.total(), report.late.get(ErrnoKind::Refused)), (1, 1));
    assert_eq!(read(&client).0, b"hello");
}

/// FAULTS 83: an error told on receive is counted, and what waits behind it is received by the same call.
#[test]
fn a_refusal_told_on_receive_does_not_end_receiving() {
    let (socket, client) = (shard("127.0.0.1:0"), peer("127.0.0.1:0"));
    hear_refusals(&socket);
    let closed = closed_port();
    let (mut batch, mut out) = (ReceiveBatch::new(), SendBatch::new());
    for _ in 0..10 {
        client.send_to(b"hello", socket.local_addr()).unwrap();
        put(&mut out, b"lost", closed.local_addr().unwrap(), None);
        out.flush(&socket);
        let report = receive(&mut batch, &socket);
        assert_eq!((report.datagrams, report.errors.get(ErrnoKind::Refused)), (1, 1));
        assert_eq!(batch.datagrams().next().unwrap().bytes, b"hello");
    }
}

/// FAULTS 102, THREATS 92: datagrams the kernel refuses at once are skipped, each under its reason.
#[test]
fn refused_datagrams_are_skipped_one_by_one() {
    let (socket, client) = (shard("0.0.0.0:0"), peer("127.0.0.1:0"));
    let good = client.local_addr().unwrap();
    let mut out = SendBatch::new();
    for index in 0..8u8 {
        let to = match index {
            1 => "127.0.0.1:0".parse().unwrap(),
            3 => "127.255.255.255:9".parse().unwrap(),
            4 => "[2001:db8::1]:9".parse().unwrap(),
            _ => good,
        };
        // Not an address of this host.
        let from = (index == 6).then(|| "192.0.2.1".parse().unwrap());
        put(&mut out, &[index], to, from);
    }
    let report = out.flush(&socket);
    assert_eq!((report.sent, report.late.total()), (4, 0));
    let count = |kind| report.errors.get(kind);
    assert_eq!(
        (
            count(ErrnoKind::NotPermitted),
            count(ErrnoKind::FamilyNotSupported)
        ),
        (1, 1)
    );
    // Port 0 is invalid; a foreign source is that too, or without a route, as the kernel's version has it.
    assert_eq!(
        count(ErrnoKind::Invalid) + count(ErrnoKind::NetworkUnreachable),
        2
    );
    assert_eq!(report.errors.total(), 4);
    for expected in [0, 2, 5, 7] {
        assert_eq!(read(&client).0, [expected]);
    }
}

/// FAULTS 85: a datagram too long for the first hop is refused, not fragmented; its neighbours are sent.
#[test]
fn a_datagram_longer_than_the_path_is_skipped() {
    let Some(socket) = dual_stack() else { return };
    let client = peer("[::1]:0");
    // Loopback takes any length; this socket option makes its path as narrow as v6 allows.
    set_integer(&socket, libc::IPPROTO_IPV6, libc::IPV6_MTU, 1280).unwrap();
    let mut out = SendBatch::new();
    for length in [1, SEND_SLOT_BYTES, 1280 - 48, 1280 - 47, 2] {
        put(&mut out, &vec![7; length], client.local_addr().unwrap(), None);
    }
    let report = out.flush(&socket);
    assert_eq!((report.sent, report.late.total()), (3, 0));
    assert_eq!(
        (report.errors.total(), report.errors.get(ErrnoKind::TooLong)),
        (2, 2)
    );
    for expected in [1, 1280 - 48, 2] {
        assert_eq!(read(&client).0.len(), expected);
    }
}

/// Sends five by a kernel that answers as told; the report, and how many were offered in each call.
fn scripted(answers: &[Result<usize, i32>]) -> (FlushReport, Vec<usize>) {
    let mut answers = answers.iter();
    let mut offered = Vec::new();
    let report = send_all(&mut [(); 5], |rest| {
        offered.push(rest.len());
        *answers.next().unwrap()
    });
    assert!(answers.next().is_none(), "every answer was asked for");
    (report, offered)
}

fn counts(errnos: &[i32]) -> ErrnoCounts {
    let mut counts = ErrnoCounts::default();
    errnos.iter().for_each(|errno| counts.record(*errno));
    counts
}

/// FAULTS 84, THREATS 91: no room to send drops the rest of the batch at once, counts it, and does not spin.
#[test]
fn no_room_drops_the_rest_and_asks_no_more() {
    for full in [libc::EAGAIN, libc::ENOBUFS] {
        let (report, offered) = scripted(&[Ok(2), Err(full)]);
        assert_eq!(
            report,
            FlushReport {
                sent: 2,
                errors: counts(&[full; 3]),
                late: counts(&[])
            }
        );
        assert_eq!(offered, [5, 3]);
        let (report, offered) = scripted(&[Err(libc::ECONNREFUSED), Err(full)]);
        let late = counts(&[libc::ECONNREFUSED]);
        assert_eq!(
            report,
            FlushReport {
                sent: 0,
                errors: counts(&[full; 5]),
                late
            }
        );
        assert_eq!(offered, [5, 5]);
    }
}

/// FAULTS 102: an error that stays is the datagram's own; one that goes, or turns into another, was an earlier's.
#[test]
fn an_error_is_charged_to_the_datagram_it_belongs_to() {
    let (eperm, refused) = (libc::EPERM, libc::ECONNREFUSED);
    let (report, offered) = scripted(&[Ok(1), Err(eperm), Err(eperm), Ok(3)]);
    assert_eq!(
        report,
        FlushReport {
            sent: 4,
            errors: counts(&[eperm]),
            late: counts(&[])
        }
    );
    assert_eq!(offered, [5, 4, 4, 3]);
    let (report, _) = scripted(&[Err(refused), Ok(5)]);
    assert_eq!(
        report,
        FlushReport {
            sent: 5,
            errors: counts(&[]),
            late: counts(&[refused])
        }
    );
    let (report, _) = scripted(&[Ok(4), Err(refused), Err(eperm)]);
    assert_eq!(
        report,
        FlushReport {
            sent: 4,
            errors: counts(&[eperm]),
            late: counts(&[refused])
        }
    );
    // Every one refused: two calls each, and an end.
    let (report, offered) = scripted(&[Err(eperm); 10]);
    assert_eq!(
        report,
        FlushReport {
            sent: 0,
            errors: counts(&[eperm; 5]),
            late: counts(&[])
        }
    );
    assert_eq!(offered, [5, 5, 4, 4, 3, 3, 2, 2, 1, 1]);
}

#[test]
#[should_panic(expected = "exceeds its slot")]
fn a_length_beyond_the_slot_is_the_callers_fault() {
    SendBatch::new().commit(SEND_SLOT_BYTES + 1, "127.0.0.1:9".parse().unwrap(), None);
}
