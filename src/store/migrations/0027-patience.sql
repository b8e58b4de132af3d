-- The exponent of the largest power of two within the stale time in seconds. A sweep scans nodes
-- with a long stale time less often. The exponent seldom changes, so that it can be indexed and a
-- heartbeat is still a HOT update. 0 also means that no exponent is stored yet; such rows are
-- scanned most often.
alter table heartbeats add column if not exists patience smallint not null default 0;
