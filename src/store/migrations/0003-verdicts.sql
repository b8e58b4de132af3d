-- Columns and tables from which the rules decide, and explain their verdicts.

alter table nodes
  add column clock_from timestamptz,
  add column waiting_for text,
  add column prerequisites text check (prerequisites in ('unchecked', 'met', 'missing')),
  add column would_have jsonb,
  add column drain_then text check (drain_then in ('hold', 'retire')),
  drop column probe_ok_at;
update nodes set clock_from = coalesce(registered_at, created_at);
-- Held nodes are queried often, and usually there are none.
create index nodes_held on nodes (node_id) where held is not null;
create index nodes_by_zone on nodes (zone, status) where zone is not null;
-- Nodes with the verdict that they never reported that they are ready.
create index nodes_never_ready on nodes (pool) where (verdict ->> 'rule') = 'stuck-starting';

-- True for a fenced instance: liveness skips it, and its last heartbeat stays readable.
alter table heartbeats add column over boolean not null default false;

-- Results of the probes, which run before the rules. The rules only read them.
create table probes (
  node_instance_id text primary key references instances (node_instance_id),
  tried_at timestamptz not null,
  ok_at timestamptz,
  failure text
) with (fillfactor = 50);

-- Signs that an instance showed while it booted. Only a sign that is not here yet counts as
-- progress.
create table boot_signs (
  node_instance_id text not null references instances (node_instance_id),
  sign text not null,
  seen_at timestamptz not null,
  primary key (node_instance_id, sign)
);

-- The replica has stored every heartbeat that it received before this time.
alter table replicas add column flushed_through timestamptz;

-- Periods in which no replica could receive heartbeats. One row each, even if several replicas
-- find the same period.
create table ingest_gaps (
  started_at timestamptz primary key,
  ended_at timestamptz not null,
  cause text not null,
  nodes_moved integer not null default 0,
  allocations_moved integer not null default 0
);
create index ingest_gaps_by_end on ingest_gaps (ended_at);

create table brake_holds (
  hold_id text primary key,
  kind text not null check (kind in ('self-fault', 'mass-failure')),
  rule text not null,
  scope text not null check (scope in ('pool', 'zone')),
  name text not null,
  reason text not null,
  negative integer not null,
  population integer not null,
  since timestamptz not null,
  held_until timestamptz not null,
  resumed_at timestamptz,
  resumed_by jsonb,
  ended_at timestamptz
);
create unique index brake_holds_open on brake_holds (kind, rule, scope, name) where ended_at is null;
create index brake_holds_newest on brake_holds (since);

-- The number of negative verdicts of each pass, so that the brake can count the last minute without
-- a read of all nodes.
create table brake_tally (
  at timestamptz not null,
  rule text not null,
  pool text not null,
  zone text,
  verdicts integer not null
);
create index brake_tally_recent on brake_tally (rule, at);

create table maintenance_windows (
  name text primary key,
  pool text,
  zone text,
  labels jsonb not null default '{}',
  starts_at timestamptz not null,
  ends_at timestamptz not null,
  reason text not null,
  actor jsonb,
  created_at timestamptz not null
);

-- One row for each phase of a boot. Budgets are learned from these rows. No foreign keys: a
-- transition inserts hundreds of rows at a time and has already read their instances.
create table boot_samples (
  node_instance_id text not null,
  phase text not null check (phase in ('provision', 'start')),
  node_id text not null,
  pool text not null,
  pool_generation integer not null,
  runtime_class text,
  zone text,
  image text,
  started_at timestamptz not null,
  seconds double precision not null,
  outcome text not null check (outcome in ('completed', 'late', 'timed_out', 'cancelled')),
  lateness_seconds double precision,
  budget_seconds double precision,
  budget_source text,
  at timestamptz not null,
  primary key (node_instance_id, phase)
);
create index boot_samples_by_pool on boot_samples (pool, phase, at);

alter table steps add column within_seconds double precision, add column deadline_at timestamptz;
create index steps_overdue on steps (deadline_at) where status in ('running', 'waiting') and deadline_at is not null;
