-- Lines of a node's log, many to a row and compressed. A chunk is known by its last line, since every reader goes on behind a line.
create table node_log_chunks (
  node_instance_id text not null,
  last_seq bigint not null,
  node_id text not null,
  allocation_id text,
  first_seq bigint not null,
  last_at timestamptz not null,
  lines integer not null,
  -- How many lines were cut here: then the chunk is one line, which says so.
  dropped bigint not null default 0,
  raw_bytes integer not null,
  packing text not null check (packing in ('zstd', 'none')),
  content bytea not null,
  primary key (node_instance_id, last_seq)
);
alter table node_log_chunks alter column content set storage external;
create index node_log_chunks_by_node on node_log_chunks (node_id, node_instance_id, last_seq);

-- How far each instance has come. Whoever adds to its log moves this row, so what comes twice is seen, from whichever replica.
create table node_log_ends (
  node_instance_id text primary key references instances (node_instance_id),
  node_id text not null,
  last_seq bigint not null default 0,
  bytes bigint not null default 0,
  -- What came since the limit of the node was last looked at, and since small chunks were last joined.
  unchecked_bytes bigint not null default 0,
  loose_chunks integer not null default 0
);
create index node_log_ends_by_node on node_log_ends (node_id);

insert into node_log_chunks (node_instance_id, last_seq, node_id, allocation_id, first_seq, last_at, lines, raw_bytes, packing, content)
select node_instance_id, max(seq), node_id, allocation_id, min(seq), max(at), count(*), octet_length(string_agg(record, E'\n')), 'none',
  convert_to(string_agg(record, E'\n' order by seq), 'UTF8')
from (
  select *, json_build_object('seq', seq, 'at', to_char(at at time zone 'utc', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'), 'stream', stream, 'line', line)::text as record,
    (place - row_number() over (partition by node_instance_id, allocation_id order by seq)) as island, place / 1000 as portion
  from (select *, row_number() over (partition by node_instance_id order by seq) as place from node_logs) as placed
) as written
group by node_instance_id, node_id, allocation_id, island, portion;

insert into node_log_ends (node_instance_id, node_id, last_seq, bytes)
select node_instance_id, node_id, max(last_seq), sum(octet_length(content)) from node_log_chunks group by node_instance_id, node_id;

drop table node_logs;
