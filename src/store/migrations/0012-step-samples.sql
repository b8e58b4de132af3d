-- The duration of each step on each pool. Estimates of step durations come only from these rows.
create table step_samples (
  workflow_id text not null,
  step text not null,
  pool text not null,
  seconds double precision not null,
  at timestamptz not null,
  primary key (workflow_id, step)
);
create index step_samples_by_step on step_samples (pool, step, at desc);
create index step_samples_by_age on step_samples (at);

-- The pool of the operation's machine. Null for an operation on many machines.
alter table operations add column pool text;
-- The last published percentage. A later one is never lower, even after a retry or a clock change.
alter table operations add column percent double precision not null default 0;
-- The durations of the pool's earlier runs when the operation was queued. Later samples do not move
-- a progress bar that somebody watches.
alter table steps add column expected jsonb;
