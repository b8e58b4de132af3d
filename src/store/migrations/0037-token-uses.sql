-- When a token was last used. A table of its own, so that a use never touches the row that requests are authorized by.
create table token_uses (
  token_id text primary key references tokens (token_id),
  last_used_at timestamptz not null
);

-- A finding about a token belongs to no pool.
alter table findings alter column pool drop not null;
alter table findings drop constraint findings_kind_check;
alter table findings add constraint findings_kind_check
  check (kind in ('drift', 'repeat-failure', 'boot-shift', 'identity', 'join-token', 'token'));
