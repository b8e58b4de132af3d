/**
 * Strikes secrets out of what nodes ship, line by line; and private keys also where one spreads over several lines. A key that began in
 * an earlier batch is remembered, and where this replica did not see that batch, looked up among what is stored.
 */
import type { NodeInstanceId } from '../../base/ids.ts';
import { followKeyLines, mayContinueKey, type OpenKey } from '../../base/redaction/key-lines.ts';
import { type Redactor, redactionMark } from '../../base/redaction/redact.ts';
import type { ShippedLine } from '../../contract/agent/agent.ts';
import { wholeFleet } from '../../lifecycle/visibility.ts';
import type { Database } from '../pg/database.ts';
import { readLines } from './node-logs.ts';

export interface LogSecrets {
  /** In the order of their numbers; at least one. */
  redactLines(instance: NodeInstanceId, lines: readonly ShippedLine[], redact: Redactor): Promise<ShippedLine[]>;
}

type Keys = ReadonlyMap<string, OpenKey>;

/** More than the longest key takes. */
const linesLookedUp = 120;
const mostRemembered = 1_000;

/** The first line of each stream may go on with a key; where a key ends, it may have begun before all of them. */
function mayBegin(lines: readonly ShippedLine[]): boolean {
  const seen = new Set<string>();
  return lines.some(({ stream, line }) => {
    const isFirst = !seen.has(stream);
    if (isFirst) seen.add(stream);
    return (isFirst || line.includes('-----END ')) && mayContinueKey(line);
  });
}

export function createLogSecrets(db: Database): LogSecrets {
  const inside = new Map<string, { last_seq: number; open: Keys }>();

  const stored = async (instance: NodeInstanceId, before: number): Promise<Keys> => {
    const { items } = await readLines(db, { instance, tail: true, visibility: wholeFleet, limit: linesLookedUp });
    const keys = followKeyLines(undefined, redactionMark);
    for (const { seq, stream, line } of items) if (seq < before) keys.isInside(stream, line);
    return keys.open();
  };

  const remember = (instance: NodeInstanceId, last_seq: number, open: Keys) => {
    inside.delete(instance);
    if (open.size > 0) inside.set(instance, { last_seq, open });
    const [oldest] = inside.size > mostRemembered ? inside.keys() : [];
    if (oldest !== undefined) inside.delete(oldest);
  };

  return {
    async redactLines(instance, lines, redact) {
      const first = lines[0]?.seq ?? 0;
      const known = inside.get(instance);
      const follows = known?.last_seq === first - 1;
      const begun = follows ? known.open : mayBegin(lines) ? await stored(instance, first) : undefined;
      const plain = (line: string) => redact.text(line);
      if (!begun?.size && !lines.some(({ line }) => line.includes('-----BEGIN '))) {
        inside.delete(instance);
        return lines.map((each) => ({ ...each, line: plain(each.line) }));
      }
      const keys = followKeyLines(begun);
      const kept = lines.map((each) => ({
        ...each,
        line: keys.isInside(each.stream, each.line) ? redactionMark : plain(each.line),
      }));
      remember(instance, lines.at(-1)?.seq ?? 0, keys.open());
      return kept;
    },
  };
}
