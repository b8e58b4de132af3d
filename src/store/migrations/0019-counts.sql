-- Counts by status. Triggers write them in the transaction of the change, so that exactly the
-- committed changes are counted, by servers of every version. Each statement adds its own rows, so
-- that no writer waits for another. A job folds them into one row for each combination.
create table counts (
  of text not null check (of in ('nodes', 'allocations', 'operations')),
  pool text,
  zone text,
  status text not null,
  held_rule text,
  held_kind text,
  -- For an allocation: whether it has a node.
  on_node boolean,
  change bigint not null
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000, autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 5000);

create function count_nodes() returns trigger language plpgsql as $$
begin
  if tg_op = 'INSERT' then
    insert into counts select 'nodes', pool, zone, status, held ->> 'rule', held ->> 'kind', null::boolean, count(*) from fresh group by 2, 3, 4, 5, 6;
  elsif tg_op = 'DELETE' then
    insert into counts select 'nodes', pool, zone, status, held ->> 'rule', held ->> 'kind', null::boolean, -count(*) from former group by 2, 3, 4, 5, 6;
  else
    insert into counts select 'nodes', pool, zone, status, held ->> 'rule', held ->> 'kind', null::boolean, sum(change) from (
      select pool, zone, status, held, -1 as change from former union all select pool, zone, status, held, 1 from fresh) moved
    group by 2, 3, 4, 5, 6 having sum(change) <> 0;
  end if;
  return null;
end $$;

create function count_allocations() returns trigger language plpgsql as $$
begin
  if tg_op = 'INSERT' then
    insert into counts select 'allocations', pool, null, status, null, null, node_id is not null, count(*) from fresh group by 2, 4, 7;
  elsif tg_op = 'DELETE' then
    insert into counts select 'allocations', pool, null, status, null, null, node_id is not null, -count(*) from former group by 2, 4, 7;
  else
    insert into counts select 'allocations', pool, null, status, null, null, node_id is not null, sum(change) from (
      select pool, status, node_id, -1 as change from former union all select pool, status, node_id, 1 from fresh) moved
    group by 2, 4, 7 having sum(change) <> 0;
  end if;
  return null;
end $$;

-- Operations change one row at a time, and seldom their status, so their trigger runs for each row.
create function count_operations() returns trigger language plpgsql as $$
begin
  if tg_op <> 'INSERT' then insert into counts (of, status, change) values ('operations', old.status, -1); end if;
  if tg_op <> 'DELETE' then insert into counts (of, status, change) values ('operations', new.status, 1); end if;
  return null;
end $$;

create trigger nodes_counted_in after insert on nodes referencing new table as fresh for each statement execute function count_nodes();
create trigger nodes_counted_out after delete on nodes referencing old table as former for each statement execute function count_nodes();
create trigger nodes_counted after update on nodes referencing old table as former new table as fresh for each statement execute function count_nodes();
create trigger allocations_counted_in after insert on allocations referencing new table as fresh for each statement execute function count_allocations();
create trigger allocations_counted_out after delete on allocations referencing old table as former for each statement execute function count_allocations();
create trigger allocations_counted after update on allocations referencing old table as former new table as fresh for each statement execute function count_allocations();
create trigger operations_counted_in after insert or delete on operations for each row execute function count_operations();
create trigger operations_counted after update on operations for each row when (old.status is distinct from new.status) execute function count_operations();

-- Creating the triggers locks out writers until this migration commits, so that no change is missed
-- or counted twice.
insert into counts select 'nodes', pool, zone, status, held ->> 'rule', held ->> 'kind', null::boolean, count(*) from nodes group by 2, 3, 4, 5, 6;
insert into counts select 'allocations', pool, null, status, null, null, node_id is not null, count(*) from allocations group by 2, 4, 7;
insert into counts select 'operations', null, null, status, null, null, null, count(*) from operations group by status;

-- For pages of one pool, tenant or name, without a read of all rows.
create index allocations_by_pool on allocations (pool, status, allocation_id);
create index allocations_by_name on allocations (name, allocation_id) where name is not null;
create index operations_by_tenant on operations (tenant, workflow_id) where tenant is not null;
-- Nodes that are not retired are found by nodes_live_name. A node enters this index once in its
-- life.
create index nodes_retired_name on nodes (name, node_id) where status = 'retired';
