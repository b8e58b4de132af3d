/**
 * Redacts secrets in shipped log lines, including private keys that span several lines. A replica
 * remembers a key that began in an earlier batch. If another replica received that batch, the
 * stored lines show whether a key is open.
 */
import type { NodeInstanceId } from '../../base/ids.ts';
import { createKeyLines, mayContinueKey, type OpenKey } from '../../base/redaction/key-lines.ts';
import { type Redactor, redactionMark } from '../../base/redaction/redact.ts';
import type { ShippedLine } from '../../contract/agent/agent.ts';
import { wholeFleet } from '../../lifecycle/visibility.ts';
import type { Database } from '../pg/database.ts';
import { readLines } from './node-logs.ts';

export interface LogSecrets {
  /** Expects at least one line, in the order of their numbers. */
  redactLines(instance: NodeInstanceId, lines: readonly ShippedLine[], redact: Redactor): Promise<ShippedLine[]>;
}

type Keys = ReadonlyMap<string, OpenKey>;

/** More lines than the longest key has. */
const maxKeyLines = 120;
const maxRemembered = 1_000;

/**
 * Whether a stream of the batch may begin inside a key, judged by its first line and by lines that
 * end a key.
 */
function mayStartInsideKey(lines: readonly ShippedLine[]): boolean {
  const seen = new Set<string>();
  return lines.some(({ stream, line }) => {
    const isFirst = !seen.has(stream);
    if (isFirst) seen.add(stream);
    return (isFirst || line.includes('-----END ')) && mayContinueKey(line);
  });
}

export function createLogSecrets(db: Database): LogSecrets {
  const openKeys = new Map<string, { last_seq: number; open: Keys }>();

  const readOpenKeys = async (instance: NodeInstanceId, before: number): Promise<Keys> => {
    const { items } = await readLines(db, { instance, tail: true, visibility: wholeFleet, limit: maxKeyLines });
    const keys = createKeyLines(undefined, redactionMark);
    for (const { seq, stream, line } of items) if (seq < before) keys.isInside(stream, line);
    return keys.open();
  };

  const remember = (instance: NodeInstanceId, last_seq: number, open: Keys) => {
    openKeys.delete(instance);
    if (open.size > 0) openKeys.set(instance, { last_seq, open });
    const [oldest] = openKeys.size > maxRemembered ? openKeys.keys() : [];
    if (oldest !== undefined) openKeys.delete(oldest);
  };

  return {
    async redactLines(instance, lines, redact) {
      const first = lines[0]?.seq ?? 0;
      const remembered = openKeys.get(instance);
      const isNextBatch = remembered?.last_seq === first - 1;
      const openBefore = isNextBatch
        ? remembered.open
        : mayStartInsideKey(lines)
          ? await readOpenKeys(instance, first)
          : undefined;
      const redactText = (line: string) => redact.text(line);
      if (!openBefore?.size && !lines.some(({ line }) => line.includes('-----BEGIN '))) {
        openKeys.delete(instance);
        return lines.map((each) => ({ ...each, line: redactText(each.line) }));
      }
      const keys = createKeyLines(openBefore);
      const redacted = lines.map((each) => ({
        ...each,
        line: keys.isInside(each.stream, each.line) ? redactionMark : redactText(each.line),
      }));
      remember(instance, lines.at(-1)?.seq ?? 0, keys.open());
      return redacted;
    },
  };
}
