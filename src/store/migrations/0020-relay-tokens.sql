-- The token of a relay is valid only for the heartbeats of one pool.
alter table tokens add column pool text;
alter table tokens drop constraint tokens_role_check;
alter table tokens add constraint tokens_role_check check (role in ('viewer', 'operator', 'admin', 'relay'));
alter table tokens add constraint tokens_pool_of_relays check ((role = 'relay') = (pool is not null));
