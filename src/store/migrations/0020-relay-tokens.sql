-- A relay speaks for the machines of one pool, and its token opens nothing else.
alter table tokens add column pool text;
alter table tokens drop constraint tokens_role_check;
alter table tokens add constraint tokens_role_check check (role in ('viewer', 'operator', 'admin', 'relay'));
alter table tokens add constraint tokens_pool_of_relays check ((role = 'relay') = (pool is not null));
