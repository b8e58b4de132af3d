-- A beat is a HOT update: the next one that needs room in its page clears the former away. To vacuum or analyze after a fifth of the
-- rows have changed, as is usual, would read a large fleet's beats every minute and find nothing to do.
alter table heartbeats set (autovacuum_vacuum_scale_factor = 20, autovacuum_analyze_scale_factor = 20);
