-- Finds the nodes that a tenant holds without a read of all allocations that it ever had.
create index allocations_held on allocations (tenant, node_id) where status <> 'released' and node_id is not null;
