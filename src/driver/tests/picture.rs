//! A driver and its playback in one call.

use super::Server;
use crate::client::inbox::ClientEvent;
use crate::client::playback::clock::ClockMode;
use crate::client::playback::settings::PlaybackSettings;
use crate::client::playback::stage::Playback;
use crate::driver::{Driver, DriverEvent};

/// SPEC PLY7, CTL3: a playback that one call keeps in step draws the session that is shown, is never blank between two, and gives
/// each event of the world once; also where the game fetches none of the driver's events for seconds.
#[test]
fn ply7_ctl3_one_call_keeps_a_playback_in_step() {
    for fetches in [true, false] {
        let (mut server, mut settings) = Server::begin();
        settings.keep_display_us = 0;
        let mut driver = Driver::new(settings, 0).unwrap();
        let mut playback = Playback::new(PlaybackSettings::default());
        let (mut due, mut told, mut drew, mut sessions) = (Vec::new(), 0, false, 0);
        for frame in 0..500_u64 {
            let now_us = frame * 20_000;
            if frame == 200 {
                server.session = None;
            }
            server.turn(now_us);
            if let Some((relay, to)) = server.session.as_mut().filter(|_| frame % 100 == 50) {
                relay.push_event_at(frame as u16, None, now_us);
                let message = relay.messages(now_us);
                server.socket.send_to(&message, *to).unwrap();
            }
            driver.poll_playback(now_us, &mut playback);
            while (fetches || frame > 450)
                && let Some(event) = driver.poll_event()
            {
                told += u32::from(matches!(event, DriverEvent::Client(ClientEvent::World(_))));
                sessions += u32::from(matches!(event, DriverEvent::Session(_)));
            }
            playback.frame(now_us);
            due.extend(core::iter::from_fn(|| playback.poll_due()).map(|due| due.event.kind));
            let drawn = playback.drawn().count();
            assert!(drawn == 1 || !drew, "{fetches} {frame}: blank");
            drew |= drawn == 1;
        }
        assert!(drew && playback.mode() == ClockMode::Playing);
        // The first pictures of two sessions.
        assert_eq!((playback.statistics().anchors, sessions), (2, 2), "{fetches}");
        assert_eq!((told, due), (0, vec![50, 150, 350, 450]), "{fetches}");
    }
}
