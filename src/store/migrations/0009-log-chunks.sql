-- Chunks of log lines, compressed. The key is the last line of the chunk, because a reader
-- continues after a line.
create table node_log_chunks (
  node_instance_id text not null,
  last_seq bigint not null,
  node_id text not null,
  allocation_id text,
  first_seq bigint not null,
  last_at timestamptz not null,
  lines integer not null,
  -- The number of lines that were deleted here. If it is not 0, one line that says so is the chunk.
  dropped bigint not null default 0,
  raw_bytes integer not null,
  packing text not null check (packing in ('zstd', 'none')),
  content bytea not null,
  primary key (node_instance_id, last_seq)
);
alter table node_log_chunks alter column content set storage external;
create index node_log_chunks_by_node on node_log_chunks (node_id, node_instance_id, last_seq);

-- The last stored line of each instance. Each writer updates this row, so that lines sent twice are
-- detected, also by another replica.
create table node_log_ends (
  node_instance_id text primary key references instances (node_instance_id),
  node_id text not null,
  last_seq bigint not null default 0,
  bytes bigint not null default 0,
  -- Bytes since the limit of the node was last checked, and chunks since small ones were last
  -- joined.
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
