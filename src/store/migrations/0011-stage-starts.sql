-- Where a report says how far into the boot a stage began, and knows no time of day.
alter table boot_stages add column starts_seconds double precision;
