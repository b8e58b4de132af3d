-- online: an index is built while machines beat and are judged
-- Machines are looked at pool by pool: a fleet that no driver here can see is not read through for the few that one can.
create index concurrently if not exists nodes_expected_in_pool on nodes (pool, node_id)
  where status in ('starting', 'ready', 'degraded', 'offline', 'quarantined');
drop index concurrently if exists nodes_expected;
