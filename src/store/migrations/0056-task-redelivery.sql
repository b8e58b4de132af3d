-- A task whose delivery was lost is handed out again within its lease. `polled_at` is the time of
-- the poll that got the task last, so that a poll never takes a task from a later one.
-- `redeliveries` counts the repeated deliveries of this lease.
alter table tasks add column polled_at timestamptz;
alter table tasks add column redeliveries integer not null default 0;
create index tasks_leased_by_instance on tasks (node_instance_id) where status = 'leased';
