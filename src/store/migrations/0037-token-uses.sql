-- When a token was last used. This is a separate table, so that a use never writes the row that
-- authorizes requests.
create table token_uses (
  token_id text primary key references tokens (token_id),
  last_used_at timestamptz not null
);

-- A finding about a token belongs to no pool.
alter table findings alter column pool drop not null;
alter table findings drop constraint findings_kind_check;
alter table findings add constraint findings_kind_check
  check (kind in ('drift', 'repeat-failure', 'boot-shift', 'identity', 'join-token', 'token'));
