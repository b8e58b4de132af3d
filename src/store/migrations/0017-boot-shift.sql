-- A finding for boots that have become slower.
alter table findings drop constraint findings_kind_check;
alter table findings add constraint findings_kind_check check (kind in ('drift', 'repeat-failure', 'boot-shift'));

-- Orders boots by their start. If many start at once, the quick ones end first, and in the order of
-- their ends they would look like an earlier, faster group.
create index boot_samples_by_start on boot_samples (pool, phase, started_at);
