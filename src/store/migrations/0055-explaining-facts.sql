-- The facts that explain the status of a node. Without these indexes an explanation reads every
-- fact that the machine ever posted. The kinds are those of `citedKinds` in
-- store/evidence/explanation-evidence.ts; a test compares them. The lists are plpgsql functions,
-- because PostgreSQL does not inline those. With inlined lists, most of the planning time went into
-- the proof that a query implies the condition of the index. Never replace these functions:
-- existing rows would be missing in the index. To change a list, create a new function and a new
-- index.
create function evidence_explains(kind text) returns boolean
language plpgsql immutable parallel safe as $$
begin
  return kind in (
    'beat.refused', 'evidence.dropped', 'node.cleaning', 'node.deadline_moved', 'node.degraded',
    'node.draining', 'node.explained', 'node.failed', 'node.held', 'node.observed', 'node.offline',
    'node.provisioning', 'node.quarantined', 'node.ready', 'node.retired', 'node.starting', 'node.would_have',
    'probe.answered', 'probe.unanswered', 'residue.adopted', 'residue.gone', 'verdict.unwritable'
  );
end $$;
create function evidence_is_reported_cause(kind text) returns boolean
language plpgsql immutable parallel safe as $$
begin
  return kind in ('bootstrap.diagnosis', 'prerequisite.missing');
end $$;
create index evidence_explaining on evidence (node_id, xid, seq) where evidence_explains(kind);
create index evidence_reported on evidence (node_id, xid, seq) where evidence_is_reported_cause(kind);
