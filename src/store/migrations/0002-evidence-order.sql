-- A transaction has its id from its first write on, but it may wait for a row that a younger one changes first. Ordered by
-- the bare id, the two changes of that row would be told the wrong way round. So a fact is stamped with the newest
-- transaction that had ended when it was written, if that is newer: what waited for another comes after it. The stamp is
-- never below the own id, so a reader that stays below every running transaction still misses nothing; and never above
-- what has ended, so that no fact waits for a later transaction to become readable.
alter table evidence alter column xid set default
  greatest(pg_current_xact_id(), (pg_snapshot_xmax(pg_current_snapshot())::text::bigint - 1)::text::xid8);
