use super::*;
use crate::disturb;
use crate::fixture::{TURN, start};
use crate::one_shot::spawn;
use crate::wit::{Event, EventKind, SetTimer, Text, TurnRef};

/// Sends one request `ask` per turn, with ids from 70, and ends the turn with the response.
#[derive(Default)]
struct Toy {
    next: u32,
    turns: Vec<(u32, TurnRef)>,
    control: bool,
}

impl Toy {
    fn end(&mut self, said: &Value, out: &mut Vec<Action>) {
        let mut said = said.clone();
        let calls = if self.control { control } else { json_rpc };
        let Some(Half { id, method: None }) = calls(&mut said) else { return };
        let id = id.as_u64().or_else(|| id.as_str()?.parse().ok());
        let Some(at) = self.turns.iter().position(|(asked, _)| Some(u64::from(*asked)) == id)
        else {
            return;
        };
        let (_, TurnRef { session, turn }) = self.turns.remove(at);
        let kind = EventKind::Text(Text {
            part: 0,
            text: said["result"].to_string(),
            replace: false,
            parent: None,
        });
        out.push(Action::Event(Event { session, turn, kind }));
        out.push(Action::TurnDone(TurnDone {
            session,
            turn,
            outcome: Outcome::Completed,
            text: None,
            usage: None,
        }));
    }
}

impl Backend for Toy {
    fn describe() -> String {
        String::new()
    }
    fn handle(&mut self, input: TimedInput, out: &mut Vec<Action>) -> Result<(), String> {
        match input.input {
            Input::Command(Command::StartTurn(start)) => {
                if self.next == 0 {
                    self.control = start.cwd == "control";
                    self.next = 70;
                    out.push(Action::Spawn(spawn("toy", [], Vec::new())));
                    out.push(Action::SetTimer(SetTimer { timer: 9, after_ms: 500 }));
                }
                let id = self.next;
                self.next += 1;
                self.turns.push((id, TurnRef { session: start.session, turn: start.turn }));
                out.push(crate::rpc::write(
                    1,
                    if self.control {
                        format!("{{\"type\":\"control_request\",\"request_id\":\"{id}\",\"request\":{{\"subtype\":\"ask\"}}}}\n")
                    } else {
                        format!("{{\"id\":{id},\"method\":\"ask\"}}\n")
                    },
                ));
            }
            Input::Line(line) => {
                self.end(&serde_json::from_str(&line.text).unwrap_or_default(), out)
            }
            Input::Exited(_) => {
                for (_, TurnRef { session, turn }) in self.turns.drain(..) {
                    out.push(Action::TurnDone(TurnDone {
                        session,
                        turn,
                        outcome: Outcome::Interrupted,
                        text: None,
                        usage: None,
                    }));
                }
            }
            _ => {}
        }
        Ok(())
    }
}

const DIALOGUE: &str = r##"{"t":0.0,"dir":"#","msg":{"spawn":["toy"]}}
{"t":0.1,"dir":">","msg":{"id":0,"method":"hello"}}
{"t":0.2,"dir":"<","msg":{"id":0,"result":"never asked"}}
{"t":0.3,"dir":">","msg":{"id":"a","method":"ask"}}
{"t":0.4,"dir":"!","raw":"noise"}
{"t":0.4,"dir":">","msg":{"id":"b","method":"ask"}}
{"t":0.6,"dir":"<","msg":{"id":"b","result":"second"}}
{"t":0.7,"dir":"<","msg":{"id":"a","result":"first"}}
{"t":0.8,"dir":"#","msg":{"exit":-9,"how":"killed"}}"##;

#[test]
fn responses_are_matched_to_the_requests_of_the_backend() {
    let mut play = Play::<Toy>::of(DIALOGUE, json_rpc);
    play.start(start("one")).until_host("\"a\"").start(StartTurn { turn: 2, ..start("two") });
    assert_eq!(play.id_of("ask").as_deref(), Some("71"));
    let Action::TurnDone(done) = play.until(|action| matches!(action, Action::TurnDone(_))) else {
        panic!("no end")
    };
    assert_eq!(done.turn, 2, "the answer to the second request came first");
    play.finish();
    assert_eq!(play.done().iter().map(|done| done.turn).collect::<Vec<_>>(), [2, TURN.turn]);
    assert_eq!(play.skipped, [r#"{"id":0,"result":"never asked"}"#]);
    let timer = play.inputs.iter().position(|input| input.input == Input::Timer(9)).unwrap();
    assert!((play.inputs[timer].at_ms - 500.0).abs() < 0.01, "timers expire in recorded time");
    assert!(
        matches!(&play.inputs.last().unwrap().input, Input::Exited(Exited { how: Exit::Signal(9), stderr_tail, .. }) if stderr_tail == "noise")
    );
}

#[test]
fn ids_of_the_control_protocol_are_matched() {
    let text = r#"{"t":0,"dir":">","msg":{"type":"control_request","request_id":"req_1","request":{"subtype":"ask"}}}
{"t":1,"dir":"<","msg":{"type":"control_response","response":{"subtype":"success","request_id":"req_1"}}}"#;
    let mut play = Play::<Toy>::of(text, control);
    play.start(StartTurn { cwd: "control".to_owned(), ..start("hi") }).finish();
    assert_eq!(play.outcomes(), [&Outcome::Completed]);
}

#[test]
fn a_disturbance_changes_only_lines() {
    let mut play = Play::<Toy>::of(DIALOGUE, json_rpc);
    play.start(start("one")).finish();
    let inputs: Vec<Input> = play.inputs.into_iter().map(|input| input.input).collect();
    for how in 0..7 {
        let disturbed = disturb::disturbed(&inputs, &[(1, how, 2, 'é')]);
        assert_ne!(disturbed, inputs, "{how}");
        assert_eq!(disturbed[0], inputs[0]);
        assert_eq!(disturbed.last(), inputs.last());
        disturb::survive::<Toy>(disturbed);
    }
}

#[test]
#[should_panic(expected = "turns without an end")]
fn a_turn_without_an_end_is_detected() {
    #[derive(Default)]
    struct Forgetful;
    impl Backend for Forgetful {
        fn describe() -> String {
            String::new()
        }
        fn handle(&mut self, _: TimedInput, _: &mut Vec<Action>) -> Result<(), String> {
            Ok(())
        }
    }
    disturb::survive::<Forgetful>(vec![Input::Command(Command::StartTurn(start("one")))]);
}
