-- Whatever a rule tells of an instance it tells of its node as well, and is found by that; hundreds of verdicts at once need not keep
-- a second order of the same facts.
drop index evidence_by_instance;
create index evidence_by_instance on evidence (node_instance_id, xid, seq) where node_instance_id is not null and layer <> 'rule';
