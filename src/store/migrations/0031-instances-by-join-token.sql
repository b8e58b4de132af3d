-- online: an index is built while heartbeats are written
-- Finds machines of foreign protocols that send heartbeats with a join token that soon expires.
create index concurrently if not exists instances_by_join_token on instances (join_token_id) where door is not null and fenced_at is null;
