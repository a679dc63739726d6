-- The fourth version of the schema: budgets count the turns of all nodes.
--
-- Turns and decisions are written only under the bot's lock for budgets (`count_alone`), so that
-- they become visible in the order of their revisions. That lock is not the bot's lock (`alone`), so
-- that nothing else waits for it.

create sequence aetheel.budget_revision;
-- The first revision is not used: nodes begin to read after it.
select nextval('aetheel.budget_revision');

-- The use of each turn. A turn has one row, whichever node reports it.
create table aetheel.budget_turn (
    bot bigint not null,
    turn text not null,
    -- The process that reported it last.
    node text not null,
    start bigint not null,
    -- `running`; `closed` if its process is gone and the amounts are those that it reported last;
    -- `finished`, with final amounts; or `withdrawn` if it did not begin.
    state text not null check (state in ('running', 'closed', 'finished', 'withdrawn')),
    -- When it began, if it runs, otherwise when it ended, in milliseconds since 1970.
    at_ms bigint not null,
    -- The properties by which budgets select it, as JSON.
    subject text not null,
    -- Millionths of a US dollar, tokens, turns and milliseconds.
    micro_usd bigint not null,
    tokens bigint not null,
    turns bigint not null,
    took_ms bigint not null,
    revision bigint not null,
    primary key (bot, turn)
);
create index budget_turn_news on aetheel.budget_turn (bot, revision);
create index budget_turn_running on aetheel.budget_turn (bot) where state = 'running';
create index budget_turn_old on aetheel.budget_turn (bot, at_ms) where state <> 'running';

-- The decisions of owners about an account in a period, and the notices that people got.
create table aetheel.budget_grant (
    bot bigint not null,
    account text not null,
    -- The start of the period, in milliseconds since 1970.
    start_ms bigint not null,
    raised bigint,
    until_ms bigint,
    warned bigint,
    asked bigint,
    -- The process that wrote it.
    node text not null,
    start bigint not null,
    revision bigint not null,
    primary key (bot, account, start_ms)
);
create index budget_grant_news on aetheel.budget_grant (bot, revision);

-- Waits until no other transaction counts turns of the bot.
create function aetheel.count_alone(of_bot bigint) returns void language sql as $$
    select pg_advisory_xact_lock(hashtextextended('aetheel budgets of ' || of_bot, 0))
$$;

-- Saves what a node reports about its turns, closes the turns of processes that are gone, and removes
-- turns and decisions whose periods have ended. Returns what other processes reported after a
-- revision, in order, at most so many rows. If these are all, a last row without a turn has the
-- newest revision.
create function aetheel.share_budgets(
    of_bot bigint, by_node text, by_start bigint, the_turns text[], the_states text[], the_times bigint[],
    the_subjects text[], the_prices bigint[], the_tokens bigint[], the_counts bigint[], the_durations bigint[],
    after_revision bigint, kept_ms bigint, most int
) returns table (
    its_turn text, its_state text, its_time bigint, its_subject text, its_price bigint, its_tokens bigint,
    its_count bigint, its_duration bigint, its_revision bigint
) language plpgsql as $$
declare
    found_rows int;
    oldest bigint := (extract(epoch from clock_timestamp()) * 1000)::bigint - kept_ms;
begin
    perform aetheel.count_alone(of_bot);
    perform aetheel.fence(of_bot, by_node, by_start);
    -- The amounts of a turn that has not ended never decrease: a process that continues a turn reads
    -- the previous reports of its agent again.
    insert into aetheel.budget_turn as known
        (bot, turn, node, start, state, at_ms, subject, micro_usd, tokens, turns, took_ms, revision)
    select of_bot, told.turn, by_node, by_start, told.state, told.at_ms, told.subject, told.micro_usd,
           told.tokens, told.turns, told.took_ms, nextval('aetheel.budget_revision')
    from unnest(the_turns, the_states, the_times, the_subjects, the_prices, the_tokens, the_counts, the_durations)
        as told (turn, state, at_ms, subject, micro_usd, tokens, turns, took_ms)
    on conflict (bot, turn) do update
    set node = excluded.node, start = excluded.start, state = excluded.state, at_ms = excluded.at_ms,
        subject = excluded.subject, turns = excluded.turns, revision = excluded.revision,
        micro_usd = case when excluded.state in ('running', 'closed')
                         then greatest(known.micro_usd, excluded.micro_usd) else excluded.micro_usd end,
        tokens = case when excluded.state in ('running', 'closed')
                      then greatest(known.tokens, excluded.tokens) else excluded.tokens end,
        took_ms = case when excluded.state in ('running', 'closed')
                       then greatest(known.took_ms, excluded.took_ms) else excluded.took_ms end
    where known.state <> 'finished';
    update aetheel.budget_turn as gone
    set state = 'closed', at_ms = gone.at_ms + gone.took_ms, revision = nextval('aetheel.budget_revision')
    where gone.bot = of_bot and gone.state = 'running'
      and not exists (select from aetheel.node
                      where node.bot = of_bot and node.name = gone.node and node.start = gone.start
                        and greatest(node.lease, node.turns) > clock_timestamp());
    delete from aetheel.budget_turn where bot = of_bot and state <> 'running' and at_ms < oldest;
    delete from aetheel.budget_grant where bot = of_bot and start_ms < oldest;
    return query
        select known.turn, known.state, known.at_ms, known.subject, known.micro_usd, known.tokens,
               known.turns, known.took_ms, known.revision
        from aetheel.budget_turn as known
        where known.bot = of_bot and known.revision > after_revision
          and not (known.node = by_node and known.start = by_start)
        order by known.revision limit most;
    get diagnostics found_rows = row_count;
    if found_rows < most then
        return query select null::text, null::text, 0::bigint, null::text, 0::bigint, 0::bigint, 0::bigint,
                            0::bigint, counter.last_value from aetheel.budget_revision as counter;
    end if;
end
$$;

-- Saves the decisions about an account in place of those with a known revision, or of none if that is
-- zero. Returns their revision, or nothing if another process decided meanwhile. A repeated call
-- returns the same.
create function aetheel.put_budget_grant(
    of_bot bigint, by_node text, by_start bigint, the_account text, the_start bigint, the_raised bigint,
    the_end bigint, the_warned bigint, the_asked bigint, known_revision bigint
) returns bigint language plpgsql as $$
declare
    before record;
    the_revision bigint;
begin
    perform aetheel.count_alone(of_bot);
    perform aetheel.fence(of_bot, by_node, by_start);
    select * into before from aetheel.budget_grant
    where bot = of_bot and account = the_account and start_ms = the_start;
    if (before.node, before.start, before.raised, before.until_ms, before.warned, before.asked)
       is not distinct from (by_node, by_start, the_raised, the_end, the_warned, the_asked) then
        return before.revision;
    end if;
    if coalesce(before.revision, 0) <> known_revision then
        return null;
    end if;
    the_revision := nextval('aetheel.budget_revision');
    insert into aetheel.budget_grant
        (bot, account, start_ms, raised, until_ms, warned, asked, node, start, revision)
    values (of_bot, the_account, the_start, the_raised, the_end, the_warned, the_asked, by_node, by_start,
            the_revision)
    on conflict (bot, account, start_ms) do update
    set raised = excluded.raised, until_ms = excluded.until_ms, warned = excluded.warned,
        asked = excluded.asked, node = excluded.node, start = excluded.start, revision = excluded.revision;
    return the_revision;
end
$$;
