-- The size of the database, about once an hour, for the forecast of the disk.
create table size_samples (
  sampled_at timestamptz primary key,
  bytes bigint not null,
  -- Nodes that were not retired.
  nodes integer not null
);
