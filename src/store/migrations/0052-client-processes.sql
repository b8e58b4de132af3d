-- Processes of foreign protocols that held the name of this instance, each with its address and the
-- time at which it lost the name. If such a process registers again, two of them are running.
alter table instances add column client_processes jsonb;
