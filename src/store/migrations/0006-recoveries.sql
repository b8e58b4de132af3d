-- What a bulk recovery acts on: chosen once, in one statement, and worked off in the order of `ordinal` by whichever replica executes it.

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
-- The rate cap is counted from here, so that it holds over restarts.
create index recovery_targets_acted on recovery_targets (workflow_id, acted_at) where acted_at is not null;
