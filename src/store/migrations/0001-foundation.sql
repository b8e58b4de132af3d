-- The first tables. Callers pass times as parameters.

create table installation (
  singleton boolean primary key default true check (singleton),
  installation_id text not null,
  enrollment_secret bytea not null,
  session_secret bytea not null,
  created_at timestamptz not null
);

create table signing_keys (
  kid text primary key,
  public_key text not null,
  private_key text not null,
  created_at timestamptz not null,
  retired_at timestamptz
);

create table replicas (
  replica_id text primary key,
  epoch bigint not null unique generated always as identity,
  host text not null,
  pid integer not null,
  address text not null,
  version text not null,
  started_at timestamptz not null,
  lease_until timestamptz not null,
  ended_at timestamptz,
  taken_over_by text
);
create index replicas_unfinished on replicas (lease_until) where ended_at is null;

create table tokens (
  token_id text primary key,
  name text not null,
  secret_hash bytea not null unique,
  role text not null check (role in ('viewer', 'operator', 'admin')),
  tenant text,
  created_at timestamptz not null,
  expires_at timestamptz,
  revoked_at timestamptz
);

create table pools (
  name text primary key,
  driver text not null,
  generation integer not null,
  created_at timestamptz not null,
  updated_at timestamptz not null,
  deleted_at timestamptz
);

create table pool_generations (
  pool text not null references pools (name),
  generation integer not null,
  document jsonb not null,
  created_at timestamptz not null,
  primary key (pool, generation)
);

create table join_tokens (
  token_id text primary key,
  pool text not null references pools (name),
  secret_hash bytea not null unique,
  expires_at timestamptz,
  max_uses integer,
  uses integer not null default 0,
  created_at timestamptz not null,
  revoked_at timestamptz
);
create index join_tokens_by_pool on join_tokens (pool);

create table nodes (
  node_id text primary key,
  pool text not null,
  pool_generation integer not null,
  name text not null,
  zone text,
  status text not null check (status in ('provisioning', 'starting', 'ready', 'degraded', 'offline', 'failed', 'draining', 'cleaning', 'quarantined', 'retired')),
  status_since timestamptz not null,
  node_instance_id text,
  workflow_id text,
  correlation_id text,
  registered_at timestamptz,
  deadline_at timestamptz,
  budget_seconds double precision,
  budget_source text,
  requested_provision_seconds double precision,
  endpoint text,
  reported_status text,
  observed_state text,
  observed_at timestamptz,
  probe_ok_at timestamptz,
  held jsonb,
  verdict jsonb,
  restarts integer not null default 0,
  labels jsonb not null default '{}',
  created_at timestamptz not null,
  foreign key (pool, pool_generation) references pool_generations (pool, generation)
);
create unique index nodes_live_name on nodes (pool, name) where status <> 'retired';
create index nodes_due on nodes (status, deadline_at) where deadline_at is not null;
create index nodes_by_pool on nodes (pool, status, node_id);
create index nodes_by_workflow on nodes (workflow_id) where workflow_id is not null;

create table instances (
  node_instance_id text primary key,
  node_id text not null references nodes (node_id),
  attempt integer not null,
  enrollment_token_hash bytea,
  credential_hash bytea unique,
  next_credential_hash bytea unique,
  credential_used_at timestamptz,
  join_token_id text references join_tokens (token_id),
  agent_public_key text,
  agent_version text,
  base_url text,
  driver_state jsonb not null default '{}',
  created_at timestamptz not null,
  registered_at timestamptz,
  registrations integer not null default 0,
  fenced_at timestamptz,
  fence_reason text,
  revoked_at timestamptz
);
create index instances_by_node on instances (node_id, attempt);
create unique index instances_by_enrollment on instances (enrollment_token_hash) where enrollment_token_hash is not null;

-- Narrow, and no index on a column that changes, so that each heartbeat is a HOT update.
create table heartbeats (
  node_instance_id text primary key references instances (node_instance_id),
  last_seen_at timestamptz not null,
  interval_seconds real not null,
  stale_seconds real not null,
  reported jsonb
) with (fillfactor = 50);

create table boot_stages (
  node_instance_id text not null references instances (node_instance_id),
  ordinal integer not null,
  name text not null,
  parent text not null default '',
  seconds double precision not null,
  started_at timestamptz,
  reported_at timestamptz not null,
  primary key (node_instance_id, name, parent)
);

create table allocations (
  allocation_id text primary key,
  pool text not null references pools (name),
  node_id text references nodes (node_id),
  tenant text not null,
  name text,
  status text not null check (status in ('requested', 'provisioning', 'active', 'releasing', 'released', 'failed', 'release_failed')),
  status_since timestamptz not null,
  reason text,
  owner_layer text,
  workflow_id text,
  correlation_id text not null,
  deadline_at timestamptz,
  budget_seconds double precision,
  budget_source text,
  provision_timeout_seconds double precision,
  release_tries integer not null default 0,
  verdict jsonb,
  labels jsonb not null default '{}',
  created_at timestamptz not null,
  active_at timestamptz,
  released_at timestamptz
);
-- One node never serves two allocations. A failed allocation is not in this index: its node has
-- failed as well, and a failed node is not handed out.
create unique index allocations_exclusive on allocations (node_id) where status in ('provisioning', 'active', 'releasing', 'release_failed');
create index allocations_by_node on allocations (node_id) where node_id is not null;
create index allocations_by_tenant on allocations (tenant, allocation_id);
create index allocations_due on allocations (status, deadline_at) where deadline_at is not null;
create index allocations_by_status on allocations (status, allocation_id);

create table operations (
  workflow_id text primary key,
  kind text not null,
  revision integer not null,
  attempt integer not null default 1,
  status text not null check (status in ('queued', 'running', 'succeeded', 'failed', 'cancelling', 'cancelled')),
  node_id text references nodes (node_id),
  node_instance_id text,
  allocation_id text references allocations (allocation_id),
  tenant text,
  correlation_id text not null,
  actor jsonb,
  params jsonb not null default '{}',
  progress jsonb not null default '{}',
  error jsonb,
  replica_id text,
  epoch bigint,
  created_at timestamptz not null,
  started_at timestamptz,
  finished_at timestamptz
);
create index operations_queued on operations (created_at) where status = 'queued';
create index operations_open on operations (replica_id) where status in ('queued', 'running', 'cancelling');
create index operations_by_node on operations (node_id, workflow_id) where node_id is not null;
create index operations_by_allocation on operations (allocation_id, workflow_id) where allocation_id is not null;
create index operations_by_status on operations (status, workflow_id);

create table steps (
  workflow_id text not null references operations (workflow_id),
  ordinal integer not null,
  name text not null,
  label text not null,
  status text not null check (status in ('pending', 'running', 'waiting', 'done', 'skipped', 'failed')),
  tries integer not null default 0,
  usual_seconds double precision,
  started_at timestamptz,
  finished_at timestamptz,
  retry_at timestamptz,
  error jsonb,
  primary key (workflow_id, ordinal),
  unique (workflow_id, name)
);

-- A transition or an insert by a step of an operation. If the step runs again after a crash, its
-- receipt keeps it from making the change again.
create table step_receipts (
  workflow_id text not null references operations (workflow_id),
  receipt text not null,
  result jsonb,
  at timestamptz not null,
  primary key (workflow_id, receipt)
);

create table tasks (
  task_id text primary key,
  node_id text not null references nodes (node_id),
  node_instance_id text not null references instances (node_instance_id),
  type text not null,
  params jsonb not null,
  status text not null check (status in ('queued', 'leased', 'succeeded', 'failed')),
  lease_seconds real not null,
  lease_until timestamptz,
  leases integer not null default 0,
  expires_at timestamptz not null,
  progress jsonb,
  result jsonb,
  error jsonb,
  result_signature text,
  correlation_id text,
  allocation_id text,
  workflow_id text,
  created_at timestamptz not null,
  finished_at timestamptz
);
create index tasks_waiting on tasks (node_instance_id, created_at) where status = 'queued';
create index tasks_leased on tasks (lease_until) where status = 'leased';
create index tasks_open_expiry on tasks (expires_at) where status in ('queued', 'leased');
create index tasks_by_workflow on tasks (workflow_id) where workflow_id is not null;

create table node_logs (
  node_instance_id text not null references instances (node_instance_id),
  seq bigint not null,
  node_id text not null,
  allocation_id text,
  at timestamptz not null,
  stream text not null,
  line text not null,
  primary key (node_instance_id, seq)
);
create index node_logs_by_node on node_logs (node_id, node_instance_id, seq);

create table idempotency_keys (
  token_id text not null,
  key text not null,
  request_hash bytea not null,
  status integer,
  reply jsonb,
  created_at timestamptz not null,
  primary key (token_id, key)
);
create index idempotency_keys_age on idempotency_keys (created_at);

-- Evidence is read in the order of (xid, seq), and only up to the oldest running transaction. A row
-- that commits later is behind all rows that were read.
create sequence evidence_seq;
create table evidence (
  xid xid8 not null default pg_current_xact_id(),
  seq bigint not null default nextval('evidence_seq'),
  at timestamptz not null,
  layer text not null,
  kind text not null,
  summary text not null,
  data jsonb not null default '{}',
  actor jsonb,
  node_id text,
  node_instance_id text,
  correlation_id text,
  allocation_id text,
  workflow_id text
) partition by list (layer);
create index evidence_order on evidence (xid, seq);
create index evidence_by_node on evidence (node_id, xid, seq) where node_id is not null;
create index evidence_by_instance on evidence (node_instance_id, xid, seq) where node_instance_id is not null;
create index evidence_by_correlation on evidence (correlation_id, xid, seq) where correlation_id is not null;
create index evidence_by_allocation on evidence (allocation_id, xid, seq) where allocation_id is not null;
create index evidence_by_workflow on evidence (workflow_id, xid, seq) where workflow_id is not null;
create index evidence_audit on evidence (xid, seq) where actor is not null;

-- Each layer is partitioned by time as well, so that retention drops whole partitions.
do $$
declare layer text;
begin
  foreach layer in array array['node', 'provider', 'api', 'workflow', 'rule', 'operator', 'store', 'transport'] loop
    execute format('create table evidence_%s partition of evidence for values in (%L) partition by range (at)', layer, layer);
    execute format('create table evidence_%s_rest partition of evidence_%s default', layer, layer);
  end loop;
end $$;
