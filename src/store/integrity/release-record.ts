/** What evidence says about the life and the release of an allocation: the content of its certificate. */
import { createHash } from 'node:crypto';
import type { AllocationId } from '../../base/ids.ts';
import { canonicalJson } from '../../contract/canonical-json.ts';
import type { Certificate } from '../../contract/certificate.ts';
import type { AllocationRow } from '../allocations.ts';
import type { Queryable } from '../database.ts';
import type { Cursor } from '../evidence.ts';

const maxInstances = 100;
const maxProofs = 100;
const maxResidue = 1_000;

export interface ReleaseFact extends Cursor {
  layer: string;
  workflow_id: string | null;
}

/** The last one: an allocation is released once, and a snapshot may repeat it. */
export async function releaseFact(db: Queryable, allocation_id: string): Promise<ReleaseFact | undefined> {
  const [row] = await db.query<ReleaseFact>(
    `select xid::text as xid, seq::text as seq, layer, workflow_id from evidence
     where allocation_id = $1 and kind = 'allocation.released'
       and xid < pg_snapshot_xmin(pg_current_snapshot())
     order by evidence.xid desc, evidence.seq desc limit 1`,
    [allocation_id],
  );
  return row;
}

interface InstanceRow {
  node_id: string;
  node_instance_id: string;
  created_at: Date;
  fenced_at: Date | null;
  driver: string | null;
  spec: Record<string, unknown> | null;
}

/** Variables may hold secrets, so only their names enter the digest. */
function withoutSecrets(db: Queryable, spec: Record<string, unknown>): unknown {
  const { env, ...rest } = spec;
  const names = typeof env === 'object' && env !== null ? Object.keys(env).sort() : [];
  return JSON.parse(db.redact.json(JSON.stringify({ ...rest, env: names })));
}

async function instancesOf(db: Queryable, allocation: AllocationRow): Promise<Certificate['instances']> {
  const rows = await db.query<InstanceRow>(
    `select instance.node_id, instance.node_instance_id, instance.created_at, instance.fenced_at,
       generation.document ->> 'driver' as driver, generation.document -> 'spec' as spec
     from (select distinct node_instance_id from evidence
           where allocation_id = $1 and node_instance_id is not null) ran
     join instances instance using (node_instance_id)
     -- The pool as it was when the instance was made.
     left join lateral (
       select document from pool_generations
       where pool = $2 and created_at <= instance.created_at
       order by generation desc limit 1) generation on true
     order by instance.created_at, instance.node_instance_id
     limit ${maxInstances}`,
    [allocation.allocation_id, allocation.pool],
  );
  const { created_at, released_at } = allocation;
  return rows.map((row) => {
    const spec = row.driver === null ? null : withoutSecrets(db, row.spec ?? {});
    const image = typeof row.spec?.image === 'string' ? db.redact.text(row.spec.image) : null;
    const end = [row.fenced_at, released_at].filter((date) => date !== null).sort((a, b) => a.getTime() - b.getTime());
    return {
      node_id: row.node_id,
      node_instance_id: row.node_instance_id,
      driver: row.driver,
      image,
      spec_sha256: spec === null ? null : createHash('sha256').update(canonicalJson(spec)).digest('hex'),
      // A machine that is used again ran before and after; the certificate is about this tenant's time.
      from: (row.created_at > created_at ? row.created_at : created_at).toISOString(),
      until: end[0]?.toISOString() ?? null,
    };
  });
}

async function proofsOf(db: Queryable, allocation_id: AllocationId): Promise<Certificate['proofs']> {
  const rows = await db.query<Omit<Certificate['proofs'][number], 'at'> & { at: Date }>(
    `select substr(kind, 7) as kind, coalesce(data ->> 'by', 'driver') as by, at, node_instance_id, workflow_id,
       layer as partition, xid || '-' || seq as cursor
     from evidence
     where allocation_id = $1 and kind in ('proof.absent', 'proof.clean', 'proof.revoked')
       and layer in ('provider', 'node')
     order by evidence.xid, evidence.seq limit ${maxProofs}`,
    [allocation_id],
  );
  return rows.map((row) => ({ ...row, at: row.at.toISOString() }));
}

const residueOf = (db: Queryable, allocation_id: AllocationId): Promise<Certificate['residue']> =>
  db.query(
    `select residue_id, kind, resource, status from residue
     where allocation_id = $1 and why = 'force-release' order by residue_id limit ${maxResidue}`,
    [allocation_id],
  );

export type ReleaseRecord = Omit<Certificate, 'type' | 'installation' | 'chain' | 'issued_at' | 'kid' | 'signature'>;

export async function releaseRecord(
  db: Queryable,
  allocation: AllocationRow,
  released: ReleaseFact,
): Promise<ReleaseRecord> {
  const proofs = await proofsOf(db, allocation.allocation_id);
  const residue = await residueOf(db, allocation.allocation_id);
  const isProven = proofs.some(({ workflow_id }) => workflow_id === released.workflow_id);
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
    instances: await instancesOf(db, allocation),
    proofs,
    residue,
  };
}
