//! The help of the console, and the commands that it lists.

/// The answer to `/help`.
pub(crate) const HELP: &str = "\
/reset             forget the conversation
/status            show the backend, its settings and its state
/queue             show running and waiting prompts
/sessions [ID]     list conversations, or resume one
/sessions fork ID  continue a copy of a conversation
/settings [NAME VALUE]  choose a setting, such as `/settings model opus`
/compact           shorten the conversation
/backend [NAME]    show or choose the backend that answers
/ping [NAME]       ask a backend whether it can work
/model [NAME]      show or choose its model; `unset` removes a choice, here and below
/thinking [LEVEL]  show or choose how much it thinks
/safety [LEVEL]    show or choose what it may do without asking
/mode [MODE]       show or choose `build` or `plan`
/project [DIR]     show or choose the folder it works in
/usage             what the last 14 days used, and the budgets
/claim             list the reserved files; `/claim PATH... for 2h` reserves some, `/claim release ID` releases them
/recover           deliver lost replies that can be read now
/stop              stop the answer (so does Ctrl-C)
/steer TEXT        tell the agent something while it works
/file PATH         add a file to the next prompt; `@PATH` in a prompt does it too
/open [WHAT]       show folded parts of the last answer: output and changes by number, `plan`, `thinking`
/help              show this help
/quit              exit (so does Ctrl-D)
While the agent asks something, your next line is the answer.
Tab completes commands, names and paths; Ctrl-R searches earlier input. Alt-Enter begins another line; pasted text is one prompt.
Anything else is a prompt; begin it with a blank if it should start with `/`.";

/// Returns the commands, each with its `/`.
pub(crate) fn commands() -> impl Iterator<Item = &'static str> {
    HELP.lines()
        .filter(|line| line.starts_with('/'))
        .filter_map(|line| line.split_whitespace().next())
}
