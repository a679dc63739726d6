-- The second form of the tables: a node's room is counted with what it was given lately.

-- The best node for a lane: living, with the label, with the most room. A report of room is older than
-- it looks: what was placed up to two seconds before it came may not be in it, and counts once more.
-- A node that is to hand over its lanes gets one only where no other lives, and never one that moves
-- away from a node (`from_node`).
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
