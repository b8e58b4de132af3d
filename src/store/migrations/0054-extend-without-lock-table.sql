-- Up to PostgreSQL 16, LOCK TABLE needs the right to update or delete, which no role has on
-- evidence, not even its owner. So no piece was ever created there. Now an advisory lock makes
-- replicas take turns, and ALTER TABLE locks the tables that it changes.
create or replace function evidence_extend(of_layer text, wanted_until timestamptz) returns text
language plpgsql security definer set search_path = public, pg_temp as $$
declare
  parent text := 'evidence_' || of_layer;
  rest text := parent || '_rest';
  piece_until timestamptz := wanted_until;
  made text;
  piece_since timestamptz;
  newest timestamptz;
  stray boolean;
begin
  if not exists (select from pg_inherits where inhparent = 'evidence'::regclass and inhrelid = to_regclass(parent)) then
    raise exception 'evidence has no layer %', of_layer;
  end if;
  set local lock_timeout = '2s';
  perform pg_advisory_xact_lock(hashtextextended('evidence_extend ' || parent, 0));
  select max(until) into piece_since from evidence_closed_pieces() where layer = of_layer;
  if piece_since >= piece_until then
    return null;
  end if;
  if piece_since is null then
    execute format('select max(at) from %I', rest) into newest;
    piece_until := greatest(piece_until, date_trunc('day', newest, 'UTC') + interval '1 day');
  end if;
  made := format('%s_before_%s', parent, to_char(piece_until at time zone 'UTC', 'YYYYMMDD'));
  if piece_since is null then
    execute format('alter table %I detach partition %I', parent, rest);
    execute format('alter table %I rename to %I', rest, made);
    execute format('alter table %I attach partition %I for values from (minvalue) to (%L)', parent, made, piece_until);
    execute format('create table %I partition of %I default', rest, parent);
  else
    execute format('create table %I (like %I including defaults)', made, parent);
    execute format('select exists (select from %I where at >= %L and at < %L)', rest, piece_since, piece_until) into stray;
    -- Recorded before its piece was there. Nobody may delete evidence, so both are written anew. Detaching locks them.
    if stray then
      execute format('alter table %I detach partition %I', parent, rest);
      execute format('insert into %I select * from %I where at >= %L and at < %L', made, rest, piece_since, piece_until);
      execute format('create table %I (like %I including defaults)', rest || '_anew', parent);
      execute format('insert into %I select * from %I where not (at >= %L and at < %L)', rest || '_anew', rest, piece_since, piece_until);
      execute format('drop table %I', rest);
      execute format('alter table %I rename to %I', rest || '_anew', rest);
      execute format('alter table %I attach partition %I default', parent, rest);
    end if;
    execute format('alter table %I attach partition %I for values from (%L) to (%L)', parent, made, piece_since, piece_until);
  end if;
  execute format('revoke update, delete, truncate on %I, %I from public, current_user', made, rest);
  return made;
end $$;
