-- A transaction id orders facts only within one cluster and timeline: in a restored dump the counter starts low, and a standby
-- that is promoted gives ids again that its primary had given. So the column `xid` holds an era in its upper 16 bits and the
-- transaction id below them. Rows written before this migration are of era 0; nothing is rewritten.
create table evidence_eras (
  era bigint primary key,
  -- The system identifier of the cluster in which the era began. Null if the server does not show it.
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

-- Replaced by evidence_begin_era. Pure SQL, so that PostgreSQL inlines it.
create function evidence_era() returns bigint language sql immutable parallel safe as $$ select 0::bigint $$;

-- Facts below this position are settled: no running transaction can add one there. The word for the condition `xid < …`.
create function evidence_settled_below() returns xid8 language sql stable parallel safe as $$
  select (((public.evidence_era() << 48) + pg_snapshot_xmin(pg_current_snapshot())::text::bigint)::text)::xid8
$$;

-- The position of a new fact. A transaction gets its id from its first write on, but it may wait for a row that a younger one
-- changes first. So the newest ended transaction counts if that is newer; never more, so that no fact waits for a later one.
create function evidence_position() returns xid8 language sql volatile as $$
  select (((public.evidence_era() << 48) + greatest(
    pg_current_xact_id()::text::bigint,
    pg_snapshot_xmax(pg_current_snapshot())::text::bigint - 1
  ))::text)::xid8
$$;

-- Begins an era. Only the owner of the functions may. The timeline is read whenever a statement is planned, so a promoted
-- standby is in the next era at once. A session of a standby keeps no plan from before the promotion, because it could not make
-- one. A restore may reset the timeline; the era never gets negative by that, and the next start begins a later one.
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
