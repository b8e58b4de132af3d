/**
 * Builds the content of a release certificate from evidence: how an allocation was used and
 * released.
 */
import { createHash } from 'node:crypto';
import { moment } from '../../base/clock.ts';
import type { AllocationId } from '../../base/ids.ts';
import { canonicalJson } from '../../contract/canonical-json.ts';
import type { Certificate } from '../../contract/evidence/certificate.ts';
import type { EvidenceLayer } from '../../contract/evidence/evidence.ts';
import { microseconds, type RowText } from '../../contract/evidence/integrity/row-hash.ts';
import { maskPool } from '../../contract/pool-fields/masked.ts';
import { isSettledSql } from '../evidence/commit-order.ts';
import { recordedByServerSql } from '../evidence/own-facts.ts';
import { rowTextColumns } from '../integrity/row-text.ts';
import type { Queryable } from '../pg/database.ts';
import type { AllocationRow } from '../rows/allocations.ts';
import { allocations, changesRow } from './projection.ts';
import { readNewestCut } from './retention.ts';

const maxInstances = 100;
const maxProofs = 100;
const maxResidue = 1_000;

/** The columns of the allocation that appear in the certificate. */
type CertifiedRow = Pick<
  AllocationRow,
  | 'allocation_id'
  | 'correlation_id'
  | 'tenant'
  | 'pool'
  | 'node_id'
  | 'created_at'
  | 'active_at'
  | 'released_at'
  | 'status'
  | 'status_since'
>;

const certifiedFields = [
  'allocation_id',
  'correlation_id',
  'tenant',
  'pool',
  'node_id',
  'status',
  'created_at',
  'active_at',
  'released_at',
  'status_since',
] as const satisfies readonly (keyof CertifiedRow)[];

/** The facts that a certificate is based on. None is newer than the release. */
export interface ReleaseFacts {
  released: RowText;
  /** For each certified field the fact that last set it, in commit order. */
  changes: RowText[];
  /** At most the newest `maxProofs`, in commit order. */
  proofs: RowText[];
  /** One fact for each of the newest `maxInstances` instances that ran for the allocation. */
  machines: RowText[];
}

/**
 * Returns undefined until the release is settled, and after retention has dropped it. Only facts of
 * the server itself count, because machines and people can post facts too. Facts after the release
 * do not count, because anyone with write access to the database can append a row, which is then
 * sealed like any other.
 */
export async function readReleaseFacts(db: Queryable, allocation_id: string): Promise<ReleaseFacts | undefined> {
  const [released] = await db.query<RowText>(
    `select ${rowTextColumns}
     from evidence
     where allocation_id = $1
       and kind = 'allocation.released'
       and ${recordedByServerSql('evidence')}
       and ${isSettledSql}
     -- An allocation is released once. A forged second release must not extend the range of facts.
     order by evidence.xid, evidence.seq
     limit 1`,
    [allocation_id],
  );
  if (!released) return undefined;
  const end = [released.xid, released.seq];
  const changes = await db.query<RowText>(
    `with newest as (
       select distinct on (field) evidence.xid, evidence.seq, evidence.layer
       from evidence
       cross join unnest($4::text[]) as wanted(field)
       where allocation_id = $1
         and ${changesRow(allocations, 'evidence')}
         and data -> 'set' ? field
         and (xid, seq) <= ($2::xid8, $3::bigint)
       order by field, evidence.xid desc, evidence.seq desc
     )
     select ${rowTextColumns}
     from evidence
     where allocation_id = $1
       and (xid, seq, layer) in (select newest.xid, newest.seq, newest.layer from newest)
     order by evidence.xid, evidence.seq`,
    [allocation_id, ...end, certifiedFields],
  );
  const proofs = await db.query<RowText>(
    `select ${rowTextColumns}
     from evidence
     where allocation_id = $1
       and kind in ('proof.absent', 'proof.clean', 'proof.revoked')
       -- The server records proofs of providers itself, those of nodes after checking the signature.
       and ((layer = 'provider' and origin in ('internal', 'unknown'))
         or (layer = 'node' and origin in ('report', 'unknown')))
       -- The server records a proof before it releases, so a later proof is forged.
       and (xid, seq) < ($2::xid8, $3::bigint)
     order by evidence.xid desc, evidence.seq desc
     limit ${maxProofs}`,
    [allocation_id, ...end],
  );
  const machines = await db.query<RowText>(
    `select distinct on (node_instance_id) ${rowTextColumns}
     from evidence
     where allocation_id = $1
       and node_instance_id is not null
       and ${recordedByServerSql('evidence')}
       and (xid, seq) <= ($2::xid8, $3::bigint)
     -- Ids sort by creation time.
     order by node_instance_id desc, evidence.xid, evidence.seq
     limit ${maxInstances}`,
    [allocation_id, ...end],
  );
  return { released, changes, proofs: proofs.toReversed(), machines };
}

const proofLayers: readonly EvidenceLayer[] = ['provider', 'node'];

/**
 * Whether retention may have dropped a proof of the release. The releasing operation recorded its
 * proofs, so only evidence since the creation of that operation is needed, however old the
 * allocation is. Call this after reading the facts, or a cut in between goes unnoticed.
 */
export async function areProofsCut(
  db: Queryable,
  { created_at, node_id }: CertifiedRow,
  { released }: ReleaseFacts,
): Promise<boolean> {
  if (node_id === null) return false;
  const cut = await readNewestCut(db, proofLayers);
  if (cut === null) return false;
  const [operation] = await db.query<{ created_at: Date }>('select created_at from operations where workflow_id = $1', [
    released.workflow_id,
  ]);
  return cut > (operation?.created_at ?? created_at);
}

interface InstanceRow {
  node_id: string;
  node_instance_id: string;
  created_at: Date;
  fenced_at: Date | null;
  driver: string | null;
  spec: Record<string, unknown> | null;
}

/**
 * Masks variables, scripts and commands, which may contain secrets: a digest over them would
 * confirm a guessed value.
 */
function maskSecrets(db: Queryable, spec: Record<string, unknown>): unknown {
  return JSON.parse(db.redact.json(JSON.stringify(maskPool({ spec }).spec)));
}

async function readInstances(
  db: Queryable,
  allocation: CertifiedRow,
  machines: readonly RowText[],
): Promise<Certificate['instances']> {
  const rows = await db.query<InstanceRow>(
    `select instance.node_id, instance.node_instance_id, instance.created_at, instance.fenced_at,
       generation.document ->> 'driver' as driver, generation.document -> 'spec' as spec
     from instances instance
     -- The generation of the pool from which the instance was made.
     left join lateral (
       select document from pool_generations
       where pool = $2
         and created_at <= instance.created_at
       order by generation desc
       limit 1
     ) generation on true
     where instance.node_instance_id = any($1)
     order by instance.created_at, instance.node_instance_id
     limit ${maxInstances}`,
    [machines.map(({ node_instance_id }) => node_instance_id), allocation.pool],
  );
  const { created_at, released_at } = allocation;
  return rows.map((row) => {
    const spec = row.driver === null ? null : maskSecrets(db, row.spec ?? {});
    const image = typeof row.spec?.image === 'string' ? db.redact.text(row.spec.image) : null;
    const ends = [row.fenced_at, released_at].filter((date) => date !== null).sort((a, b) => a.getTime() - b.getTime());
    return {
      node_id: row.node_id,
      node_instance_id: row.node_instance_id,
      driver: row.driver,
      image,
      spec_sha256: spec === null ? null : createHash('sha256').update(canonicalJson(spec)).digest('hex'),
      // The certificate covers only this allocation; a reused machine also ran before and after.
      from: (row.created_at > created_at ? row.created_at : created_at).toISOString(),
      until: ends[0]?.toISOString() ?? null,
    };
  });
}

const toProofs = (rows: readonly RowText[]): Certificate['proofs'] =>
  rows.map(({ kind, data, at, node_instance_id, workflow_id, layer, xid, seq }) => {
    const { by = 'driver' } = JSON.parse(data) as { by?: string };
    return {
      kind: kind.slice('proof.'.length),
      by,
      at: moment(Number(microseconds(at) / 1000n)).toISOString(),
      node_instance_id,
      workflow_id,
      partition: layer,
      cursor: `${xid}-${seq}`,
    };
  });

const readResidue = (db: Queryable, allocation_id: AllocationId): Promise<Certificate['residue']> =>
  db.query(
    `select residue_id, kind, resource, status
     from residue
     where allocation_id = $1
       and why = 'force-release'
     order by residue_id
     limit ${maxResidue}`,
    [allocation_id],
  );

export type ReleaseRecord = Omit<Certificate, 'type' | 'installation' | 'chain' | 'issued_at' | 'kid' | 'signature'>;

const isTime = (field: string): boolean => /_(?:at|since)$/.test(field);

/**
 * Returns the first field in which the row differs from its facts, which means that someone changed
 * the row directly in the database.
 */
export function findChangedField(row: CertifiedRow, changes: readonly RowText[]): string | undefined {
  const facts = Object.assign({}, ...changes.map(({ data }) => (JSON.parse(data) as { set: object }).set));
  // Compare times as numbers, because their texts may have different numbers of digits.
  const comparable = (field: string, value: unknown): unknown =>
    isTime(field) && typeof value === 'string' ? Date.parse(value) : (value ?? null);
  const stored = JSON.parse(JSON.stringify(row)) as Record<string, unknown>;
  return certifiedFields.find((field) => comparable(field, stored[field]) !== comparable(field, facts[field]));
}

/** Before the call, compare the facts with their seals and with the row. */
export async function buildReleaseRecord(
  db: Queryable,
  allocation: CertifiedRow,
  facts: ReleaseFacts,
): Promise<ReleaseRecord> {
  const proofs = toProofs(facts.proofs);
  const residue = await readResidue(db, allocation.allocation_id);
  const { workflow_id } = facts.released;
  const isProven = workflow_id !== null && proofs.some((proof) => proof.workflow_id === workflow_id);
  return {
    allocation_id: allocation.allocation_id,
    correlation_id: allocation.correlation_id,
    tenant: allocation.tenant,
    pool: allocation.pool,
    node_id: allocation.node_id,
    requested_at: allocation.created_at.toISOString(),
    active_at: allocation.active_at?.toISOString() ?? null,
    released_at: (allocation.released_at ?? allocation.status_since).toISOString(),
    release: isProven ? 'proven' : allocation.node_id === null ? 'no_machine' : 'unproven',
    instances: await readInstances(db, allocation, facts.machines),
    proofs,
    residue,
  };
}
