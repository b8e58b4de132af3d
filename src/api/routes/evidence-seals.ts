/** Verifies sealed evidence, and lists the public keys of its seals. */
import { ApiProblem } from '../../contract/errors/errors.ts';
import { createEvidenceSigner, exportPublicKey } from '../../store/integrity/signer.ts';
import { listSealedKeys, verifyPage } from '../../store/integrity/verify-chain.ts';
import type { Database } from '../../store/pg/database.ts';
import type { ApiServices, Handlers } from '../services.ts';

function parsePosition(cursor: string | undefined): number {
  if (cursor === undefined) return 1;
  const position = /^\d{1,15}$/.test(cursor) ? Number(cursor) : 0;
  if (position < 1) throw new ApiProblem('invalid_cursor');
  return position;
}

/** Lists the keys of the key file first: access to the database is not enough to forge them. */
async function listPublicKeys({ db, key_ring }: ApiServices) {
  const stored = new Map((await listSealedKeys(db)).map((key) => [key.kid, key]));
  const held = createEvidenceSigner(key_ring)
    .all()
    .map(({ kid, public_key }) => ({
      kid,
      public_key: exportPublicKey(public_key),
      held: true,
      introduced_at: stored.get(kid)?.introduced_at.toISOString() ?? null,
    }));
  const heldKids = new Set(held.map(({ kid }) => kid));
  const others = [...stored.values()]
    .filter(({ kid }) => !heldKids.has(kid))
    .map(({ kid, public_key, introduced_at }) => ({
      kid,
      public_key,
      held: false,
      introduced_at: introduced_at.toISOString(),
    }));
  return [...held, ...others];
}

type PublicKeys = Awaited<ReturnType<typeof listPublicKeys>>;

/** Anyone may call the route, so the database is queried at most once in this time. */
const keysCachedMs = 5_000;
const cachedKeys = new WeakMap<Database, { at_ms: number; keys: Promise<PublicKeys> }>();

function readCachedPublicKeys(services: ApiServices): Promise<PublicKeys> {
  const nowMs = services.clock.monotonicMs();
  const cached = cachedKeys.get(services.db);
  if (cached && nowMs - cached.at_ms < keysCachedMs) return cached.keys;
  const keys = listPublicKeys(services);
  cachedKeys.set(services.db, { at_ms: nowMs, keys });
  // A failure is not cached.
  keys.catch(() => cachedKeys.delete(services.db));
  return keys;
}

export const evidenceSealHandlers: Pick<Handlers, 'evidence-verify' | 'key-list'> = {
  async 'evidence-verify'({ query }, { db, key_ring }) {
    const page = await verifyPage(db, createEvidenceSigner(key_ring), parsePosition(query?.cursor));
    return {
      checkpoints: page.checkpoints,
      rows: page.rows,
      items: page.faults,
      more_faults: page.more_faults,
      cuts: page.cuts,
      unsealed: page.tail,
      next_cursor: page.next === null ? null : String(page.next),
    };
  },
  async 'key-list'(_call, services) {
    return { installation: services.installation.installation_id, keys: await readCachedPublicKeys(services) };
  },
};
