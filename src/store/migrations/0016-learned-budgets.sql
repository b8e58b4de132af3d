-- The generation since which the pool has its present make (image, spec, class), when an operator
-- last changed its budget or make, and the budget that was learned since.
alter table pools
  add column make_generation integer not null default 1,
  add column budget_said_at timestamptz,
  -- When an operator last changed the fixed number of seconds. That number applies for a day.
  add column number_said_at timestamptz,
  add column learned jsonb;

update pools set budget_said_at = updated_at, make_generation = coalesce((
  select max(former.generation) + 1 from pool_generations former
  join pool_generations present on present.pool = pools.name and present.generation = pools.generation
  where former.pool = pools.name and former.generation < pools.generation
    and (former.document -> 'spec', former.document -> 'runtime_class', former.document -> 'requires')
      is distinct from (present.document -> 'spec', present.document -> 'runtime_class', present.document -> 'requires')), 1);

-- A replica of the previous version does not know the column and still declares pools.
alter table pools alter column budget_said_at set default to_timestamp(0), alter column budget_said_at set not null;

-- Each change of a learned budget. Within 24 hours it may change by at most a quarter.
create table budget_changes (
  pool text not null references pools (name),
  at timestamptz not null,
  from_seconds double precision not null,
  seconds double precision not null,
  primary key (pool, at)
);

-- A what-if reads all recorded boots of a pool.
create index boot_samples_by_seconds on boot_samples (pool, phase, outcome, seconds);
