-- While a restoration is open, the servers only observe.
create table restorations (
  restoration_id text primary key default gen_random_uuid()::text,
  sign text not null,
  -- When the last server before the restore stored heartbeats. Null if none ever did.
  remembers_until timestamptz,
  began_at timestamptz not null,
  -- When every machine that can be inspected had been inspected once.
  inspected_at timestamptz,
  ended_at timestamptz,
  ended_by jsonb,
  end_reason text
);
create unique index restorations_open on restorations ((true)) where ended_at is null;

-- What machines and providers show that differs from the restored rows.
create table restoration_differences (
  restoration_id text not null references restorations on delete cascade,
  -- Which comparison saw it. The next run of the same comparison replaces its differences.
  source text not null,
  kind text not null,
  -- The node, or the resource of a machine that has no node here.
  subject text not null,
  driver text,
  host text,
  node_id text,
  node_instance_id text,
  -- What was seen, for people.
  seen text not null,
  first_seen_at timestamptz not null,
  seen_at timestamptz not null,
  primary key (restoration_id, source, kind, subject)
);
create index restoration_differences_by_node on restoration_differences (restoration_id, node_id);
