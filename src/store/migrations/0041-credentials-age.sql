-- When the present credential of an instance and its successor expire. Null for credentials that do
-- not expire: those from before this version, and those of agents that do not announce that they
-- rotate them.
alter table instances add column credential_expires_at timestamptz;
alter table instances add column next_credential_expires_at timestamptz;
