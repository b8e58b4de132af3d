-- Who may be silent for minutes need not be looked for every few seconds. This is the power of two that the stale time reaches: it changes
-- seldom, so that an index can have it and a beat is a HOT update all the same. Where it says 0 nobody has counted yet, and the row is
-- read with the most impatient.
alter table heartbeats add column if not exists patience smallint not null default 0;
