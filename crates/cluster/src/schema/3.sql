-- The third form of the tables: the turns of a node outlive its right to speak.
--
-- `node.lease` says until when a node speaks for its channels. When it is over, another node takes the channels over.
-- `node.turns` says until when the node's agents may run at most. A lane in which one may still run stays closed at the node
-- that took it over until then, or until the next start of that machine reports that its agents have ended.

alter table aetheel.node add column turns timestamptz not null default '-infinity';

-- The machine (`node.identity`) whose agents may still run in the lane, and until when at most.
alter table aetheel.lane add column waits_for text, add column waits_until timestamptz;
create index lane_waits on aetheel.lane (bot, waits_for) where waits_for is not null;

-- Goes on only for the process that has the node's name, and lets nobody take over from it before the transaction is over.
-- Whoever takes over gives the node another start number, so a process whose lease has run out may write as long as nobody
-- did.
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

-- A letter to each node that lives or may come back with its turns.
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

-- Leaves all that a node had to its heir, who takes it in before it gets the lanes' letters. A machine that has the name
-- of an earlier one is that one's heir. A lane that waited at the dead node for agents of a third one waits for those: it
-- was never open at the dead node.
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
    -- What it had not taken in itself, and what it was told alone.
    update aetheel.handover set to_node = heir where bot = of_bot and to_node = dead;
    update aetheel.mail set node = heir where bot = of_bot and node = dead and done is null;
end
$$;

-- A process takes its node's name and first leases. Nothing: another machine has the name.
create function aetheel.enter(
    of_bot bigint, as_name text, as_identity text, seconds float8, turn_seconds float8, as_version text, as_labels text[],
    as_files text, as_components text
) returns table (its_start bigint, its_notes text) language plpgsql as $$
declare
    before record;
begin
    perform aetheel.alone(of_bot);
    -- Waits for what its earlier process is writing.
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

-- Says that a handover is in this node's own journal and files; its lanes get their letters, unless another one is still
-- to come for them, or turns had begun in them (`begun`) whose agents may still run. Returns the lanes that were opened.
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

-- Opens lanes in which no agent of another machine can run any more; returns them.
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

-- As a program of the second form calls it: it knows of no lanes that wait.
create or replace function aetheel.taken_in(of_bot bigint, by_node text, by_start bigint, the_id bigint) returns setof text
language sql as $$
    select * from aetheel.taken_in(of_bot, by_node, by_start, the_id, '{}'::text[])
$$;
