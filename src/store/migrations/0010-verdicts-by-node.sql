-- Facts of rules about an instance also name its node, and are found by the node. So a batch of
-- hundreds of verdicts need not write this index.
drop index evidence_by_instance;
create index evidence_by_instance on evidence (node_instance_id, xid, seq) where node_instance_id is not null and layer <> 'rule';
