-- The fifth version of the schema: a machine whose agents outlived its lease gets its lanes back.
--
-- A lane in which a turn had begun waits at its new node (`lane.waits_for`). If the machine returns
-- with the agent of that turn, it marks the lane as wanted, and the new node gives it back. Whether
-- the lane is given back or opened at the new node is decided once, under the bot's lock.

-- Whether the machine that the lane waits for runs again and still has a turn of the lane.
alter table aetheel.lane add column wanted bool not null default false;

-- Returns whether an agent may still run in a lane on another machine than that of its node.
create function aetheel.waits(its aetheel.lane) returns bool language sql as $$
    select case when its.wanted
        then exists (select from aetheel.node
                     where node.bot = its.bot and node.identity = its.waits_for and node.name <> its.node
                       and greatest(node.lease, node.turns) > clock_timestamp())
        else coalesce(its.waits_until > clock_timestamp(), false)
    end
$$;

-- Acknowledges a handover that was saved in this node's journal and files. Its lanes get their
-- messages, unless another handover is still open for them, or turns had begun in them (`begun`)
-- whose agents may still run. Returns the lanes that were opened.
create or replace function aetheel.taken_in(of_bot bigint, by_node text, by_start bigint, the_id bigint, begun text[])
returns setof text language plpgsql as $$
declare
    theirs text[];
begin
    perform aetheel.alone(of_bot);
    perform aetheel.fence(of_bot, by_node, by_start);
    delete from aetheel.handover where id = the_id and bot = of_bot and to_node = by_node returning roots into theirs;
    return query
        update aetheel.lane set open = true, waits_for = null, waits_until = null, wanted = false
        where bot = of_bot and node = by_node and root = any (theirs) and not open
          and not (root = any (begun) and aetheel.waits(lane))
          and not exists (select from aetheel.handover
                          where handover.bot = of_bot and handover.to_node = by_node and lane.root = any (handover.roots))
        returning root;
end
$$;

-- Opens lanes in which no agent of another machine can run any more. Returns them.
create or replace function aetheel.open_waited(of_bot bigint, by_node text, by_start bigint) returns setof text
language plpgsql as $$
begin
    perform aetheel.alone(of_bot);
    perform aetheel.fence(of_bot, by_node, by_start);
    return query
        update aetheel.lane set open = true, waits_for = null, waits_until = null, wanted = false
        where bot = of_bot and node = by_node and not open and waits_for is not null and not aetheel.waits(lane)
          and not exists (select from aetheel.handover
                          where handover.bot = of_bot and handover.to_node = by_node and lane.root = any (handover.roots))
        returning root;
end
$$;

-- Gives a lane back to the machine that wants it. Returns the lane's node, or null if it stays here.
create function aetheel.give_back(
    of_bot bigint, by_node text, by_start bigint, the_root text, the_journal text, the_names text[], the_bodies text[]
) returns text language plpgsql as $$
declare
    before record;
begin
    perform aetheel.alone(of_bot);
    perform aetheel.fence(of_bot, by_node, by_start);
    select lane.node, not lane.open and lane.wanted as wanted, home.name as home into before
    from aetheel.lane
    left join aetheel.node as home
        on home.bot = of_bot and home.identity = lane.waits_for and home.lease > clock_timestamp()
    where lane.bot = of_bot and lane.root = the_root;
    if before.node <> by_node then
        return before.node;
    end if;
    if not before.wanted or before.home is null or before.home = by_node
        or exists (select from aetheel.handover
                   where bot = of_bot and to_node = by_node and the_root = any (roots)) then
        return null;
    end if;
    insert into aetheel.handover (bot, from_node, to_node, roots, journal, names, bodies)
    values (of_bot, by_node, before.home, array[the_root], the_journal, the_names, the_bodies);
    update aetheel.lane
    set node = before.home, open = false, held = false, placed = clock_timestamp(),
        waits_for = null, waits_until = null, wanted = false
    where bot = of_bot and root = the_root;
    perform aetheel.wake(of_bot, before.home);
    return before.home;
end
$$;
