/** Walks every checkpoint and collects faults: a bounded number per partition, the rest counted. */
import type { EvidenceFault } from '../../../contract/evidence/evidence-seals.ts';
import { walkChain } from '../../../contract/evidence/integrity/walk-chain.ts';
import type { Session } from '../../connection/session.ts';
import { type TrustedKeys, trustedKeys } from './trusted-keys.ts';

export interface EvidenceReport {
  rows: number;
  faults: EvidenceFault[];
  /** The number of faults beyond the limit, by partition. */
  unlisted: Record<string, number>;
  cut_rows: number;
  unsealed: { rows: number; oldest_at: string | null };
  sealed_from: string | null;
  head: { position: number; hash: string } | null;
  signed_by: string[];
  pinned: boolean;
  /** The number of keys that signatures were checked with. */
  trusted_keys: number;
}

const chainName = 'checkpoints';
/** Kept to pair the deletion and the insertion of a row that was moved far. */
const maxRemembered = 10_000;

/** A row deleted in one place and inserted in another was moved: one fault instead of two. */
export function pairMoved(faults: readonly EvidenceFault[]): EvidenceFault[] {
  const inserted = new Map<string, EvidenceFault[]>();
  for (const fault of faults)
    if (fault.code === 'row_inserted' && fault.hash) {
      const list = inserted.get(fault.hash);
      if (list) list.push(fault);
      else inserted.set(fault.hash, [fault]);
    }
  const explained = new Set<EvidenceFault>();
  const paired = faults.map((fault) => {
    const found = fault.code === 'row_deleted' && fault.hash ? inserted.get(fault.hash)?.shift() : undefined;
    if (!found) return fault;
    explained.add(found);
    return { ...fault, code: 'row_moved' as const, moved_to: found.cursor };
  });
  return paired.filter((fault) => !explained.has(fault));
}

export async function verifyEvidence(
  session: Session,
  options: {
    key_files: readonly string[];
    expected_head?: string;
    max_faults: number;
    onProgress(rows: number): void;
  },
): Promise<EvidenceReport> {
  const { keys, pinned }: TrustedKeys = await trustedKeys(session, options.key_files);
  const { expected_head } = options;
  const walk = walkChain({ trusted: keys, ...(expected_head !== undefined && { expected_head }) });
  const found: EvidenceFault[] = [];
  let overflow = 0;
  let rows = 0;
  let cut_rows = 0;
  let unsealed: EvidenceReport['unsealed'] = { rows: 0, oldest_at: null };
  const note = (faults: readonly EvidenceFault[]) => {
    const room = Math.max(0, maxRemembered - found.length);
    found.push(...faults.slice(0, room));
    overflow += Math.max(0, faults.length - room);
  };
  for (let cursor: string | null = ''; cursor !== null; ) {
    const page: Awaited<ReturnType<typeof session.call<'evidence-verify'>>> = await session.call('evidence-verify', {
      query: cursor === '' ? {} : { cursor },
    });
    for (const checkpoint of page.checkpoints)
      note(walk.add(checkpoint).faults.map((fault) => ({ ...fault, moved_to: null, hash: null })));
    note(page.items);
    overflow += page.more_faults;
    for (const cut of page.cuts) {
      walk.countCut(cut.checkpoint, cut.rows);
      cut_rows += cut.rows;
    }
    rows += page.rows;
    unsealed = page.unsealed ?? unsealed;
    options.onProgress(rows);
    cursor = page.next_cursor;
  }
  note(walk.finish().map((fault) => ({ ...fault, moved_to: null, hash: null })));
  const listed: EvidenceFault[] = [];
  const counts: Record<string, number> = {};
  const unlisted: Record<string, number> = overflow > 0 ? { 'not compared in detail': overflow } : {};
  for (const fault of pairMoved(found)) {
    const name = fault.partition ?? chainName;
    counts[name] = (counts[name] ?? 0) + 1;
    if (counts[name] <= options.max_faults) listed.push(fault);
    else unlisted[name] = (unlisted[name] ?? 0) + 1;
  }
  return {
    rows,
    faults: listed,
    unlisted,
    cut_rows,
    unsealed,
    sealed_from: walk.began_at ?? null,
    head: walk.head ?? null,
    signed_by: [...walk.kids],
    pinned,
    trusted_keys: keys.length,
  };
}
