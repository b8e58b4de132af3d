-- Since when an agent signs with a key that replaced another one without its signature, and that no operator has accepted.
alter table instances add column key_unproven_since timestamptz;
