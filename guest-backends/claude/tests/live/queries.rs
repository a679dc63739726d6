//! Queries of the host outside turns.

use aetheel_backend_sdk::wit::{
    Action, Command, Exit, FailureKind, Query, QueryAnswer, QueryKind, QueryResult,
};

use crate::{Conversation, launches, recorded, scenarios, turn};

fn query(query: u32, kind: QueryKind) -> Command {
    Command::Query(Query { query, session: None, kind })
}

fn answers(play: &Conversation) -> Vec<&QueryAnswer> {
    play.actions
        .iter()
        .filter_map(
            |action| if let Action::QueryAnswer(answer) = action { Some(answer) } else { None },
        )
        .collect()
}

#[test]
fn health_and_models_start_a_process_if_none_runs() {
    let mut play = recorded("two-turns");
    play.command(query(1, QueryKind::Health))
        .command(query(2, QueryKind::Models))
        .until_agent("control_response")
        .cut();
    assert_eq!(launches(&play).len(), 1);
    assert!(
        matches!(&answers(&play)[0].answer, QueryResult::Health(text) if text == "Claude Code answers and offers 6 models")
    );
    let QueryResult::Models(models) = &answers(&play)[1].answer else {
        panic!("{:?}", answers(&play))
    };
    assert_eq!(
        (models[2].id.as_str(), models[2].label.as_str(), models[2].efforts.len()),
        ("sonnet", "Sonnet", 5)
    );
    assert!(play.actions.contains(&Action::CloseStdin(1)), "the process is shut down");
    play.start(turn(1));
    assert_eq!(launches(&play).len(), 1, "one process at a time");
    play.exit(Exit::Code(0));
    assert!(launches(&play)[1].contains(&"--session-id".to_owned()));
}

#[test]
fn queries_during_an_exit_go_to_the_next_process() {
    let mut play = recorded("two-turns");
    play.command(query(1, QueryKind::Health))
        .until_agent("control_response")
        .cut()
        .command(query(2, QueryKind::Models));
    assert_eq!((answers(&play).len(), launches(&play).len()), (1, 1));
    play.exit(Exit::Code(0))
        .say(r#"{"type":"control_response","response":{"subtype":"success","request_id":"2-1"}}"#);
    assert_eq!((answers(&play).len(), launches(&play).len()), (2, 2));
    play.exit(Exit::Code(0));
    assert_eq!(launches(&play).len(), 2);
}

#[test]
fn health_is_queried_from_a_running_agent() {
    let play = scenarios::health_query();
    assert_eq!(answers(&play).len(), 2);
    assert!(answers(&play).iter().all(|answer| matches!(&answer.answer, QueryResult::Health(_))));
    assert_eq!(play.written_with("mcp_status").len(), 1);
    assert_eq!(launches(&play).len(), 2, "one process for the query, and one for the conversation");
}

#[test]
fn a_query_is_answered_when_the_agent_exits() {
    let mut play = recorded("two-turns");
    play.command(query(1, QueryKind::Health)).cut().exit(Exit::Code(1));
    let mut warm = recorded("two-turns");
    warm.start(turn(1))
        .until_agent("control_response")
        .cut()
        .command(query(1, QueryKind::Health))
        .exit(Exit::Signal(9));
    for play in [play, warm] {
        assert!(
            matches!(&answers(&play)[0].answer, QueryResult::Failed(failure) if failure.kind == FailureKind::Crashed)
        );
        assert_eq!(launches(&play).len(), 1);
    }
}

#[test]
fn other_queries_are_unsupported() {
    let mut play = recorded("two-turns");
    for (number, kind) in [QueryKind::Sessions, QueryKind::Compact].into_iter().enumerate() {
        play.command(query(u32::try_from(number).unwrap(), kind));
    }
    assert_eq!(answers(&play).len(), 2);
    assert!(
        answers(&play)
            .iter()
            .all(|answer| matches!(&answer.answer, QueryResult::Failed(failure) if failure.kind == FailureKind::Unsupported))
    );
}
