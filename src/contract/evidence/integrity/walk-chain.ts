/**
 * Checks a sequence of checkpoints: the signature of each, its link to the previous one, and the
 * heads of the partitions' chains.
 */
import { createPublicKey, type KeyObject } from 'node:crypto';
import { type Checkpoint, type CheckpointBody, checkpointHash, isSignedBy, readCheckpoint } from './checkpoint.ts';
import { emptyHead } from './entries.ts';

export const chainFaultCodes = [
  'checkpoint_unreadable',
  'checkpoint_missing',
  'checkpoint_unsigned',
  'checkpoint_unlinked',
  'checkpoint_lost',
  'segment_unlinked',
  'cut_incomplete',
  'head_missing',
] as const;

export interface ChainFault {
  code: (typeof chainFaultCodes)[number];
  checkpoint: number | null;
  partition: string | null;
  /** The first and the last cursor of the rows that cannot be checked. */
  cursor: string | null;
  until: string | null;
}

/** The previous checkpoint, which the next one must link to. */
interface Previous {
  position: number;
  hash: string;
  through: string;
  installation: string;
}

export interface ChainWalk {
  add(checkpoint: Checkpoint): { faults: ChainFault[]; body: CheckpointBody | undefined };
  /** Counts rows that a cut dropped. `finish` compares the sum with the number in the cut. */
  countCut(position: number, rows: number): void;
  finish(): ChainFault[];
  readonly head: { position: number; hash: string } | undefined;
  readonly began_at: string | undefined;
  readonly through: string | undefined;
  readonly kids: ReadonlySet<string>;
}

/** Reads a public key. Returns undefined if the text is not a key. */
export const publicKeyOf = (base64: string): KeyObject | undefined => {
  try {
    return createPublicKey({ key: Buffer.from(base64, 'base64'), format: 'der', type: 'spki' });
  } catch {
    return undefined;
  }
};

/** `partial`: the sequence may start anywhere, as in an export of recent evidence. */
export function walkChain(options: {
  trusted: readonly KeyObject[];
  expected_head?: string;
  partial?: boolean;
}): ChainWalk {
  const trusted = [...options.trusted];
  const heads = new Map<string, { rows: number; head: string }>();
  const cuts = new Map<number, { rows: number; partition: string }>();
  const cutRows = new Map<number, number>();
  const kids = new Set<string>();
  let previous: Previous | undefined;
  let began_at: string | undefined;
  let hasExpectedHead = options.expected_head === undefined;
  let isFirst = true;
  let isComplete = !options.partial;
  const fault = (code: ChainFault['code'], body: CheckpointBody, more: Partial<ChainFault> = {}): ChainFault => ({
    code,
    checkpoint: body.position,
    partition: null,
    cursor: null,
    until: null,
    ...more,
  });

  const checkLink = (body: CheckpointBody): ChainFault[] => {
    if (isFirst && options.partial) return [];
    const position = (previous?.position ?? 0) + 1;
    const through = previous?.through ?? '0-0';
    if (body.position > position)
      return [fault('checkpoint_missing', body, { checkpoint: position, cursor: through, until: body.after })];
    const isLinked =
      body.position === position &&
      body.previous === (previous?.hash ?? null) &&
      body.after === through &&
      body.installation === (previous?.installation ?? body.installation);
    return isLinked ? [] : [fault('checkpoint_unlinked', body)];
  };

  /**
   * After a gap, the first segment of a partition is accepted, because its predecessor is unknown.
   */
  const checkSegments = (body: CheckpointBody): ChainFault[] => {
    const faults: ChainFault[] = [];
    for (const segment of body.segments) {
      const expected = heads.get(segment.partition) ?? (isComplete ? { rows: 0, head: emptyHead } : undefined);
      if (expected && (expected.rows !== segment.before || expected.head !== segment.from))
        faults.push(fault('segment_unlinked', body, { partition: segment.partition, cursor: segment.first }));
      heads.set(segment.partition, { rows: segment.before + segment.rows, head: segment.head });
    }
    return faults;
  };

  return {
    add(checkpoint) {
      const body = readCheckpoint(checkpoint.body);
      if (!body) {
        const position = previous ? previous.position + 1 : null;
        return {
          body,
          faults: [{ code: 'checkpoint_unreadable', checkpoint: position, partition: null, cursor: null, until: null }],
        };
      }
      const faults: ChainFault[] = [];
      if (!trusted.some((key) => isSignedBy(checkpoint, key))) faults.push(fault('checkpoint_unsigned', body));
      else if (body.key) {
        const newKey = publicKeyOf(body.key.public_key);
        if (newKey) trusted.push(newKey);
      }
      const linkFaults = checkLink(body);
      if (linkFaults.some(({ code }) => code === 'checkpoint_missing')) {
        heads.clear();
        isComplete = false;
      }
      faults.push(...linkFaults, ...checkSegments(body));
      if (body.lost) faults.push(fault('checkpoint_lost', body, { checkpoint: body.lost.position }));
      if (body.cut) cuts.set(body.position, body.cut);
      const hash = checkpointHash(checkpoint.body);
      hasExpectedHead ||= hash === options.expected_head;
      began_at ??= body.at;
      kids.add(body.kid);
      previous = { position: body.position, hash, through: body.through, installation: body.installation };
      isFirst = false;
      return { faults, body };
    },
    countCut(position, rows) {
      cutRows.set(position, (cutRows.get(position) ?? 0) + rows);
    },
    finish() {
      const noRows = { partition: null, cursor: null, until: null };
      // Only a complete walk sees every row that a cut dropped.
      const incompleteCuts = isComplete
        ? [...cuts].filter(([position, { rows }]) => rows !== (cutRows.get(position) ?? 0))
        : [];
      // A cut that is not part of this chain does not explain missing rows, even if it is signed.
      const unknownCuts = [...cutRows.keys()].filter((position) => !cuts.has(position));
      return [
        ...unknownCuts.map((checkpoint) => ({ ...noRows, code: 'cut_incomplete' as const, checkpoint })),
        ...incompleteCuts.map(([checkpoint, { partition }]) => ({
          ...noRows,
          code: 'cut_incomplete' as const,
          checkpoint,
          partition,
        })),
        ...(hasExpectedHead ? [] : [{ ...noRows, code: 'head_missing' as const, checkpoint: null }]),
      ];
    },
    get head() {
      return previous && { position: previous.position, hash: previous.hash };
    },
    get began_at() {
      return began_at;
    },
    get through() {
      return previous?.through;
    },
    get kids() {
      return kids;
    },
  };
}
