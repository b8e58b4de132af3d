-- Secrets that pools name in their environment. They are encrypted with a key that is in no table
-- (base/credentials/key-ring.ts). `kid` names the key.
create table if not exists secrets (
  name text primary key,
  version integer not null,
  kid text not null,
  -- Nonce, tag and text of AES-256-GCM; the name is the associated data, so a row cannot pass for
  -- another.
  sealed bytea not null,
  created_at timestamptz not null,
  updated_at timestamptz not null,
  last_used_at timestamptz
);
