-- A transaction gets its id at its first write, but may then wait for a row that a younger
-- transaction changes first. Ordered by transaction id, the two changes of that row would be
-- reversed. So the stamp of a fact is the newest transaction that had ended when the statement
-- began, if that id is higher than the own one. The stamp is never below the own id, so a reader
-- that stays below every running transaction misses no fact. It is raised only to an ended
-- transaction, so no fact waits for a later transaction.
alter table evidence alter column xid set default
  greatest(pg_current_xact_id(), (pg_snapshot_xmax(pg_current_snapshot())::text::bigint - 1)::text::xid8);
