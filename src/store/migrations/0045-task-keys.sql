-- Task keys rotate: a key is announced when it is created, signs from `signs_from` until its
-- successor does, and is accepted by agents until `retired_at`. Its predecessor signs it
-- (`endorsement`). The private part of a retired key is deleted.
alter table signing_keys add column signs_from timestamptz;
-- The age of existing keys counts from this migration. Agents of earlier versions learn new keys
-- only when they register, so operators get time to upgrade them.
update signing_keys set signs_from = now();
alter table signing_keys alter column signs_from set not null;
alter table signing_keys alter column private_key drop not null;
alter table signing_keys add column endorsed_by text references signing_keys (kid);
alter table signing_keys add column endorsement text;
