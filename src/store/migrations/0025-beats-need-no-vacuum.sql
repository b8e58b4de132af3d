-- A heartbeat is a HOT update: a later update that needs room in the page removes the former
-- version. With the default thresholds, autovacuum would read the heartbeats of a large fleet every
-- minute and find nothing to do.
alter table heartbeats set (autovacuum_vacuum_scale_factor = 20, autovacuum_analyze_scale_factor = 20);
