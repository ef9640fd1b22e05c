use proptest::prelude::*;

use super::{Action::*, Event::*, Failure::*, *};

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// Plays events without jitter; the state and the action after each.
fn play(machine: &mut Machine, events: &[Event]) -> Vec<(State, Option<Action>)> {
    events
        .iter()
        .map(|event| {
            let action;
            (*machine, action) = machine.step(*event, 0.5);
            (machine.state(), action)
        })
        .collect()
}

fn started() -> Machine {
    Machine::new(true).0
}

#[test]
fn the_first_state_follows_the_configuration() {
    let (machine, action) = Machine::new(true);
    assert_eq!((machine.state(), action), (State::Connecting, Some(Open)));
    let (machine, action) = Machine::new(false);
    assert_eq!((machine.state(), action), (State::Disabled, None));
}

/// Every state with every event. `None` in the state column: nothing changes and nothing is done.
#[test]
fn the_table() {
    type Row<'a> = (&'a [Event], Event, Option<(State, Option<Action>)>);
    let broken = Broken(Transient);
    let backoff: &[Event] = &[broken, Closed];
    let parked: &[Event] = &[
        broken, Closed, Due, broken, Closed, Due, broken, Closed, Due, broken, Closed,
    ];
    let failed: &[Event] = &[Broken(Permanent), Closed];
    let recycled: &[Event] = &[Opened, Recycle, Closed];
    let later: &[Event] = &[Broken(Later(seconds(20))), Closed];
    let locked: &[Event] = &[Opened, Proven, Broken(Auth), Closed];
    let ended: &[Event] = &[Stop, Closed];
    let restarting: &[Event] = &[Restart];
    let table: &[Row<'_>] = &[
        (&[], Opened, Some((State::Connected, None))),
        (&[], Proven, None),
        (&[], broken, Some((State::Backoff, Some(Close)))),
        (&[], Broken(Permanent), Some((State::Failed, Some(Close)))),
        (&[], Closed, None),
        (&[], Due, None),
        (&[], Wanted, None),
        (&[], Restart, Some((State::Connecting, Some(Close)))),
        (&[], Recycle, None),
        (&[], Stop, Some((State::Stopping, Some(Close)))),
        //
        (&[Opened], Opened, None),
        (&[Opened], Proven, Some((State::Connected, None))),
        (&[Opened], broken, Some((State::Backoff, Some(Close)))),
        (&[Opened], Closed, None),
        (&[Opened], Due, None),
        (&[Opened], Wanted, None),
        (&[Opened], Restart, Some((State::Connecting, Some(Close)))),
        (&[Opened], Recycle, Some((State::Recycled, Some(Close)))),
        (&[Opened], Stop, Some((State::Stopping, Some(Close)))),
        // What worked once is not given up for a missing program.
        (
            &[Opened, Proven],
            Broken(Permanent),
            Some((State::Backoff, Some(Close))),
        ),
        // An attempt is being ended.
        (&[broken], Closed, Some((State::Backoff, Some(Alarm(seconds(1)))))),
        (&[broken], Opened, None),
        (&[broken], broken, None),
        (&[broken], Due, None),
        (&[broken], Restart, Some((State::Connecting, None))),
        (&[broken], Recycle, None),
        (&[broken], Stop, Some((State::Stopping, None))),
        (
            &[broken, Wanted],
            Closed,
            Some((State::Backoff, Some(Alarm(seconds(0))))),
        ),
        (restarting, Closed, Some((State::Connecting, Some(Open)))),
        (restarting, Restart, None),
        (restarting, Wanted, None),
        (restarting, broken, None),
        (restarting, Stop, Some((State::Stopping, None))),
        (&[Opened, Recycle], Wanted, Some((State::Connecting, None))),
        (&[Opened, Recycle], Closed, Some((State::Recycled, None))),
        (&[Stop], Closed, Some((State::Stopping, Some(End)))),
        (&[Stop], Restart, None),
        (&[Stop], Wanted, None),
        //
        (backoff, Due, Some((State::Connecting, Some(Open)))),
        (backoff, Wanted, Some((State::Backoff, Some(Hurry(seconds(0)))))),
        (backoff, Restart, Some((State::Connecting, Some(Open)))),
        (backoff, Stop, Some((State::Stopping, Some(End)))),
        (backoff, Opened, None),
        (backoff, broken, None),
        (backoff, Closed, None),
        (backoff, Recycle, None),
        // From the second failure on a call waits a second.
        (
            &[broken, Closed, Due, broken, Closed],
            Wanted,
            Some((State::Backoff, Some(Hurry(seconds(1))))),
        ),
        //
        (parked, Due, Some((State::Connecting, Some(Open)))),
        (parked, Wanted, Some((State::Parked, Some(Hurry(seconds(10)))))),
        (parked, Restart, Some((State::Connecting, Some(Open)))),
        (parked, Stop, Some((State::Stopping, Some(End)))),
        //
        (failed, Due, None),
        (failed, Wanted, None),
        (failed, Restart, Some((State::Connecting, Some(Open)))),
        (failed, Stop, Some((State::Stopping, Some(End)))),
        // The server said when; a call changes nothing about that.
        (
            &[Broken(Later(seconds(20)))],
            Closed,
            Some((State::Backoff, Some(Alarm(seconds(20))))),
        ),
        (
            &[Broken(Later(seconds(90_000)))],
            Closed,
            Some((State::Backoff, Some(Alarm(seconds(3600))))),
        ),
        (later, Wanted, Some((State::Backoff, Some(Hurry(seconds(20)))))),
        (
            &[Broken(Later(seconds(20))), Closed, Due, broken, Closed],
            Wanted,
            Some((State::Backoff, Some(Hurry(seconds(1))))),
        ),
        (later, Restart, Some((State::Connecting, Some(Open)))),
        // Credentials are a person's matter.
        (&[], Broken(Auth), Some((State::AuthRequired, Some(Close)))),
        (&[Broken(Auth)], Closed, Some((State::AuthRequired, None))),
        (&[Broken(Auth)], Wanted, None),
        (&[Broken(Auth)], Restart, Some((State::Connecting, None))),
        (locked, Due, None),
        (locked, Wanted, None),
        (locked, Restart, Some((State::Connecting, Some(Open)))),
        (locked, Stop, Some((State::Stopping, Some(End)))),
        //
        (recycled, Wanted, Some((State::Connecting, Some(Open)))),
        (recycled, Due, None),
        (recycled, Restart, Some((State::Connecting, Some(Open)))),
        (recycled, Stop, Some((State::Stopping, Some(End)))),
        //
        (ended, Restart, None),
        (ended, Wanted, None),
        (ended, Closed, None),
    ];
    for (before, event, expected) in table {
        let mut machine = started();
        play(&mut machine, before);
        let old = machine;
        let got = play(&mut machine, &[*event])[0];
        match expected {
            Some(expected) => assert_eq!(got, *expected, "{before:?} then {event:?}"),
            None => {
                assert_eq!(got, (old.state(), None), "{before:?} then {event:?}");
                assert_eq!(machine.phase, old.phase, "{before:?} then {event:?}");
            }
        }
    }
}

/// The pauses that a server which fails for ever is given.
fn pauses(machine: &mut Machine, failures: usize) -> Vec<(State, u64)> {
    (0..failures)
        .map(|_| {
            let steps = play(machine, &[Broken(Transient), Closed]);
            play(machine, &[Due]);
            match steps[1] {
                (state, Some(Alarm(pause))) => (state, pause.as_secs()),
                other => panic!("{other:?}"),
            }
        })
        .collect()
}

#[test]
fn the_first_connection_is_tried_three_times_more_then_parked() {
    use State::{Backoff, Parked};
    let expected = [
        (Backoff, 1),
        (Backoff, 2),
        (Backoff, 4),
        (Parked, 300),
        (Parked, 300),
    ];
    assert_eq!(pauses(&mut started(), 5), expected);
}

#[test]
fn a_proven_session_earns_five_retries() {
    use State::{Backoff, Parked};
    let mut machine = started();
    pauses(&mut machine, 2);
    play(&mut machine, &[Opened, Proven]);
    let expected = [
        (Backoff, 1),
        (Backoff, 2),
        (Backoff, 4),
        (Backoff, 8),
        (Backoff, 16),
        (Parked, 300),
    ];
    assert_eq!(pauses(&mut machine, 6), expected);
}

#[test]
fn a_handshake_alone_resets_nothing() {
    let mut machine = started();
    for _ in 0..3 {
        play(&mut machine, &[Opened, Broken(Transient), Closed, Due]);
    }
    play(&mut machine, &[Opened, Broken(Transient)]);
    assert_eq!(machine.state(), State::Parked);
}

#[test]
fn a_restart_begins_anew() {
    let mut machine = started();
    pauses(&mut machine, 4);
    play(&mut machine, &[Broken(Transient), Closed, Restart]);
    assert_eq!(pauses(&mut machine, 1), [(State::Backoff, 1)]);
}

#[test]
fn jitter_moves_a_pause_by_a_fifth() {
    for (jitter, millis) in [(0.0, 800), (1.0, 1200), (7.0, 1200), (-1.0, 800)] {
        let (machine, _) = started().step(Broken(Transient), jitter);
        let (_, action) = machine.step(Closed, jitter);
        assert_eq!(action, Some(Alarm(Duration::from_millis(millis))), "{jitter}");
    }
}

fn any_event() -> impl Strategy<Value = Event> {
    prop_oneof![
        Just(Opened),
        Just(Proven),
        Just(Broken(Transient)),
        Just(Broken(Permanent)),
        Just(Broken(Auth)),
        (0..5000u64).prop_map(|pause| Broken(Later(seconds(pause)))),
        Just(Closed),
        Just(Due),
        Just(Wanted),
        Just(Restart),
        Just(Recycle),
    ]
}

proptest! {
    /// Whatever happens in whatever order: one attempt at a time, calls only between its handshake and its end, and
    /// no state in which nothing could ever happen again but those that wait for a person.
    #[test]
    fn attempts_never_overlap(events in prop::collection::vec(any_event(), 0..200), jitter in 0.0..1.0f64) {
        let (mut machine, action) = Machine::new(true);
        let mut live = action == Some(Open);
        let mut closing = false;
        let mut alarm = false;
        for event in events {
            // An attempt that isn't there reports nothing.
            if !live && matches!(event, Opened | Proven | Broken(_) | Closed | Recycle) {
                continue;
            }
            if event == Closed && !closing || event == Due && !alarm {
                continue;
            }
            if event == Closed {
                (live, closing) = (false, false);
            }
            if event == Due {
                alarm = false;
            }
            let before = machine;
            let action;
            (machine, action) = machine.step(event, jitter);
            match action {
                Some(Open) => {
                    prop_assert!(!live, "a second attempt: {:?} {:?}", before, event);
                    (live, alarm) = (true, false);
                }
                Some(Close) => {
                    prop_assert!(live && !closing, "closed twice: {:?} {:?}", before, event);
                    closing = true;
                }
                Some(Alarm(pause)) => {
                    prop_assert!(pause <= LATEST);
                    alarm = true;
                }
                Some(Hurry(_)) => prop_assert!(alarm, "nothing to hurry: {:?}", before),
                Some(End) => prop_assert!(false, "ended without being told"),
                None => {}
            }
            match machine.state() {
                State::Connected => prop_assert!(live && !closing),
                State::Backoff | State::Parked => prop_assert!(alarm || closing),
                State::Connecting => prop_assert!(live),
                State::Failed | State::AuthRequired | State::Recycled => prop_assert!(closing || !live),
                state => prop_assert!(false, "{:?}", state),
            }
        }
    }

    /// A stop is final, from anywhere.
    #[test]
    fn a_stop_ends_it(events in prop::collection::vec(any_event(), 0..50), after in prop::collection::vec(any_event(), 0..20)) {
        let (mut machine, _) = Machine::new(true);
        for event in events {
            machine = machine.step(event, 0.5).0;
        }
        machine = machine.step(Stop, 0.5).0;
        for event in after {
            prop_assert_eq!(machine.state(), State::Stopping);
            machine = machine.step(event, 0.5).0;
        }
        machine = machine.step(Closed, 0.5).0;
        prop_assert!(machine.is_ended());
    }
}
