-- The time since which an agent signs with a key in doubt. Such a key replaced another one without
-- a signature by the replaced key, and no operator has accepted it.
alter table instances add column key_unproven_since timestamptz;
