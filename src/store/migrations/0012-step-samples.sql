-- What each step took on each pool: what people are told to expect of the next one comes from here, and from nowhere else.
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

-- The pool that an operation's machine belongs to; null where it is about many.
alter table operations add column pool text;
-- How far it was last told to be. Percent never falls below it, whatever clocks and retries do.
alter table operations add column percent double precision not null default 0;
-- What the pool's earlier runs took, as it was known when the operation was queued: samples that come later move no bar that people watch.
alter table steps add column expected jsonb;
