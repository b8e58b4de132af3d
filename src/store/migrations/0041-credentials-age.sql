-- When the credential of an instance, and the one that is to replace it, stop being accepted. Null: they do not age, which holds for
-- credentials from before this version and for agents that do not say that they rotate theirs.
alter table instances add column credential_expires_at timestamptz;
alter table instances add column next_credential_expires_at timestamptz;
