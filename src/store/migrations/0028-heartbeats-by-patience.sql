-- online: an index is built while heartbeats are written
create index concurrently if not exists heartbeats_by_patience on heartbeats (patience) where not over;
