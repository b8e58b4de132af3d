-- A transaction id orders facts only within one cluster and timeline: in a restored dump the
-- counter starts low, and a promoted standby gives out ids that its primary had already used. So
-- the column `xid` holds an era in its upper 16 bits and the transaction id in the lower 48. Rows
-- written before this migration are of era 0; nothing is rewritten.
create table evidence_eras (
  era bigint primary key,
  -- The system identifier of the cluster in which the era began. Null if the server does not show
  -- it.
  cluster text,
  -- Null if the server does not show it.
  timeline bigint,
  began_at timestamptz not null default clock_timestamp()
);

create function evidence_wal_timeline() returns bigint language plpgsql as $$
begin
  return ('x' || left(pg_walfile_name('0/1000001'), 8))::bit(32)::bigint;
exception when others then
  return null;
end $$;

create function evidence_cluster() returns text language plpgsql as $$
begin
  return (select system_identifier::text from pg_control_system());
exception when others then
  return null;
end $$;

-- evidence_begin_era() replaces this function. It is written in SQL so that PostgreSQL inlines it.
create function evidence_era() returns bigint language sql immutable parallel safe as $$ select 0::bigint $$;

-- Facts below this position are settled: no running transaction can add one there. Readers select
-- them with `xid < evidence_settled_below()`.
create function evidence_settled_below() returns xid8 language sql stable parallel safe as $$
  select (((public.evidence_era() << 48) + pg_snapshot_xmin(pg_current_snapshot())::text::bigint)::text)::xid8
$$;

-- The position of a new fact. A transaction gets its id at its first write, but may then wait for a
-- row that a younger transaction changes first. So the position is the newest ended transaction, if
-- that is newer than the own one. So no fact waits for a later transaction.
create function evidence_position() returns xid8 language sql volatile as $$
  select (((public.evidence_era() << 48) + greatest(
    pg_current_xact_id()::text::bigint,
    pg_snapshot_xmax(pg_current_snapshot())::text::bigint - 1
  ))::text)::xid8
$$;

-- Begins an era. Only the owner of the functions may call this. The era is computed from the
-- timeline whenever a statement is planned, so a promoted standby is in the next era at once. No
-- session of a standby keeps a plan from before the promotion, because it could not plan the
-- function there. A restore may reset the timeline. The era then stays at 0 or above, and the next
-- start begins a later one.
create function evidence_begin_era(wanted bigint) returns void language plpgsql as $$
declare
  timeline bigint := evidence_wal_timeline();
begin
  execute format(
    'create or replace function evidence_era() returns bigint language sql immutable parallel safe as %L',
    case
      when timeline is null then format('select %s::bigint', wanted)
      else format($f$select greatest(0, %s + ('x' || left(pg_walfile_name('0/1000001'), 8))::bit(32)::bigint)$f$, wanted - timeline)
    end
  );
  -- Locks out writers that still stamp facts with the former era.
  alter table evidence alter column xid set default evidence_position();
  insert into evidence_eras (era, cluster, timeline) values (wanted, evidence_cluster(), timeline);
end $$;

select evidence_begin_era(0);
