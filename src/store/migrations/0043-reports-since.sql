-- When the machine went to its present tenant. What it reported before that moment is not stored any more, so that a beat
-- which was received earlier and flushed later cannot show the next tenant what the former one's work said.
alter table heartbeats add column if not exists reports_since timestamptz;
