-- Seals of the evidence: signed checkpoints over one hash chain per layer
-- (docs/explanation/evidence-integrity.md). Like evidence, they are only added to. No foreign keys:
-- a check would lock the referenced row, which needs the right to update it. The columns beside
-- `body` are copies for look-ups; what counts is the signed body.
create table evidence_checkpoints (
  position bigint primary key,
  kind text not null,
  through_xid xid8 not null,
  through_seq bigint not null,
  body text not null,
  signature bytea not null
);
create index evidence_checkpoints_through on evidence_checkpoints (through_xid, through_seq, position);
create index evidence_checkpoints_cuts on evidence_checkpoints (position) where kind = 'cut';

-- Which rows of a layer a checkpoint seals: cursor, time and hash of each, packed
-- (src/contract/evidence/integrity/entries.ts).
create table evidence_segments (
  layer text not null,
  checkpoint bigint not null,
  entries bytea not null,
  primary key (layer, checkpoint)
);
-- Hashes do not compress.
alter table evidence_segments alter column entries set storage external;

-- Snapshots that retention writes at an earlier position of the evidence. One row each, so that the
-- verifier finds them by that position.
create table evidence_late_rows (
  checkpoint bigint not null,
  layer text not null,
  xid xid8 not null,
  seq bigint not null,
  entry bytea not null
);
create index evidence_late_rows_order on evidence_late_rows (xid, seq);

-- Every public key that ever signed a checkpoint, and the checkpoint that introduced it.
create table evidence_keys (
  kid text primary key,
  public_key text not null,
  checkpoint bigint not null,
  introduced_at timestamptz not null
);

revoke update, delete, truncate on evidence_checkpoints, evidence_segments, evidence_late_rows, evidence_keys
  from public, current_user;
