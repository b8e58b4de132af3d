-- Only replicas that sign their cuts may run retention. A replica of an earlier version that still
-- runs begins its retention with evidence_pieces(), which this migration drops. So its retention
-- fails before it writes anything, and a replica of this version does the work at its next
-- housekeeping.
drop function evidence_pieces();

-- The pieces of each layer. A fact that fits into no piece is in the default partition, `…_rest`.
create function evidence_closed_pieces() returns table (layer text, piece text, until timestamptz)
language sql stable set search_path = public, pg_temp as $$
  select substr(parent.relname, 10), leaf.relname::text,
    (regexp_match(pg_get_expr(leaf.relpartbound, leaf.oid), $re$TO \('([^']+)'\)$re$))[1]::timestamptz
  from pg_partition_tree('evidence') tree
  join pg_class leaf on leaf.oid = tree.relid
  join pg_class parent on parent.oid = tree.parentrelid
  where tree.isleaf and pg_get_expr(leaf.relpartbound, leaf.oid) <> 'DEFAULT'
$$;

-- Unchanged, except that it calls evidence_closed_pieces().
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
  execute format('lock table %I in share update exclusive mode', parent);
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
    -- Told before its piece was there. Nobody may delete evidence, so both are written anew.
    if stray then
      execute format('lock table %I in access exclusive mode', rest);
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

create or replace function evidence_cut(cut_piece text) returns bigint
language plpgsql security definer set search_path = public, pg_temp as $$
declare
  found record;
  facts bigint;
begin
  select * into found from evidence_closed_pieces() where piece = cut_piece;
  if found.piece is null then
    raise exception 'evidence has no piece %', cut_piece;
  end if;
  if found.until > now() - interval '1 day' then
    raise exception 'evidence that is younger than a day is not cut: % goes to %', cut_piece, found.until;
  end if;
  execute format('select count(*) from %I', cut_piece) into facts;
  set local lock_timeout = '2s';
  execute format('drop table %I', cut_piece);
  insert into evidence_cuts (piece, layer, before, cut_at, facts) values (cut_piece, found.layer, found.until, now(), facts);
  return facts;
end $$;

-- A cut commits only together with its signed checkpoint. That is the newest checkpoint, because
-- the chain is locked until the commit. This also stops a replica of an earlier version that had
-- listed the pieces before this migration.
create function evidence_cut_needs_checkpoint() returns trigger
language plpgsql set search_path = public, pg_temp as $$
declare
  newest record;
begin
  select kind, body into newest from evidence_checkpoints order by position desc limit 1;
  if newest.kind is distinct from 'cut'
    or (newest.body::jsonb #>> '{cut,piece}') is distinct from new.piece
    or (newest.body::jsonb #>> '{cut,rows}') is distinct from new.facts::text then
    raise exception 'the evidence piece % was cut without a signed checkpoint; a replica of the present version cuts it', new.piece;
  end if;
  return null;
end $$;

create constraint trigger evidence_cut_needs_checkpoint after insert on evidence_cuts
  deferrable initially deferred
  for each row execute function evidence_cut_needs_checkpoint();
