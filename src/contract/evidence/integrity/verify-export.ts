/** Verifies exported lines offline, with the same checks as on the database and bounded memory. */
import type { KeyObject } from 'node:crypto';
import type { EvidenceFault } from '../evidence-seals.ts';
import { type CheckpointBody, checkpointHash, isSignedBy, readCheckpoint } from './checkpoint.ts';
import { compareRows, type SealedEntry } from './compare-rows.ts';
import { chainHead, cursorOf, entryOf, unpackEntries } from './entries.ts';
import { type CheckpointRecord, type RowRecord, readJsonLine } from './export-record.ts';
import { type ChainWalk, publicKeyOf, walkChain } from './walk-chain.ts';

export interface ExportVerdict {
  rows: number;
  checkpoints: number;
  faults: EvidenceFault[];
  more_faults: number;
  /** Lines that are not records. */
  unreadable: number;
  /** Rows after the last checkpoint: the file was truncated. */
  uncovered: number;
  head: ChainWalk['head'] | null;
  from: number | null;
}

interface SignedCut {
  position: number;
  partition: string;
  before: bigint;
}

const maxFaults = 1_000;
/** A checkpoint seals at most a thousand rows; more pending rows mean that lines were added. */
const maxPending = 50_000;

const nothing = { partition: null, cursor: null, until: null, moved_to: null, hash: null, checkpoint: null };

async function signedCuts(lines: AsyncIterable<string>, trusted: readonly KeyObject[]): Promise<SignedCut[]> {
  const keys = [...trusted];
  const cuts: SignedCut[] = [];
  for await (const line of lines) {
    // Skips most rows without parsing them. A checkpoint's body has this text with escaped quotes.
    if (!/\\"kind\\":\\"(cut|key)\\"/.test(line)) continue;
    const record = readJsonLine(line);
    const body = record?.type === 'checkpoint' ? readCheckpoint(record.body) : undefined;
    if (record?.type !== 'checkpoint' || !body || !keys.some((key) => isSignedBy(record, key))) continue;
    const introduced = body.key && publicKeyOf(body.key.public_key);
    if (introduced) keys.push(introduced);
    if (!body.cut) continue;
    cuts.push({
      position: body.position,
      partition: body.cut.partition,
      before: BigInt(Date.parse(body.cut.before)) * 1000n,
    });
  }
  return cuts;
}

/** The signed rows, and the segments whose list differs from the signed one. */
function listOf(record: CheckpointRecord, body: CheckpointBody) {
  const entries: SealedEntry[] = [];
  const changed: CheckpointBody['segments'] = [];
  for (const segment of body.segments) {
    const packed = Buffer.from(record.entries[segment.partition] ?? '', 'base64');
    const unpacked = unpackEntries(packed);
    if (!unpacked || unpacked.length !== segment.rows || chainHead(segment.from, packed) !== segment.head)
      changed.push(segment);
    else entries.push(...unpacked.map((entry) => ({ ...entry, partition: segment.partition })));
  }
  return { entries, changed };
}

/** Also checks the number and hash printed with a row, because a SIEM shows them. */
function misplaced({ number, hash, checkpoint, row }: RowRecord, body: CheckpointBody): boolean {
  const segment = body.segments.find(({ partition }) => partition === row.layer);
  return (
    checkpoint !== body.position ||
    !segment ||
    number <= segment.before ||
    number > segment.before + segment.rows ||
    hash !== entryOf(row).hash.toString('hex')
  );
}

/**
 * `open` returns all lines from the start. It is called twice, because a cut comes after the rows
 * whose absence it explains.
 */
export async function verifyExport(
  open: () => AsyncIterable<string>,
  keys: readonly KeyObject[],
  expected_head?: string,
): Promise<ExportVerdict> {
  const cuts = await signedCuts(open(), keys);
  const faults: EvidenceFault[] = [];
  let more_faults = 0;
  let walk: ChainWalk | undefined;
  let pending: RowRecord[] = [];
  let overflow = 0;
  const verdict = { rows: 0, checkpoints: 0, unreadable: 0, from: null as number | null };
  const addFaults = (newFaults: readonly EvidenceFault[]) => {
    const room = maxFaults - faults.length;
    faults.push(...newFaults.slice(0, room));
    more_faults += Math.max(0, newFaults.length - room);
  };

  const seal = (record: CheckpointRecord) => {
    const body = readCheckpoint(record.body);
    walk ??= walkChain({
      trusted: keys,
      partial: body?.position !== 1,
      ...(expected_head !== undefined && { expected_head }),
    });
    verdict.from ??= body?.position ?? null;
    verdict.checkpoints++;
    addFaults(walk.add(record).faults.map((fault) => ({ ...nothing, ...fault })));
    if (!body) return;
    if (record.position !== body.position || record.hash !== checkpointHash(record.body))
      addFaults([{ ...nothing, code: 'checkpoint_unlinked', checkpoint: body.position }]);
    const { entries, changed } = listOf(record, body);
    addFaults(
      changed.map((segment) => ({
        ...nothing,
        code: 'segment_changed' as const,
        partition: segment.partition,
        checkpoint: body.position,
        cursor: segment.first,
        until: segment.last,
      })),
    );
    const unknown = new Set(changed.map(({ partition }) => partition));
    const present = pending
      .filter(({ row }) => !unknown.has(row.layer))
      .map(({ row }): SealedEntry => ({ ...entryOf(row), partition: row.layer }));
    const cutOf = (entry: SealedEntry) =>
      cuts.find(
        ({ partition, before, position }) =>
          partition === entry.partition && entry.at < before && position > body.position,
      );
    const compared = compareRows(entries, present, (entry) => cutOf(entry) !== undefined);
    verdict.rows += compared.matched;
    for (const entry of compared.cut) walk.countCut(cutOf(entry)?.position ?? 0, 1);
    addFaults(compared.faults.map((fault) => ({ ...nothing, ...fault })));
    const named = new Set(compared.faults.map(({ cursor }) => cursor));
    const wrong = pending.filter(
      (each) => !unknown.has(each.row.layer) && misplaced(each, body) && !named.has(cursorOf(entryOf(each.row))),
    );
    addFaults(
      wrong.map(({ row }) => ({
        ...nothing,
        code: 'row_changed' as const,
        partition: row.layer,
        cursor: `${row.xid}-${row.seq}`,
      })),
    );
  };

  for await (const line of open()) {
    if (line === '') continue;
    const record = readJsonLine(line);
    if (!record) verdict.unreadable++;
    else if (record.type === 'checkpoint') {
      seal(record);
      pending = [];
    } else if (pending.length < maxPending) pending.push(record);
    else overflow++;
  }
  if (walk) addFaults(walk.finish().map((fault) => ({ ...nothing, ...fault })));
  more_faults += overflow;
  return { ...verdict, faults, more_faults, uncovered: pending.length, head: walk?.head ?? null };
}
