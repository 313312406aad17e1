//! A session whose keys the target holds: what it sends is authentic, whatever it says.

use ackline::relay::outbox::Path;
use ackline::relay::shard::Receipt;
use ackline::wire::bytes::{ByteReader, ByteWriter};
use ackline::wire::handshake::{
    DOWN_HEADER_BYTES, DatagramKind, WELCOME_HEADER_BYTES, put_request, put_response, read_challenge,
    read_welcome_header,
};
use ackline::wire::seal::{Direction, INSECURE_TOKEN_KEY, Opener, Sealer, Secrets};
use ackline::wire::version::{Agreed, PROTOCOL_VERSION};

use super::stage::Stage;

/// The client's end of a session.
pub struct Seat {
    pub path: Path,
    pub connection: u64,
    sealer: Sealer,
    opener: Opener,
}

impl Seat {
    /// A handshake with the stage's relay.
    pub fn join(stage: &mut Stage, path: Path, nonce: [u8; 16]) -> Seat {
        let mut bytes = Vec::new();
        put_request(&mut bytes, PROTOCOL_VERSION, &nonce);
        assert_eq!(stage.receive(path, &mut bytes), Receipt::Taken);
        let (_, challenge) = stage.mail.pop().expect("a challenge");
        let (_, echo, cookie) = read_challenge(&challenge[1..]).expect("a challenge");
        assert_eq!(echo, nonce);
        put_response(&mut bytes, PROTOCOL_VERSION, &nonce, &cookie, &[]);
        assert_eq!(stage.receive(path, &mut bytes), Receipt::Taken);
        let (_, mut welcome) = stage.mail.pop().expect("a welcome");
        let header = read_welcome_header(&mut ByteReader::new(&welcome)).expect("a welcome");
        let secrets = Secrets {
            token_key: INSECURE_TOKEN_KEY,
            client_nonce: nonce,
            relay_nonce: header.relay_nonce,
            connection: header.connection,
            agreed: Agreed::NEWEST,
        };
        let mut seat = Seat {
            path,
            connection: header.connection,
            sealer: secrets.sealer(Direction::Up).unwrap(),
            opener: secrets.opener(Direction::Down).unwrap(),
        };
        assert!(seat.open(&mut welcome).is_some());
        seat
    }

    /// A datagram with this payload; `skip` numbers are passed over first.
    pub fn seal(&mut self, payload: &[u8], skip: u32) -> Vec<u8> {
        for _ in 0..skip {
            let _ = self.sealer.reserve();
        }
        let number = self.sealer.reserve().unwrap();
        let mut out = Vec::new();
        out.put_u8(DatagramKind::Up as u8);
        out.put_u64(self.connection);
        out.put_u32(number as u32);
        let header = out.clone();
        out.put(payload);
        let tag = self
            .sealer
            .seal(number, &header, &mut out[header.len()..])
            .unwrap();
        out.put(&tag);
        out
    }

    /// The payload of a datagram of the relay; `None` for one that is not sealed for this seat.
    pub fn open<'a>(&mut self, datagram: &'a mut [u8]) -> Option<&'a [u8]> {
        let clear = match DatagramKind::from_byte(*datagram.first()?)? {
            DatagramKind::Welcome => WELCOME_HEADER_BYTES,
            DatagramKind::Down => DOWN_HEADER_BYTES,
            _ => return None,
        };
        let (clear, sealed) = datagram.split_at_mut_checked(clear)?;
        let low = u32::from_le_bytes(clear.last_chunk().copied()?);
        self.opener
            .open(low, clear, sealed)
            .ok()
            .map(|(_, payload)| &*payload)
    }
}
