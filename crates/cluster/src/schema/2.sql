-- The second version of the schema: the free slots of a node take into account the lanes that were
-- assigned to it recently.

-- Returns the best node for a lane: running, with the label, with the most free slots. A report of
-- free slots is older than its time: it may lack lanes that were assigned up to two seconds before
-- it, so those are subtracted as well. A draining node is chosen only if no other runs, and never
-- for a lane that leaves another node (`from_node`).
create or replace function aetheel.home(of_bot bigint, with_label text, from_node text) returns text language sql as $$
    select name from aetheel.node
    where bot = of_bot and lease > clock_timestamp()
      and (from_node is null or name <> from_node and not (draining or drain))
    order by draining or drain,
             with_label is null or with_label = any (labels) desc,
             room - (select count(*) from aetheel.lane
                     where lane.bot = of_bot and lane.node = node.name
                       and lane.placed > node.reported - interval '2 seconds') desc,
             (select count(*) from aetheel.lane where lane.bot = of_bot and lane.node = node.name),
             name
    limit 1
$$;
