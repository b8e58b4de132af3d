/**
 * Checks a sequence of checkpoints: signatures, the link to the previous one, and the heads of the
 * partitions.
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
  /** Rows from here … */
  cursor: string | null;
  /** … to here cannot be checked. */
  until: string | null;
}

interface Expected {
  position: number;
  hash: string;
  through: string;
  installation: string;
}

export interface ChainWalk {
  add(checkpoint: Checkpoint): { faults: ChainFault[]; body: CheckpointBody | undefined };
  /** Counts missing rows of a cut; compared with the cut's own count at the end. */
  countCut(position: number, rows: number): void;
  finish(): ChainFault[];
  readonly head: { position: number; hash: string } | undefined;
  readonly began_at: string | undefined;
  readonly through: string | undefined;
  readonly kids: ReadonlySet<string>;
}

/** Undefined if the text is not a key. */
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
  const foundCut = new Map<number, number>();
  const kids = new Set<string>();
  let before: Expected | undefined;
  let began_at: string | undefined;
  let sawExpected = options.expected_head === undefined;
  let isFirst = true;
  let isWhole = !options.partial;
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
    const position = (before?.position ?? 0) + 1;
    const through = before?.through ?? '0-0';
    if (body.position > position)
      return [fault('checkpoint_missing', body, { checkpoint: position, cursor: through, until: body.after })];
    const isLinked =
      body.position === position &&
      body.previous === (before?.hash ?? null) &&
      body.after === through &&
      body.installation === (before?.installation ?? body.installation);
    return isLinked ? [] : [fault('checkpoint_unlinked', body)];
  };

  /** After a gap, a partition's first segment is accepted as is. */
  const checkSegments = (body: CheckpointBody): ChainFault[] => {
    const faults: ChainFault[] = [];
    for (const segment of body.segments) {
      const known = heads.get(segment.partition) ?? (isWhole ? { rows: 0, head: emptyHead } : undefined);
      if (known && (known.rows !== segment.before || known.head !== segment.from))
        faults.push(fault('segment_unlinked', body, { partition: segment.partition, cursor: segment.first }));
      heads.set(segment.partition, { rows: segment.before + segment.rows, head: segment.head });
    }
    return faults;
  };

  return {
    add(checkpoint) {
      const body = readCheckpoint(checkpoint.body);
      if (!body) {
        const position = before ? before.position + 1 : null;
        return {
          body,
          faults: [{ code: 'checkpoint_unreadable', checkpoint: position, partition: null, cursor: null, until: null }],
        };
      }
      const faults: ChainFault[] = [];
      if (!trusted.some((key) => isSignedBy(checkpoint, key))) faults.push(fault('checkpoint_unsigned', body));
      else if (body.key) {
        const introduced = publicKeyOf(body.key.public_key);
        if (introduced) trusted.push(introduced);
      }
      const links = checkLink(body);
      if (links.some(({ code }) => code === 'checkpoint_missing')) {
        heads.clear();
        isWhole = false;
      }
      faults.push(...links, ...checkSegments(body));
      if (body.lost) faults.push(fault('checkpoint_lost', body, { checkpoint: body.lost.position }));
      if (body.cut) cuts.set(body.position, body.cut);
      const hash = checkpointHash(checkpoint.body);
      sawExpected ||= hash === options.expected_head;
      began_at ??= body.at;
      kids.add(body.kid);
      before = { position: body.position, hash, through: body.through, installation: body.installation };
      isFirst = false;
      return { faults, body };
    },
    countCut(position, rows) {
      foundCut.set(position, (foundCut.get(position) ?? 0) + rows);
    },
    finish() {
      const nowhere = { partition: null, cursor: null, until: null };
      // Only a complete walk sees every row that a cut dropped.
      const short = isWhole ? [...cuts].filter(([position, { rows }]) => rows !== (foundCut.get(position) ?? 0)) : [];
      // A cut outside the walked chain excuses nothing, whoever signed it.
      const unknown = [...foundCut.keys()].filter((position) => !cuts.has(position));
      return [
        ...unknown.map((checkpoint) => ({ ...nowhere, code: 'cut_incomplete' as const, checkpoint })),
        ...short.map(([checkpoint, { partition }]) => ({
          ...nowhere,
          code: 'cut_incomplete' as const,
          checkpoint,
          partition,
        })),
        ...(sawExpected ? [] : [{ ...nowhere, code: 'head_missing' as const, checkpoint: null }]),
      ];
    },
    get head() {
      return before && { position: before.position, hash: before.hash };
    },
    get began_at() {
      return began_at;
    },
    get through() {
      return before?.through;
    },
    get kids() {
      return kids;
    },
  };
}
