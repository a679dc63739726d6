-- The sixth version of the schema: components are no longer sent through the database.
--
-- Nodes of earlier versions read `component` with each renewal of their lease, so the table stays,
-- empty, and `hand_out` refuses the commands of those versions.

delete from aetheel.component;

-- Refuses a component that a command of an earlier version sends to all nodes.
create or replace function aetheel.hand_out(
    of_bot bigint, the_file text, the_digest text, the_body bytea, the_signature bytea, by_node text
) returns void language plpgsql as $$
begin
    raise exception 'a newer Aetheel uses it, which does not accept backends for all nodes; run `aetheel backend install` on each machine'
        using errcode = '22023';
end
$$;

drop sequence aetheel.handed;
