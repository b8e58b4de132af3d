-- Console sessions live in the store, so that they can be listed and end at once on every replica.
-- The cookie is a random secret; only its hash is stored. A session that ended has no row: evidence
-- says when and why it ended.
create table sessions (
  session_id text primary key,
  secret_hash bytea not null unique,
  token_id text not null references tokens (token_id),
  created_at timestamptz not null,
  last_used_at timestamptz not null,
  expires_at timestamptz not null,
  address text,
  user_agent text
);
create index sessions_by_token on sessions (token_id, last_used_at);

-- Set for admin tokens that a server made or took at its start: `environment` (SLIPWAY_ADMIN_TOKEN)
-- or `file` (admin.token). The next such token replaces it.
alter table tokens add column origin text check (origin in ('environment', 'file', 'unknown'));
-- Earlier servers named such tokens `admin`. The next start with such a token records its origin.
update tokens set origin = 'unknown' where name = 'admin' and role = 'admin' and tenant is null;
