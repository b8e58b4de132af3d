-- online: an index is built while heartbeats and verdicts are written
-- Machines are inspected pool by pool, so that pools without a driver on this replica are not read.
create index concurrently if not exists nodes_expected_in_pool on nodes (pool, node_id)
  where status in ('starting', 'ready', 'degraded', 'offline', 'quarantined');
drop index concurrently if exists nodes_expected;
