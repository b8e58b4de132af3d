-- Tells an older server at its start whether it can run on this schema.
alter table schema_migrations
  -- A server that knows this schema version runs on the result of the migration.
  add column runs_from integer,
  -- The version of Slipway that applied the migration.
  add column applied_by text;

-- The newest schema version that the replica knows. Null for replicas of 0.1.0.
alter table replicas add column schema_version integer;
