-- The first version of the schema. A released version is never changed: the next change is another
-- file.
--
-- A node writes only in a transaction that locks its own row of `node` and checks that its lease is
-- valid. Message numbers, moves of lanes and changes of nodes are made only under the bot's lock
-- (`alone`), so that messages become visible in the order of their numbers.

-- Numbers of process starts: a node gets a new number each time it starts.
create sequence aetheel.start;

-- Each node that ever joined.
create table aetheel.node (
    bot bigint not null,
    name text not null,
    -- The id of the machine that has the name, created at its first start and kept in its state
    -- folder.
    identity text not null,
    -- The start number of its process. It changes when another node takes over.
    start bigint not null,
    lease timestamptz not null,
    joined timestamptz not null default clock_timestamp(),
    version text not null,
    labels text[] not null,
    -- How the machine must treat its local state at its next start.
    notes text not null default 'first' check (notes in ('first', 'kept', 'adopted')),
    -- Whether an operator asked it to transfer its lanes.
    drain bool not null default false,
    -- Its last report, and the time of the report.
    reported timestamptz not null default clock_timestamp(),
    room float8 not null default 0,
    running int not null default 0,
    waiting int not null default 0,
    draining bool not null default false,
    files text not null,
    components text not null,
    -- Number of the last shared component that it examined.
    component bigint not null default 0,
    primary key (bot, name)
);

-- The one node of a bot that holds Discord's gateway connection and runs schedules.
create table aetheel.seat (
    bot bigint primary key,
    node text not null,
    start bigint not null,
    taken timestamptz not null default clock_timestamp()
);

-- State files that belong to the seat.
create table aetheel.seat_file (
    bot bigint not null,
    name text not null,
    body text not null,
    primary key (bot, name)
);

-- Logins to Discord within the last day.
create table aetheel.login (
    bot bigint not null,
    at_ms bigint not null
);
create index login_of on aetheel.login (bot, at_ms);

-- The node of each lane.
create table aetheel.lane (
    bot bigint not null,
    root text not null,
    node text not null,
    -- The label that its node must have, if a running node has it.
    label text,
    -- False until its node has imported the state of the previous one.
    open bool not null default true,
    -- Whether its messages are held back.
    held bool not null default false,
    placed timestamptz not null default clock_timestamp(),
    primary key (bot, root)
);
create index lane_of on aetheel.lane (bot, node, placed);

-- Threads of channels that are roots.
create table aetheel.thread (
    bot bigint not null,
    thread bigint not null,
    root text not null,
    primary key (bot, thread)
);
create index thread_of on aetheel.thread (bot, root);

-- Messages, in the order of their arrival.
create table aetheel.mail (
    bot bigint not null,
    number bigint generated always as identity,
    key text not null,
    -- The receiver: the node that has this lane or, without a lane, this node.
    root text,
    node text,
    kind text not null,
    body text not null,
    -- The time of its acknowledgement. The row stays for a day, so that its key is known.
    done timestamptz,
    primary key (bot, number),
    unique (bot, key),
    check ((root is null) <> (node is null))
);
create index mail_open on aetheel.mail (bot, number) where done is null;
create index mail_done on aetheel.mail (bot, done) where done is not null;

-- The journal of a node, with lines as in state/queue.md.
create table aetheel.journal (
    bot bigint not null,
    node text not null,
    -- The process start that wrote the lines, and the number of its batch.
    start bigint not null,
    batch bigint not null,
    -- The number of the attempt to write them. An attempt that arrives late changes nothing.
    attempt bigint not null,
    lines text not null,
    primary key (bot, node, start, batch)
);

-- The latest state files of a node.
create table aetheel.file (
    bot bigint not null,
    node text not null,
    name text not null,
    body text not null,
    changed timestamptz not null default clock_timestamp(),
    primary key (bot, node, name)
);

-- Components that were sent to all nodes: the latest of each file name. Each node decides by its
-- own rules.
create sequence aetheel.handed;
create table aetheel.component (
    bot bigint not null,
    file text not null,
    -- Later components have higher numbers. Assigned under the bot's lock, so that no node skips
    -- one.
    number bigint not null,
    digest text not null,
    body bytea not null,
    signature bytea,
    -- The sender, and the time.
    from_node text not null,
    handed timestamptz not null default clock_timestamp(),
    primary key (bot, file)
);

-- State that one node transfers to another, until the other one has imported it.
create table aetheel.handover (
    id bigint generated always as identity primary key,
    bot bigint not null,
    from_node text not null,
    to_node text not null,
    roots text[] not null,
    journal text not null,
    -- State files: names and contents.
    names text[] not null,
    bodies text[] not null
);
create index handover_to on aetheel.handover (bot, to_node, id);

-- Waits until no other transaction assigns numbers or moves lanes of the bot.
create function aetheel.alone(of_bot bigint) returns void language sql as $$
    select pg_advisory_xact_lock(of_bot)
$$;

-- Raises an error unless the process has a valid lease. No node can take over from it before the
-- transaction ends.
create function aetheel.fence(of_bot bigint, by_node text, by_start bigint) returns void language plpgsql as $$
begin
    perform from aetheel.node
    where bot = of_bot and name = by_node and start = by_start and lease > clock_timestamp()
    for share;
    if not found then
        raise exception 'this node has lost its place' using errcode = 'AE001';
    end if;
end
$$;

-- Sends a component to all nodes. An operator does this, not a node, so no lease is needed.
create function aetheel.hand_out(
    of_bot bigint, the_file text, the_digest text, the_body bytea, the_signature bytea, by_node text
) returns void language plpgsql as $$
begin
    perform aetheel.alone(of_bot);
    insert into aetheel.component (bot, file, number, digest, body, signature, from_node)
    values (of_bot, the_file, nextval('aetheel.handed'), the_digest, the_body, the_signature, by_node)
    on conflict (bot, file) do update
    set number = excluded.number, digest = excluded.digest, body = excluded.body, signature = excluded.signature,
        from_node = excluded.from_node, handed = excluded.handed;
end
$$;

-- Notifies a node of new messages.
create function aetheel.wake(of_bot bigint, the_node text) returns void language sql as $$
    select pg_notify('aetheel_mail', of_bot || ' ' || the_node)
$$;

-- Returns the best node for a lane: running, with the label, with the most free slots. Reports of
-- free slots are old, so lanes that were assigned since the report are subtracted. A draining node
-- is chosen only if no other runs, and never for a lane that leaves another node (`from_node`).
create function aetheel.home(of_bot bigint, with_label text, from_node text) returns text language sql as $$
    select name from aetheel.node
    where bot = of_bot and lease > clock_timestamp()
      and (from_node is null or name <> from_node and not (draining or drain))
    order by draining or drain,
             with_label is null or with_label = any (labels) desc,
             room - (select count(*) from aetheel.lane
                     where lane.bot = of_bot and lane.node = node.name and lane.placed > node.reported) desc,
             (select count(*) from aetheel.lane where lane.bot = of_bot and lane.node = node.name),
             name
    limit 1
$$;

create function aetheel.post(
    of_bot bigint, by_node text, by_start bigint,
    keys text[], roots text[], threads bigint[], kinds text[], bodies text[], labels text[]
) returns void language plpgsql as $$
declare
    fresh record;
begin
    perform aetheel.alone(of_bot);
    perform aetheel.fence(of_bot, by_node, by_start);
    for fresh in
        select distinct on (letter.root) letter.root, letter.label
        from unnest(roots, labels) with ordinality as letter (root, label, place)
        where not exists (select from aetheel.lane where lane.bot = of_bot and lane.root = letter.root)
        order by letter.root, letter.label is null, letter.place
    loop
        insert into aetheel.lane (bot, root, node, label)
        values (of_bot, fresh.root, aetheel.home(of_bot, fresh.label, null), fresh.label);
    end loop;
    update aetheel.lane set label = wanted.label
    from (select distinct on (letter.root) letter.root, letter.label
          from unnest(roots, labels) with ordinality as letter (root, label, place)
          where letter.label is not null
          order by letter.root, letter.place desc) as wanted
    where lane.bot = of_bot and lane.root = wanted.root and lane.label is distinct from wanted.label;
    insert into aetheel.thread (bot, thread, root)
    select of_bot, letter.thread, letter.root from unnest(threads, roots) as letter (thread, root)
    where letter.thread is not null
    on conflict do nothing;
    insert into aetheel.mail (bot, key, root, kind, body)
    select of_bot, letter.key, letter.root, letter.kind, letter.body
    from unnest(keys, roots, kinds, bodies) with ordinality as letter (key, root, kind, body, place)
    order by letter.place
    on conflict (bot, key) do nothing;
    perform aetheel.wake(of_bot, lane.node) from aetheel.lane
    where lane.bot = of_bot and lane.root = any (roots) group by lane.node;
end
$$;

-- Assigns lanes without a node to a node. Returns those that it has then and whose messages it
-- receives.
create function aetheel.claim(of_bot bigint, by_node text, by_start bigint, roots text[]) returns setof text
language plpgsql as $$
begin
    perform aetheel.alone(of_bot);
    perform aetheel.fence(of_bot, by_node, by_start);
    insert into aetheel.lane (bot, root, node)
    select distinct of_bot, claimed.root, by_node from unnest(roots) as claimed (root)
    on conflict do nothing;
    return query
        select lane.root from aetheel.lane
        where lane.bot = of_bot and lane.node = by_node and lane.root = any (roots) and lane.open and not lane.held;
end
$$;

-- Posts a message to each running node.
create function aetheel.tell_all(
    of_bot bigint, by_node text, by_start bigint, mark text, the_kind text, the_body text
) returns void language plpgsql as $$
begin
    perform aetheel.alone(of_bot);
    perform aetheel.fence(of_bot, by_node, by_start);
    insert into aetheel.mail (bot, key, node, kind, body)
    select of_bot, 'to ' || node.name || ' ' || mark, node.name, the_kind, the_body
    from aetheel.node where node.bot = of_bot and node.lease > clock_timestamp()
    on conflict (bot, key) do nothing;
    perform aetheel.wake(of_bot, node.name) from aetheel.node
    where node.bot = of_bot and node.lease > clock_timestamp();
end
$$;

-- Transfers everything of a node to its heir, which imports it before it receives the messages of
-- the lanes. A machine that takes the name of an earlier one is that one's heir.
create function aetheel.bequeath(of_bot bigint, dead text, heir text) returns void language plpgsql as $$
begin
    insert into aetheel.handover (bot, from_node, to_node, roots, journal, names, bodies)
    select of_bot, dead, heir,
           array(select root from aetheel.lane where bot = of_bot and node = dead order by root),
           coalesce((select string_agg(lines, '' order by start, batch)
                     from aetheel.journal where bot = of_bot and node = dead), ''),
           array(select name from aetheel.file where bot = of_bot and node = dead order by name),
           array(select body from aetheel.file where bot = of_bot and node = dead order by name);
    delete from aetheel.journal where bot = of_bot and node = dead;
    delete from aetheel.file where bot = of_bot and node = dead;
    update aetheel.lane set node = heir, open = false, held = false, placed = clock_timestamp()
    where bot = of_bot and node = dead;
    -- Handovers that it had not imported itself, and messages that were addressed to it.
    update aetheel.handover set to_node = heir where bot = of_bot and to_node = dead;
    update aetheel.mail set node = heir where bot = of_bot and node = dead and done is null;
end
$$;

-- Returns whether a node has anything that another node must take over when it is dead.
create function aetheel.has_something(of_bot bigint, the_node text) returns bool language sql as $$
    select exists (select from aetheel.lane where bot = of_bot and node = the_node)
        or exists (select from aetheel.journal where bot = of_bot and node = the_node)
        or exists (select from aetheel.file where bot = of_bot and node = the_node)
        or exists (select from aetheel.handover where bot = of_bot and to_node = the_node)
$$;

-- Registers a process under its node's name, with a first lease. Returns nothing if another machine
-- has the name.
create function aetheel.enter(
    of_bot bigint, as_name text, as_identity text, seconds float8, as_version text, as_labels text[],
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
        insert into aetheel.node (bot, name, identity, start, lease, version, labels, files, components)
        values (of_bot, as_name, as_identity, nextval('aetheel.start'),
                clock_timestamp() + make_interval(secs => seconds), as_version, as_labels, as_files, as_components)
        on conflict (bot, name) do update
        set start = excluded.start, lease = excluded.lease, joined = excluded.joined, version = excluded.version,
            labels = excluded.labels, files = excluded.files, components = excluded.components,
            room = 0, running = 0, waiting = 0, draining = false, reported = clock_timestamp()
        returning start, notes;
end
$$;

-- Takes over from all nodes whose lease has expired. Returns their number.
create function aetheel.adopt(of_bot bigint, by_node text, by_start bigint) returns bigint language plpgsql as $$
declare
    dead record;
    adopted bigint := 0;
begin
    perform aetheel.alone(of_bot);
    perform aetheel.fence(of_bot, by_node, by_start);
    if exists (select from aetheel.node where bot = of_bot and name = by_node and (drain or draining)) then
        return 0;
    end if;
    for dead in
        select name from aetheel.node
        where bot = of_bot and name <> by_node and lease <= clock_timestamp()
          and aetheel.has_something(of_bot, name)
        -- A node that is still writing is skipped until the next call.
        for update skip locked
    loop
        perform aetheel.bequeath(of_bot, dead.name, by_node);
        -- Writes of the previous process fail from now on.
        update aetheel.node
        set start = nextval('aetheel.start'), drain = false,
            notes = case notes when 'first' then notes else 'adopted' end
        where bot = of_bot and name = dead.name;
        adopted := adopted + 1;
    end loop;
    return adopted;
end
$$;

-- Transfers a lane to the best other node. Returns the lane's node, or null if there is no other.
create function aetheel.hand_over(
    of_bot bigint, by_node text, by_start bigint, the_root text, the_journal text, the_names text[], the_bodies text[]
) returns text language plpgsql as $$
declare
    before record;
    heir text;
begin
    perform aetheel.alone(of_bot);
    perform aetheel.fence(of_bot, by_node, by_start);
    select node, label, open into before from aetheel.lane where bot = of_bot and root = the_root;
    if before.node <> by_node then
        return before.node;
    end if;
    heir := aetheel.home(of_bot, before.label, by_node);
    if heir is null or not before.open then
        return null;
    end if;
    insert into aetheel.handover (bot, from_node, to_node, roots, journal, names, bodies)
    values (of_bot, by_node, heir, array[the_root], the_journal, the_names, the_bodies);
    update aetheel.lane set node = heir, open = false, held = false, placed = clock_timestamp()
    where bot = of_bot and root = the_root;
    perform aetheel.wake(of_bot, heir);
    return heir;
end
$$;

-- Acknowledges a handover that was saved in this node's journal and files. Its lanes get their
-- messages, unless another handover is still open for them. Returns the lanes that are open now.
create function aetheel.taken_in(of_bot bigint, by_node text, by_start bigint, the_id bigint) returns setof text
language plpgsql as $$
declare
    theirs text[];
begin
    perform aetheel.alone(of_bot);
    perform aetheel.fence(of_bot, by_node, by_start);
    delete from aetheel.handover where id = the_id and bot = of_bot and to_node = by_node returning roots into theirs;
    return query
        update aetheel.lane set open = true
        where bot = of_bot and node = by_node and root = any (theirs) and not open
          and not exists (select from aetheel.handover
                          where handover.bot = of_bot and handover.to_node = by_node and lane.root = any (handover.roots))
        returning root;
end
$$;
