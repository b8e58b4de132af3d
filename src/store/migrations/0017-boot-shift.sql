-- Boots that have become slower are something that somebody should know of.
alter table findings drop constraint findings_kind_check;
alter table findings add constraint findings_kind_check check (kind in ('drift', 'repeat-failure', 'boot-shift'));

-- Boots in the order in which they began: of many that begin at once, the quick ones end first, and would seem the former ones.
create index boot_samples_by_start on boot_samples (pool, phase, started_at);
