-- Seconds from the start of the boot to the start of the stage, for a report that has no time of
-- day.
alter table boot_stages add column starts_seconds double precision;
