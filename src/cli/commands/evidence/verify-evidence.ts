/**
 * Walks every checkpoint and collects faults. Lists a limited number per partition and counts the
 * others.
 */
import type { EvidenceFault } from '../../../contract/evidence/evidence-seals.ts';
import { walkChain } from '../../../contract/evidence/integrity/walk-chain.ts';
import type { Session } from '../../connection/session.ts';
import { loadTrustedKeys, type TrustedKeys } from './trusted-keys.ts';

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
/** Faults to keep in memory, to pair the deletion of a moved row with its insertion. */
const maxKeptFaults = 10_000;

/** A row deleted in one place and inserted in another was moved: one fault instead of two. */
export function pairMoved(faults: readonly EvidenceFault[]): EvidenceFault[] {
  const inserted = new Map<string, EvidenceFault[]>();
  for (const fault of faults)
    if (fault.code === 'row_inserted' && fault.hash) {
      const list = inserted.get(fault.hash);
      if (list) list.push(fault);
      else inserted.set(fault.hash, [fault]);
    }
  const pairedInsertions = new Set<EvidenceFault>();
  const paired = faults.map((fault) => {
    const insertion = fault.code === 'row_deleted' && fault.hash ? inserted.get(fault.hash)?.shift() : undefined;
    if (!insertion) return fault;
    pairedInsertions.add(insertion);
    return { ...fault, code: 'row_moved' as const, moved_to: insertion.cursor };
  });
  return paired.filter((fault) => !pairedInsertions.has(fault));
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
  const { keys, pinned }: TrustedKeys = await loadTrustedKeys(session, options.key_files);
  const { expected_head } = options;
  const walk = walkChain({ trusted: keys, ...(expected_head !== undefined && { expected_head }) });
  const keptFaults: EvidenceFault[] = [];
  let overflowCount = 0;
  let rows = 0;
  let cut_rows = 0;
  let unsealed: EvidenceReport['unsealed'] = { rows: 0, oldest_at: null };
  const addFaults = (faults: readonly EvidenceFault[]) => {
    const room = Math.max(0, maxKeptFaults - keptFaults.length);
    keptFaults.push(...faults.slice(0, room));
    overflowCount += Math.max(0, faults.length - room);
  };
  for (let cursor: string | null = ''; cursor !== null; ) {
    const page: Awaited<ReturnType<typeof session.call<'evidence-verify'>>> = await session.call('evidence-verify', {
      query: cursor === '' ? {} : { cursor },
    });
    for (const checkpoint of page.checkpoints)
      addFaults(walk.add(checkpoint).faults.map((fault) => ({ ...fault, moved_to: null, hash: null })));
    addFaults(page.items);
    overflowCount += page.more_faults;
    for (const cut of page.cuts) {
      walk.countCut(cut.checkpoint, cut.rows);
      cut_rows += cut.rows;
    }
    rows += page.rows;
    unsealed = page.unsealed ?? unsealed;
    options.onProgress(rows);
    cursor = page.next_cursor;
  }
  addFaults(walk.finish().map((fault) => ({ ...fault, moved_to: null, hash: null })));
  const listedFaults: EvidenceFault[] = [];
  const counts: Record<string, number> = {};
  const unlisted: Record<string, number> = overflowCount > 0 ? { 'not compared in detail': overflowCount } : {};
  for (const fault of pairMoved(keptFaults)) {
    const name = fault.partition ?? chainName;
    counts[name] = (counts[name] ?? 0) + 1;
    if (counts[name] <= options.max_faults) listedFaults.push(fault);
    else unlisted[name] = (unlisted[name] ?? 0) + 1;
  }
  return {
    rows,
    faults: listedFaults,
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
