/** A test store with evidence, a sealer, and a verifier that walks every page as the CLI does. */
import type { KeyObject } from 'node:crypto';
import type { KeyRing } from '../../src/base/credentials/key-ring.ts';
import type { EvidenceFault } from '../../src/contract/evidence/evidence-seals.ts';
import { walkChain } from '../../src/contract/evidence/integrity/walk-chain.ts';
import { isSettledSql } from '../../src/store/evidence/commit-order.ts';
import { recordEvidence } from '../../src/store/evidence/evidence.ts';
import { createSealer, type Sealer } from '../../src/store/integrity/sealer.ts';
import { createEvidenceSigner, type EvidenceSigner } from '../../src/store/integrity/signer.ts';
import { verifyPage } from '../../src/store/integrity/verify-chain.ts';
import { type Database, openDatabase } from '../../src/store/pg/database.ts';
import { type TestDatabase, testDatabase } from './database.ts';
import { memoryKeyRing } from './key-ring.ts';
import { until } from './until.ts';

export interface Verification {
  rows: number;
  faults: Pick<EvidenceFault, 'code' | 'partition' | 'cursor' | 'moved_to' | 'checkpoint'>[];
  /** The number of faults that the pages leave out of `faults`. */
  more_faults: number;
  unsealed: number;
  head: string | undefined;
}

interface VerifyOptions {
  trusted?: KeyObject[];
  expected_head?: string;
}

export interface SealedStore {
  /** Connected as the application's role. */
  db: Database;
  /** Connected as a superuser, to which grants do not apply. */
  dba: Database;
  ring: KeyRing;
  signer: EvidenceSigner;
  sealer: Sealer;
  /** Writes evidence rows, each in its own transaction, and returns their cursors. */
  facts(count: number, layer?: 'rule' | 'node'): Promise<string[]>;
  /** Seals every row that is not sealed yet, and returns how many there were. */
  sealAll(): Promise<number>;
  verify(options?: VerifyOptions): Promise<Verification>;
  close(): Promise<void>;
}

/** Verifies every page. */
export async function verifyAll(
  db: Database,
  signer: EvidenceSigner,
  { trusted = [signer.current().public_key], expected_head }: VerifyOptions = {},
): Promise<Verification> {
  const walk = walkChain({ trusted, ...(expected_head !== undefined && { expected_head }) });
  const faults: Verification['faults'] = [];
  let rows = 0;
  let unsealedCount = 0;
  let more_faults = 0;
  for (let from: number | null = 1; from !== null; ) {
    const page: Awaited<ReturnType<typeof verifyPage>> = await verifyPage(db, signer, from);
    for (const checkpoint of page.checkpoints)
      faults.push(...walk.add(checkpoint).faults.map((fault) => ({ ...fault, moved_to: null })));
    faults.push(...page.faults);
    // Retention dropped these rows with a signed cut, whose number of rows the walk compares.
    for (const cut of page.cuts) walk.countCut(cut.checkpoint, cut.rows);
    rows += page.rows;
    more_faults += page.more_faults;
    unsealedCount = page.tail?.rows ?? unsealedCount;
    from = page.next;
  }
  faults.push(...walk.finish().map((fault) => ({ ...fault, moved_to: null })));
  const faultFields = faults.map(({ code, partition, cursor, moved_to, checkpoint }) => ({
    code,
    partition,
    cursor,
    moved_to,
    checkpoint,
  }));
  return { rows, faults: faultFields, more_faults, unsealed: unsealedCount, head: walk.head?.hash };
}

export const now = new Date('2030-01-01T00:00:00Z');

export async function sealedStore(ring: KeyRing = memoryKeyRing()): Promise<SealedStore> {
  const database: TestDatabase = await testDatabase();
  const db = openDatabase({ url: database.application_url });
  const dba = openDatabase({ url: database.url });
  const signer = createEvidenceSigner(ring);
  const sealer = createSealer({ db, key_ring: ring, installation: { installation_id: 'slipway-test' } });
  let writtenCount = 0;

  const store: SealedStore = {
    db,
    dba,
    ring,
    signer,
    sealer,
    async facts(wanted, layer = 'rule') {
      const [before] = await dba.query<{ seq: string }>('select coalesce(max(seq), 0)::text as seq from evidence');
      for (let each = 0; each < wanted; each++)
        await recordEvidence(db, [
          { at: now, layer, kind: 'brake.held', summary: `fact ${writtenCount++}`, data: { each, decimal: 0.1 } },
        ]);
      const rows = await dba.query<{ cursor: string }>(
        `select xid::text || '-' || seq as cursor from evidence where seq > $1 order by xid, seq`,
        [before?.seq ?? 0],
      );
      return rows.map(({ cursor }) => cursor);
    },
    async sealAll() {
      // An open transaction in any database of this server keeps the newest rows from being sealed.
      // Wait for such transactions to end, so that all rows are sealed together.
      await until('all evidence to settle', async () => {
        const [row] = await dba.query<{ is_settled: boolean }>(
          `select coalesce(bool_and(${isSettledSql}), true) as is_settled from evidence`,
        );
        return row?.is_settled;
      });
      let rows = 0;
      for (let more = true; more; ) {
        const batch = await sealer.sealBatch(now);
        rows += batch.rows;
        more = batch.more;
      }
      return rows;
    },
    verify: (options) => verifyAll(db, signer, options),
    async close() {
      await db.close();
      await dba.close();
      await database.drop();
    },
  };
  return store;
}
