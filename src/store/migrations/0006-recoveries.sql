-- The targets of a bulk recovery. One statement chooses them. The replica that runs the operation
-- processes them in the order of `ordinal`.

create table recovery_targets (
  workflow_id text not null references operations (workflow_id),
  ordinal integer not null,
  allocation_id text references allocations (allocation_id),
  node_id text references nodes (node_id),
  state text not null check (state in ('waiting', 'acting', 'recovered', 'failed', 'skipped')),
  -- The operation that works on the target since it was acted on.
  act_workflow_id text,
  owner_layer text,
  reason text,
  acted_at timestamptz,
  ended_at timestamptz,
  primary key (workflow_id, ordinal),
  check (allocation_id is not null or node_id is not null)
);
create index recovery_targets_by_state on recovery_targets (workflow_id, state, ordinal);
-- The rate cap counts these rows, so that it also holds after a restart.
create index recovery_targets_acted on recovery_targets (workflow_id, acted_at) where acted_at is not null;
