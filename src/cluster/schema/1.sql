-- The first form of the tables. A form is never changed once it was released: what comes next is another file.

-- Numbers of process starts: a node is another one each time it starts.
create sequence aetheel.start;

-- Each node that ever joined, under its name.
create table aetheel.node (
    name text primary key,
    -- Which machine has the name: made at its first start, kept in its state folder.
    identity text not null,
    start bigint not null,
    lease timestamptz not null,
    joined timestamptz not null default now(),
    version text not null
);

-- Who serves a bot: holds Discord's gateway connection, and runs its turns.
create table aetheel.seat (
    bot bigint primary key,
    node text not null,
    start bigint not null,
    taken timestamptz not null default now(),
    -- The node whose state files are those of the bot: none before the first one, and another one
    -- than serves while a node takes them over.
    files_of text
);

-- The journal of a bot: lines as in state/queue.md.
create table aetheel.journal (
    bot bigint not null,
    -- Which process start wrote them, and which of its batches they are.
    start bigint not null,
    batch bigint not null,
    -- Which try to write them; one that comes late changes nothing.
    attempt bigint not null,
    lines text not null,
    primary key (bot, start, batch)
);

-- State files of the node that serves, as they were last.
create table aetheel.file (
    bot bigint not null,
    name text not null,
    body text not null,
    changed timestamptz not null default now(),
    primary key (bot, name)
);
