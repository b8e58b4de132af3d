-- Findings: a difference between two sides, or a failure that repeats.

create table findings (
  finding_id text primary key,
  kind text not null check (kind in ('drift', 'repeat-failure')),
  -- `what` is the check that found it. `subject` is a node, an allocation or a generation of a
  -- pool.
  what text not null,
  subject text not null,
  pool text not null,
  node_id text,
  node_instance_id text,
  allocation_id text,
  ours jsonb not null,
  theirs jsonb not null,
  first_seen_at timestamptz not null,
  seen_at timestamptz not null,
  passes integer not null default 1,
  opened_at timestamptz,
  status text not null check (status in ('seen', 'open', 'resolved', 'repaired', 'accepted')),
  -- Null while the finding stands. An accepted finding stands until the two sides agree, so that it
  -- is not opened again.
  closed_at timestamptz,
  actor jsonb,
  reason text
);
create unique index findings_standing on findings (what, subject) where closed_at is null;
create index findings_by_node on findings (node_id, finding_id) where node_id is not null;
create index findings_by_status on findings (status, finding_id);

-- When a replica last inspected a machine at its provider.
create table node_looks (
  node_id text primary key,
  looked_at timestamptz not null
) with (fillfactor = 50);

-- Nodes whose machine must exist. The drift watcher walks only these, not the retired ones.
create index nodes_expected on nodes (node_id) where status in ('starting', 'ready', 'degraded', 'offline', 'quarantined');
-- Each scrape of the metrics reads how long nodes have been fenced and releases have been failing.
create index nodes_fenced on nodes (pool, status, status_since) where status in ('failed', 'draining', 'cleaning', 'quarantined');
create index allocations_parked on allocations (pool, status_since) where status = 'release_failed';
-- Nodes that failed lately.
create index evidence_failures on evidence (at) where kind = 'node.failed';
