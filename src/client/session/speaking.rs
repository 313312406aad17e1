//! What a client sends: handshake, reports with inputs and camera, goodbyes.

#![deny(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic
)]

use super::{Client, Phase};
use crate::client::camera::CameraError;
use crate::client::inbox::Ending;
use crate::client::inputs::InputError;
use crate::limits::RECORD_REQUESTS_MAX;
use crate::wire::bytes::ByteWriter;
use crate::wire::payload::{self, CloseReason};

/// Goodbyes sent, and the time between two.
const GOODBYES: u8 = 3;
const GOODBYE_GAP_US: u64 = 30_000;

impl Client {
    /// Takes one input of the player and gives its number: 1 for the first, then rising by one. It makes a datagram due
    /// and goes in each one until the relay has it; before the session begins it waits. More than
    /// [`INPUTS_WINDOW`](crate::limits::INPUTS_WINDOW) are not kept: the oldest is lost then, and
    /// [`ClientEvent::InputsLost`](crate::client::inbox::ClientEvent::InputsLost) says so.
    ///
    /// # Errors
    /// [`InputError`]; then nothing changed.
    pub fn push_input(&mut self, payload: &[u8]) -> Result<u32, InputError> {
        if matches!(self.phase, Phase::Leaving { .. } | Phase::Closed(_)) {
            return Err(InputError::SessionOver);
        }
        let pushed = self.inputs.push(payload)?;
        self.statistics.inputs_pushed += 1;
        if let Some(lost) = pushed.lost {
            self.statistics.inputs_lost += 1;
            self.inbox.tell_lost(lost);
        }
        if let Phase::Connected(link) = &mut self.phase {
            link.note_input();
        }
        Ok(pushed.number)
    }

    /// Forgets the inputs that the relay has not acknowledged, as nothing will come of them; gives the number of the first and how
    /// many there were.
    pub fn forget_inputs(&mut self) -> Option<(u32, u32)> {
        let lost = self.inputs.forget();
        self.statistics.inputs_lost += lost.map_or(0, |(_, count)| u64::from(count));
        lost
    }

    /// Moves the free camera, in metres. It goes in every datagram from now on; a new stream measures it anew.
    ///
    /// # Errors
    /// [`CameraError`].
    pub fn set_camera(&mut self, metres: [f64; 3]) -> Result<(), CameraError> {
        let schema = self.replica.stream().map(|stream| &stream.schema);
        self.camera.set(metres, schema)
    }

    /// Writes the next datagram to send into `out`, whose content is replaced; false when none is due. Also
    /// does what time alone brings, so it is called at [`next_timer`](Client::next_timer) too.
    pub fn poll_transmit(&mut self, now_us: u64, out: &mut Vec<u8>) -> bool {
        let sent = match &mut self.phase {
            Phase::Handshake(attempt) => {
                if let Some(denial) = attempt.denial(now_us) {
                    self.end(Ending::Denied(denial));
                    return false;
                }
                if attempt.is_over(&self.settings, now_us) {
                    self.end(Ending::Unanswered);
                    return false;
                }
                attempt.poll(&self.settings, &self.nonce, now_us, out)
            }
            Phase::Connected(link) => {
                if link.is_idle(now_us, self.idle_us) {
                    self.end(Ending::Silent);
                    return false;
                }
                let due = now_us >= link.speak_at(&self.settings);
                if self.inbox.is_waiting() {
                    self.inbox.pump(
                        self.replica.display(),
                        self.replica.settled_us(),
                        now_us,
                        &mut self.statistics,
                    );
                }
                due && self.speak(now_us, out)
            }
            Phase::Leaving { .. } => self.say_goodbye(now_us, out),
            Phase::Closed(_) => false,
        };
        if sent {
            self.statistics.datagrams_sent += 1;
            self.statistics.bytes_sent += out.len() as u64;
        }
        sent
    }

    fn speak(&mut self, now_us: u64, out: &mut Vec<u8>) -> bool {
        let hold_back_us = self.settings.hold_back_us;
        let Phase::Connected(link) = &mut self.phase else {
            return false;
        };
        let Some(number) = link.begin(out) else {
            self.end(Ending::Exhausted);
            return false;
        };
        link.fill(&mut self.report, now_us);
        let report = &mut self.report;
        report.held = self.replica.report(now_us, hold_back_us);
        let window = self.replica.window();
        report.session_epoch = window.session_epoch();
        report.generation = window.generation();
        report.ask = window.asks();
        report.refuse = window.refusing();
        report.stream_epoch = self.replica.stream_epoch();
        report.next_message = self.inbox.next_message();
        self.inbox
            .requests(self.replica.display(), now_us, &mut report.requests);
        for wanted in &self.wanted {
            if report.requests.len() < RECORD_REQUESTS_MAX && !report.requests.contains(wanted) {
                report.requests.push(*wanted);
            }
        }
        self.refusals.tell(&mut report.rejected);
        let camera = self.camera.quantised();
        let answer = link.take_answer();
        let flag = |set: bool, bit: u8| if set { bit } else { 0 };
        out.put_u8(
            payload::REPORT
                | flag(!self.inputs.is_empty(), payload::INPUTS)
                | flag(camera.is_some(), payload::CAMERA)
                | flag(answer.is_some(), payload::PATH_ANSWER),
        );
        report.encode(out);
        if !self.inputs.is_empty() {
            self.inputs.put_block(out);
        }
        camera.into_iter().flatten().for_each(|axis| out.put_u32(axis));
        answer.iter().for_each(|answer| out.put(answer));
        link.pad(now_us, out);
        let more = self.replica.next_wait(now_us, hold_back_us);
        link.finish(number, now_us, more, out)
    }

    fn say_goodbye(&mut self, now_us: u64, out: &mut Vec<u8>) -> bool {
        let Phase::Leaving { link, sends, next_us } = &mut self.phase else {
            return false;
        };
        if now_us < *next_us {
            return false;
        }
        let sent = match link.begin(out) {
            Some(number) => {
                out.put_u8(payload::CLOSE);
                out.put_u8(CloseReason::Left as u8);
                link.finish(number, now_us, None, out)
            }
            None => false,
        };
        *sends = sends.saturating_sub(1);
        *next_us = now_us.saturating_add(GOODBYE_GAP_US);
        if *sends == 0 {
            self.end(Ending::Left);
        }
        sent
    }

    /// When [`poll_transmit`](Client::poll_transmit) is to be called at the latest; `u64::MAX` once closed.
    #[must_use]
    pub fn next_timer(&self) -> u64 {
        match &self.phase {
            Phase::Handshake(attempt) => attempt.next_us(&self.settings),
            Phase::Connected(link) => link.speak_at(&self.settings).min(link.idle_at(self.idle_us)),
            Phase::Leaving { next_us, .. } => *next_us,
            Phase::Closed(_) => u64::MAX,
        }
    }

    /// Ends the session: the relay is told up to three times, then the client is closed.
    pub fn leave(&mut self, now_us: u64) {
        match core::mem::replace(&mut self.phase, Phase::Closed(Ending::Left)) {
            Phase::Connected(link) => {
                self.phase = Phase::Leaving {
                    link,
                    sends: GOODBYES,
                    next_us: now_us,
                };
            }
            Phase::Handshake(_) => self.end(Ending::Left),
            over => self.phase = over,
        }
    }
}
