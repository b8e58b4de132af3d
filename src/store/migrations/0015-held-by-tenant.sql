-- A tenant's share of the fleet is found by what it holds, and not by all it ever had.
create index allocations_held on allocations (tenant, node_id) where status <> 'released' and node_id is not null;
