//! What becomes of the sessions at each poll: who is heard, who is silent, who is asked, who is shown.

use std::net::SocketAddr;

use super::line::Line;
use super::tokens::Tokens;
use super::{Driver, DriverEvent};
use crate::client::inbox::{ClientEvent, Ending};
use crate::client::session::SessionState;
use crate::net::plain::random;
use crate::wire::handshake::Denial;
use crate::wire::payload::CloseReason;

/// Silences after which a next session is given up where there is no other.
const SILENCES_OF_THE_LAST: u64 = 4;

impl Driver {
    pub(super) fn judge_shown(&mut self, now_us: u64, heard: bool) {
        if heard && self.is_silent {
            self.is_silent = false;
            self.tell(DriverEvent::Heard);
            // One that is connected already goes on and is shown: where players have numbers the relay has replaced this one by it.
            if self.shown.is_connected()
                && let Some(next) = self.next.take_if(|next| !next.is_connected())
            {
                self.counts.spared += 1;
                self.past.add(&next.leave(now_us, &mut self.buffers));
            }
        }
        match self.shown.client.state() {
            SessionState::Closed(ending) => self.shown_ended(now_us, ending),
            SessionState::Connected => {
                if !self.told {
                    self.told = true;
                    self.backoff.reset();
                    self.counts.sessions += 1;
                    self.tell(DriverEvent::Session(self.shown.relay));
                    let number = self.shown.take_token();
                    self.want_token(|tokens| tokens.note_spent(number));
                }
                self.judge_silence(now_us);
            }
            _ => {}
        }
    }

    fn judge_silence(&mut self, now_us: u64) {
        let silence_us = self.settings.silence_us;
        if !self.is_quiet(&self.shown, now_us) {
            return;
        }
        if !self.is_silent {
            self.is_silent = true;
            self.counts.silences += 1;
            self.ask_after_pause(now_us);
            self.tell(DriverEvent::Silent);
            self.want_token(|tokens| tokens.note_need(now_us));
        }
        if now_us.saturating_sub(self.shown.socket_us()) >= silence_us {
            self.rebind_shown(now_us);
        }
        self.ask(now_us);
    }

    /// The shown session is over: unless that is the end, another is asked for, of the next relay where this one wants no
    /// more of it.
    fn shown_ended(&mut self, now_us: u64, ending: Ending) {
        self.tell_lost_inputs();
        while let Some(event) = self.shown.client.poll_event() {
            self.tell(DriverEvent::Client(event));
        }
        let is_replaced = ending == Ending::Relay(CloseReason::Replaced);
        self.is_own_doing |= is_replaced && self.next.as_ref().is_some_and(Line::is_connected);
        if ending == Ending::Left || (is_replaced && !self.is_own_doing) {
            self.over = true;
            self.tell(DriverEvent::Over(ending));
            return;
        }
        if !self.is_silent {
            self.is_silent = true;
            if !self.told {
                let number = self.shown.take_token();
                self.failed(ending, number);
            } else {
                self.want_token(|tokens| tokens.note_need(now_us));
            }
            if is_elsewhere(ending) {
                self.turn_from(self.shown.relay);
            }
            self.ask_after_pause(now_us);
        }
        self.ask(now_us);
    }

    pub(super) fn judge_next(&mut self, now_us: u64) {
        let Some(next) = &mut self.next else { return };
        if next.is_connected() {
            let number = next.take_token();
            self.want_token(|tokens| tokens.note_spent(number));
        }
        let Some(next) = &self.next else { return };
        if let SessionState::Closed(ending) = next.client.state() {
            let (relay, mut number) = (next.relay, None);
            if let Some(mut next) = self.next.take() {
                number = next.take_token();
                self.past.add(&next.counts());
            }
            self.failed(ending, number);
            if is_elsewhere(ending) {
                self.turn_from(relay);
            }
            self.ask_after_pause(now_us);
        } else if next.is_connected() && self.may_show(next, now_us) {
            self.show_next(now_us);
        } else if next.is_connected() && self.is_given_up(next, now_us) {
            // Its relay died while the view was being completed: waiting for the end of its idle time would cost most of a minute.
            if let Some(next) = self.next.take() {
                self.past.add(&next.leave(now_us, &mut self.buffers));
            }
            self.failed(Ending::Silent, None);
            self.ask_after_pause(now_us);
        }
    }

    /// True when the next session is not worth waiting for: it is silent, for longer where the shown one is over, and with it the
    /// token that the next one spent.
    fn is_given_up(&self, next: &Line, now_us: u64) -> bool {
        let patience = if self.shown.is_connected() {
            1
        } else {
            SILENCES_OF_THE_LAST
        };
        now_us.saturating_sub(next.quiet_us) >= self.settings.silence_us.saturating_mul(patience)
    }

    /// True when nothing came of a session for the time that counts as silence.
    fn is_quiet(&self, line: &Line, now_us: u64) -> bool {
        now_us.saturating_sub(line.quiet_us) >= self.settings.silence_us
    }

    /// True when the other session has as much to show as the old one, or was waited for long enough.
    fn may_show(&self, next: &Line, now_us: u64) -> bool {
        if self.shown.client.display().live() == 0 {
            return true;
        }
        let statistics = next.client.statistics();
        let waited_us = now_us.saturating_sub(statistics.connected_us.unwrap_or(now_us));
        statistics.view_complete_us.is_some()
            || (next.client.display().live() > 0 && waited_us >= self.settings.keep_display_us)
    }

    fn show_next(&mut self, now_us: u64) {
        let Some(next) = self.next.take() else { return };
        while let Some(event) = self.shown.client.poll_event() {
            self.tell(DriverEvent::Client(event));
        }
        self.tell_lost_inputs();
        let old = core::mem::replace(&mut self.shown, next);
        self.past.add(&old.leave(now_us, &mut self.buffers));
        (self.is_silent, self.is_own_doing) = (false, false);
        self.told = true;
        self.backoff.reset();
        self.counts.sessions += 1;
        self.tell(DriverEvent::Session(self.shown.relay));
    }

    /// The inputs of the session shown that are not acknowledged go with it.
    fn tell_lost_inputs(&mut self) {
        if let Some((first, count)) = self.shown.client.forget_inputs() {
            self.tell(DriverEvent::Client(ClientEvent::InputsLost { first, count }));
        }
    }

    /// Asks for another session, where none is asked for and the pause is over.
    fn ask(&mut self, now_us: u64) {
        if self.next.is_some() || now_us < self.ask_us || self.tokens.is_spent() {
            return;
        }
        let relay = self.settings.relays.get(self.relay).copied();
        let (Some(relay), Ok(nonce)) = (relay, random()) else {
            self.ask_after_pause(now_us);
            return;
        };
        let client = self.settings.of_attempt();
        self.next = Some(Line::open(relay, client, nonce, self.tokens.number(), now_us));
        self.counts.attempts += 1;
        self.tell(DriverEvent::Asking(relay));
    }

    fn ask_after_pause(&mut self, now_us: u64) {
        self.ask_us = now_us.saturating_add(self.backoff.next_us());
    }

    /// Another relay than this one is asked next, where there is one.
    fn turn_from(&mut self, relay: SocketAddr) {
        let known = self.settings.relays.len();
        if known > 1 && self.settings.relays.get(self.relay) == Some(&relay) {
            self.relay = (self.relay + 1) % known;
            self.counts.redirects += 1;
        }
    }

    /// An attempt with the token of this number came to nothing.
    fn failed(&mut self, ending: Ending, number: Option<u32>) {
        self.counts.failed += 1;
        self.tell(DriverEvent::Failed(ending));
        if ending == Ending::Denied(Denial::Token) {
            self.want_token(|tokens| tokens.note_refused(number));
        }
    }

    /// Tells that a token is wanted, where it is.
    fn want_token(&mut self, note: impl FnOnce(&mut Tokens) -> bool) {
        if note(&mut self.tokens) {
            self.tell(DriverEvent::WantsToken);
        }
    }

    pub(super) fn rebind_shown(&mut self, now_us: u64) {
        self.shown.rebind(now_us);
        self.counts.rebinds += 1;
        self.tell(DriverEvent::Rebound);
    }
}

/// True when another relay is the better one to ask.
fn is_elsewhere(ending: Ending) -> bool {
    matches!(
        ending,
        Ending::Relay(CloseReason::Draining) | Ending::Denied(_) | Ending::Unanswered
    )
}
