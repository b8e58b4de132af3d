-- Fleets of another kind come in through a front door of their own, in their own words. By which one an instance came, how often it said that
-- it would beat, and which of its processes it said to be: nothing that we assign reaches such a client.
alter table instances add column door text;
alter table instances add column announced_interval_seconds double precision;
alter table instances add column client_instance text;
