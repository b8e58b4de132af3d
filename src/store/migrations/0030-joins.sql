-- When a registration last proved the key of the instance. An older proof is refused as a replay.
alter table instances add column key_proven_at timestamptz;

-- Findings: a machine that registers under the name of another, and a join token that expires while
-- machines still send heartbeats with it.
alter table findings drop constraint findings_kind_check;
alter table findings add constraint findings_kind_check
  check (kind in ('drift', 'repeat-failure', 'boot-shift', 'identity', 'join-token'));
