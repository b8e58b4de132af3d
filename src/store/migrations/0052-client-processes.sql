-- Processes of other protocols that held the name of this instance, each with its address and until when. A process that was replaced
-- and registers again proves that two of them run.
alter table instances add column client_processes jsonb;
