-- The last key of an agent that was proven. While `key_unproven_since` is null it is the present
-- key, or null in rows that were written before this column existed; otherwise it is the one before
-- the key in doubt, and its signatures still count.
alter table instances add column trusted_public_key text;

-- A replica of an earlier version stores another key without judging the change. It does not write
-- `trusted_public_key`, so the new key differs from it: such a key is in doubt, as if this version
-- had taken it without a signature.
create function doubt_unjudged_key() returns trigger language plpgsql as $$
begin
  -- This version vouches for the key, or it is the first one of the instance.
  if new.trusted_public_key is not distinct from new.agent_public_key or old.registered_at is null then
    return new;
  end if;
  new.key_unproven_since := coalesce(new.key_unproven_since, now());
  if old.key_unproven_since is null then
    new.trusted_public_key := old.agent_public_key;
  end if;
  return new;
end $$;

create trigger doubt_unjudged_key before update of agent_public_key on instances
  for each row when (new.agent_public_key is distinct from old.agent_public_key)
  execute function doubt_unjudged_key();
