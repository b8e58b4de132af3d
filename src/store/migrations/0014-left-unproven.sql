-- Whoever tries again elsewhere takes the allocation along, and with it the only sign that the machine left behind had served somebody. The sign
-- stays with the machine, until something is proven of it.
alter table instances add column unproven_since timestamptz;
create index instances_unproven on instances (node_id) where unproven_since is not null;
