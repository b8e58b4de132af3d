-- online: an index is built while heartbeats and verdicts are written
-- An allocation gets the machine that has been free the longest, without a sort of the pool.
create index concurrently if not exists nodes_ready_longest on nodes (pool, status_since) where status = 'ready';
