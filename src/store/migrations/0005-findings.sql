-- What somebody should know: two sides that disagree, or one thing that fails again and again.

create table findings (
  finding_id text primary key,
  kind text not null check (kind in ('drift', 'repeat-failure')),
  -- What exactly, and of whom: a node, an allocation, or a pool's generation.
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
  -- Null as long as it stands. One that was accepted stands until the sides agree, so that it is not found anew.
  closed_at timestamptz,
  actor jsonb,
  reason text
);
create unique index findings_standing on findings (what, subject) where closed_at is null;
create index findings_by_node on findings (node_id, finding_id) where node_id is not null;
create index findings_by_status on findings (status, finding_id);

-- When a machine's provider was last asked for it, by whichever replica.
create table node_looks (
  node_id text primary key,
  looked_at timestamptz not null
) with (fillfactor = 50);

-- Machines that should be there: what drift walks through, however many are retired.
create index nodes_expected on nodes (node_id) where status in ('starting', 'ready', 'degraded', 'offline', 'quarantined');
-- How long something has been fenced or parked is asked with every scrape.
create index nodes_fenced on nodes (pool, status, status_since) where status in ('failed', 'draining', 'cleaning', 'quarantined');
create index allocations_parked on allocations (pool, status_since) where status = 'release_failed';
-- Which machines were given up lately.
create index evidence_failures on evidence (at) where kind = 'node.failed';
