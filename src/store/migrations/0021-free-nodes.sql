-- online: an index is built while machines beat and are judged
-- Whoever asks for a machine gets the one that has been free the longest, without sorting the pool.
create index concurrently if not exists nodes_ready_longest on nodes (pool, status_since) where status = 'ready';
