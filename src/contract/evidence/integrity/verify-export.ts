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
  /** The number of lines that are not records. */
  unreadable: number;
  /** The number of rows after the last checkpoint. Above zero, the file was truncated. */
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
/** A checkpoint seals at most a thousand rows, so this many pending rows mean added lines. */
const maxPending = 50_000;

const noPosition = { partition: null, cursor: null, until: null, moved_to: null, hash: null, checkpoint: null };

async function readSignedCuts(lines: AsyncIterable<string>, trusted: readonly KeyObject[]): Promise<SignedCut[]> {
  const keys = [...trusted];
  const cuts: SignedCut[] = [];
  for await (const line of lines) {
    // Skips most rows without parsing them. A checkpoint's body has this text with escaped quotes.
    if (!/\\"kind\\":\\"(cut|key)\\"/.test(line)) continue;
    const record = readJsonLine(line);
    const body = record?.type === 'checkpoint' ? readCheckpoint(record.body) : undefined;
    if (record?.type !== 'checkpoint' || !body || !keys.some((key) => isSignedBy(record, key))) continue;
    const newKey = body.key && publicKeyOf(body.key.public_key);
    if (newKey) keys.push(newKey);
    if (!body.cut) continue;
    cuts.push({
      position: body.position,
      partition: body.cut.partition,
      before: BigInt(Date.parse(body.cut.before)) * 1000n,
    });
  }
  return cuts;
}

/** Reads the signed rows, and finds the segments whose list differs from the signed one. */
function readSignedRows(record: CheckpointRecord, body: CheckpointBody) {
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

/**
 * Whether a row is outside the rows that the checkpoint seals, or was exported with a wrong number
 * or hash. A SIEM shows both.
 */
function isMisplaced({ number, hash, checkpoint, row }: RowRecord, body: CheckpointBody): boolean {
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
  const cuts = await readSignedCuts(open(), keys);
  const faults: EvidenceFault[] = [];
  let more_faults = 0;
  let walk: ChainWalk | undefined;
  let pending: RowRecord[] = [];
  let overflowCount = 0;
  const verdict = { rows: 0, checkpoints: 0, unreadable: 0, from: null as number | null };
  const addFaults = (newFaults: readonly EvidenceFault[]) => {
    const room = maxFaults - faults.length;
    faults.push(...newFaults.slice(0, room));
    more_faults += Math.max(0, newFaults.length - room);
  };

  const checkCheckpoint = (record: CheckpointRecord) => {
    const body = readCheckpoint(record.body);
    walk ??= walkChain({
      trusted: keys,
      partial: body?.position !== 1,
      ...(expected_head !== undefined && { expected_head }),
    });
    verdict.from ??= body?.position ?? null;
    verdict.checkpoints++;
    addFaults(walk.add(record).faults.map((fault) => ({ ...noPosition, ...fault })));
    if (!body) return;
    if (record.position !== body.position || record.hash !== checkpointHash(record.body))
      addFaults([{ ...noPosition, code: 'checkpoint_unlinked', checkpoint: body.position }]);
    const { entries, changed } = readSignedRows(record, body);
    addFaults(
      changed.map((segment) => ({
        ...noPosition,
        code: 'segment_changed' as const,
        partition: segment.partition,
        checkpoint: body.position,
        cursor: segment.first,
        until: segment.last,
      })),
    );
    const changedPartitions = new Set(changed.map(({ partition }) => partition));
    const present = pending
      .filter(({ row }) => !changedPartitions.has(row.layer))
      .map(({ row }): SealedEntry => ({ ...entryOf(row), partition: row.layer }));
    const cutOf = (entry: SealedEntry) =>
      cuts.find(
        ({ partition, before, position }) =>
          partition === entry.partition && entry.at < before && position > body.position,
      );
    const comparison = compareRows(entries, present, (entry) => cutOf(entry) !== undefined);
    verdict.rows += comparison.matched;
    for (const entry of comparison.cut) walk.countCut(cutOf(entry)?.position ?? 0, 1);
    addFaults(comparison.faults.map((fault) => ({ ...noPosition, ...fault })));
    const reportedCursors = new Set(comparison.faults.map(({ cursor }) => cursor));
    const misplacedRows = pending.filter(
      (each) =>
        !changedPartitions.has(each.row.layer) &&
        isMisplaced(each, body) &&
        !reportedCursors.has(cursorOf(entryOf(each.row))),
    );
    addFaults(
      misplacedRows.map(({ row }) => ({
        ...noPosition,
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
      checkCheckpoint(record);
      pending = [];
    } else if (pending.length < maxPending) pending.push(record);
    else overflowCount++;
  }
  if (walk) addFaults(walk.finish().map((fault) => ({ ...noPosition, ...fault })));
  more_faults += overflowCount;
  return { ...verdict, faults, more_faults, uncovered: pending.length, head: walk?.head ?? null };
}
