-- What a pool makes (image, spec, class) since which generation, when an operator last spoke of its budget or make, and what its
-- boots have taught since.
alter table pools
  add column make_generation integer not null default 1,
  add column budget_said_at timestamptz,
  -- When an operator last gave a pool another number; it stands for a day.
  add column number_said_at timestamptz,
  add column learned jsonb;

update pools set budget_said_at = updated_at, make_generation = coalesce((
  select max(former.generation) + 1 from pool_generations former
  join pool_generations present on present.pool = pools.name and present.generation = pools.generation
  where former.pool = pools.name and former.generation < pools.generation
    and (former.document -> 'spec', former.document -> 'runtime_class', former.document -> 'requires')
      is distinct from (present.document -> 'spec', present.document -> 'runtime_class', present.document -> 'requires')), 1);

-- A replica of the version before, which does not know the column, goes on declaring pools.
alter table pools alter column budget_said_at set default to_timestamp(0), alter column budget_said_at set not null;

-- Each move of a learned budget: no more than a quarter of it in any 24 hours.
create table budget_changes (
  pool text not null references pools (name),
  at timestamptz not null,
  from_seconds double precision not null,
  seconds double precision not null,
  primary key (pool, at)
);

-- What another budget would have done is asked of all recorded boots of a pool.
create index boot_samples_by_seconds on boot_samples (pool, phase, outcome, seconds);
