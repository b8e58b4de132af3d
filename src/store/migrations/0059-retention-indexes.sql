-- online
-- Retention walks ended rows in the order of their ids, and checks foreign keys when it deletes
-- them. Without these indexes each check would read the whole table.
create index concurrently if not exists instances_ended on instances (node_instance_id) where fenced_at is not null;

create index concurrently if not exists nodes_ended on nodes (node_id) where status = 'retired';

create index concurrently if not exists recovery_targets_by_allocation on recovery_targets (allocation_id) where allocation_id is not null;

create index concurrently if not exists recovery_targets_by_node on recovery_targets (node_id) where node_id is not null;

create index concurrently if not exists tasks_by_node on tasks (node_id);

create index concurrently if not exists tasks_by_instance on tasks (node_instance_id);
