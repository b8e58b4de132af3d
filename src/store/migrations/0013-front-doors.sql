-- For clients of a foreign protocol: the protocol (`door`), the heartbeat interval that the client
-- announced, and the process that it named. Such a client cannot take an interval that we assign.
alter table instances add column door text;
alter table instances add column announced_interval_seconds double precision;
alter table instances add column client_instance text;
