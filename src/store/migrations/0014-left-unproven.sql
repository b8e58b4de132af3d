-- A retry on another machine moves the allocation, the only record that the former machine served a
-- tenant. This column keeps that record with the former machine until a proof about it exists.
alter table instances add column unproven_since timestamptz;
create index instances_unproven on instances (node_id) where unproven_since is not null;
