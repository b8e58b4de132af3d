-- Resources at a provider that have our tags but no live owner: orphans, and resources that a
-- forced release could not prove gone. No foreign keys to nodes and instances: an orphan may never
-- have had a row.
create table residue (
  residue_id text primary key,
  driver text not null,
  pool text,
  host text,
  kind text not null,
  resource text not null,
  node_id text,
  node_instance_id text,
  allocation_id text,
  correlation_id text,
  workflow_id text,
  why text not null check (why in ('force-release', 'orphan')),
  reason text not null,
  forced_by jsonb,
  status text not null default 'open' check (status in ('open', 'gone', 'adopted')),
  since timestamptz not null,
  seen_at timestamptz,
  verified_at timestamptz,
  seen text,
  cost_per_hour double precision,
  settled_at timestamptz,
  settled_by jsonb,
  settled_reason text,
  proof jsonb
);
-- One open entry for each resource, even if several replicas find it.
create unique index residue_open on residue (driver, coalesce(host, ''), resource, coalesce(node_instance_id, '')) where status = 'open';
-- Read for each node that is shown or handed out, to derive its occupancy. Usually there is no row.
create index residue_on_node on residue (node_id) where status = 'open' and why = 'force-release';
create index residue_due on residue (verified_at nulls first) where status = 'open';
create index residue_known on residue (driver, resource) where status <> 'gone';
create index residue_by_instance on residue (node_instance_id) where node_instance_id is not null;
create index residue_by_status on residue (status, residue_id);
