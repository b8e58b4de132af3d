-- A page is cleared of former versions whenever less of it is free than its fill factor leaves, so one that was filled up to its factor is
-- cleared before nearly every beat: in a large fleet each beat meets another page, and that took a sixth of the flush. A row is now born with as
-- much room as some of its versions take, which the first beat gives up: pages stay half empty, and are cleared once in some twenty beats.
alter table heartbeats add column if not exists room text;
alter table heartbeats set (fillfactor = 80);
