-- When the key of an instance was last proven in a registration: an older proof is a recording.
alter table instances add column key_proven_at timestamptz;

-- Machines that ask for the name of another, and join tokens that expire while machines beat with them.
alter table findings drop constraint findings_kind_check;
alter table findings add constraint findings_kind_check
  check (kind in ('drift', 'repeat-failure', 'boot-shift', 'identity', 'join-token'));
