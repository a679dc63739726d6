-- The third version of the schema: the turns of a node outlive its lease.
--
-- Until `node.lease`, a node may write to Discord for its channels. After that, another node takes
-- the channels over. Until `node.turns`, the node's agents may run. A lane in which one may still
-- run stays closed at the new node until then, or until the next start of that machine reports that
-- its agents have ended.

alter table aetheel.node add column turns timestamptz not null default '-infinity';

-- The machine (`node.identity`) whose agents may still run in the lane, and the latest time at
-- which they end.
alter table aetheel.lane add column waits_for text, add column waits_until timestamptz;
create index lane_waits on aetheel.lane (bot, waits_for) where waits_for is not null;

-- Raises an error unless the process has the node's name. No node can take over from it before the
-- transaction ends. A takeover gives the node another start number, so a process whose lease has
-- expired may write until a takeover.
create or replace function aetheel.fence(of_bot bigint, by_node text, by_start bigint) returns void language plpgsql as $$
begin
    perform from aetheel.node
    where bot = of_bot and name = by_node and start = by_start
    for share;
    if not found then
        raise exception 'this node has lost its place' using errcode = 'AE001';
    end if;
end
$$;

-- Posts a message to each node that is running or may return with its turns.
create or replace function aetheel.tell_all(
    of_bot bigint, by_node text, by_start bigint, mark text, the_kind text, the_body text
) returns void language plpgsql as $$
begin
    perform aetheel.alone(of_bot);
    perform aetheel.fence(of_bot, by_node, by_start);
    insert into aetheel.mail (bot, key, node, kind, body)
    select of_bot, 'to ' || node.name || ' ' || mark, node.name, the_kind, the_body
    from aetheel.node where node.bot = of_bot and greatest(node.lease, node.turns) > clock_timestamp()
    on conflict (bot, key) do nothing;
    perform aetheel.wake(of_bot, node.name) from aetheel.node
    where node.bot = of_bot and node.lease > clock_timestamp();
end
$$;

-- Transfers everything of a node to its heir, which imports it before it receives the messages of
-- the lanes. A machine that takes the name of an earlier one is that one's heir. If a lane waited
-- at the dead node for agents of a third one, it still waits for those: it was never open at the
-- dead node.
create or replace function aetheel.bequeath(of_bot bigint, dead text, heir text) returns void language plpgsql as $$
declare
    its record;
begin
    select identity, turns into its from aetheel.node where bot = of_bot and name = dead;
    insert into aetheel.handover (bot, from_node, to_node, roots, journal, names, bodies)
    select of_bot, dead, heir,
           array(select root from aetheel.lane where bot = of_bot and node = dead order by root),
           coalesce((select string_agg(lines, '' order by start, batch)
                     from aetheel.journal where bot = of_bot and node = dead), ''),
           array(select name from aetheel.file where bot = of_bot and node = dead order by name),
           array(select body from aetheel.file where bot = of_bot and node = dead order by name);
    delete from aetheel.journal where bot = of_bot and node = dead;
    delete from aetheel.file where bot = of_bot and node = dead;
    update aetheel.lane
    set node = heir, open = false, held = false, placed = clock_timestamp(),
        waits_until = case when waits_for is null then its.turns else waits_until end,
        waits_for = coalesce(waits_for, its.identity)
    where bot = of_bot and node = dead;
    -- Handovers that it had not imported itself, and messages that were addressed to it.
    update aetheel.handover set to_node = heir where bot = of_bot and to_node = dead;
    update aetheel.mail set node = heir where bot = of_bot and node = dead and done is null;
end
$$;

-- Registers a process under its node's name, with its first leases. Returns nothing if another
-- machine has the name.
create function aetheel.enter(
    of_bot bigint, as_name text, as_identity text, seconds float8, turn_seconds float8, as_version text, as_labels text[],
    as_files text, as_components text
) returns table (its_start bigint, its_notes text) language plpgsql as $$
declare
    before record;
begin
    perform aetheel.alone(of_bot);
    -- Waits for the transactions of the node's previous process.
    select identity, lease > clock_timestamp() as lives into before
    from aetheel.node where bot = of_bot and name = as_name for update;
    if before.identity is distinct from as_identity then
        if before.lives then
            return;
        end if;
        if before.identity is not null then
            perform aetheel.bequeath(of_bot, as_name, as_name);
            delete from aetheel.node where bot = of_bot and name = as_name;
        end if;
    end if;
    update aetheel.lane set held = false where bot = of_bot and node = as_name and held;
    return query
        insert into aetheel.node as known (bot, name, identity, start, lease, turns, version, labels, files, components)
        values (of_bot, as_name, as_identity, nextval('aetheel.start'),
                clock_timestamp() + make_interval(secs => seconds),
                clock_timestamp() + make_interval(secs => turn_seconds),
                as_version, as_labels, as_files, as_components)
        on conflict (bot, name) do update
        set start = excluded.start, lease = excluded.lease, turns = greatest(known.turns, excluded.turns),
            joined = excluded.joined, version = excluded.version, labels = excluded.labels,
            files = excluded.files, components = excluded.components,
            room = 0, running = 0, waiting = 0, draining = false, reported = clock_timestamp()
        returning start, notes;
end
$$;

-- Acknowledges a handover that was saved in this node's journal and files. Its lanes get their
-- messages, unless another handover is still open for them, or turns had begun in them (`begun`)
-- whose agents may still run. Returns the lanes that were opened.
create function aetheel.taken_in(of_bot bigint, by_node text, by_start bigint, the_id bigint, begun text[])
returns setof text language plpgsql as $$
declare
    theirs text[];
begin
    perform aetheel.alone(of_bot);
    perform aetheel.fence(of_bot, by_node, by_start);
    delete from aetheel.handover where id = the_id and bot = of_bot and to_node = by_node returning roots into theirs;
    return query
        update aetheel.lane set open = true, waits_for = null, waits_until = null
        where bot = of_bot and node = by_node and root = any (theirs) and not open
          and not (root = any (begun) and coalesce(waits_until > clock_timestamp(), false))
          and not exists (select from aetheel.handover
                          where handover.bot = of_bot and handover.to_node = by_node and lane.root = any (handover.roots))
        returning root;
end
$$;

-- Opens lanes in which no agent of another machine can run any more. Returns them.
create function aetheel.open_waited(of_bot bigint, by_node text, by_start bigint) returns setof text
language plpgsql as $$
begin
    perform aetheel.alone(of_bot);
    perform aetheel.fence(of_bot, by_node, by_start);
    return query
        update aetheel.lane set open = true, waits_for = null, waits_until = null
        where bot = of_bot and node = by_node and not open and waits_until <= clock_timestamp()
          and not exists (select from aetheel.handover
                          where handover.bot = of_bot and handover.to_node = by_node and lane.root = any (handover.roots))
        returning root;
end
$$;

-- For programs of the second version, which do not know lanes that wait.
create or replace function aetheel.taken_in(of_bot bigint, by_node text, by_start bigint, the_id bigint) returns setof text
language sql as $$
    select * from aetheel.taken_in(of_bot, by_node, by_start, the_id, '{}'::text[])
$$;
