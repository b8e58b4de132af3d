-- When the machine was handed to its present tenant. Reports from before this time are no longer
-- stored, so that a heartbeat that was received earlier and is flushed later cannot show the
-- present tenant a report about the former one's work.
alter table heartbeats add column if not exists reports_since timestamptz;
