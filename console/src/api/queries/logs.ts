/** Follows the log of a node: the last lines first, then new ones by long polling. */
import { useDocumentVisibility } from '@mantine/hooks';
import { queryOptions } from '@tanstack/react-query';
import { useEffect, useState } from 'react';
import { pause, systemClock } from '../../../../src/base/clock.ts';
import type { LogLine, Node } from '../../../../src/contract/node.ts';
import { keys } from '../cache/keys.ts';
import { call } from '../client.ts';
import { readFirstFact } from './timeline.ts';

/**
 * Output that the provider collected when the machine was given up. It cannot change while the
 * status stays the same, so it is read once per status.
 */
export const collectedOutputQuery = ({ node_id, status_since }: Node) =>
  queryOptions({
    queryKey: keys.collectedOutput(node_id, status_since),
    queryFn: ({ signal }) =>
      readFirstFact({ node_id, kind: 'evidence.frozen', layer: 'provider', order: 'newest' }, signal),
  });

interface LogRequest {
  node_id: string;
  instance: string | undefined;
  q: string | undefined;
  follow: boolean;
}

interface Log {
  lines: LogLine[];
  /** The cursor of the next line. */
  cursor: string | undefined;
  loaded: boolean;
  /** Whether older lines are still being read. */
  searching: boolean;
  error: unknown;
}

const firstLines = 500;
const maxLines = 5000;
const retryMs = 2000;
const emptyLog: Log = { lines: [], cursor: undefined, loaded: false, searching: false, error: null };

export function useLog({ node_id, instance, q, follow }: LogRequest): Log {
  const [log, setLog] = useState(emptyLog);
  const visible = useDocumentVisibility() === 'visible';
  const following = follow && visible;

  // Start over when the node, the instance or the search changes.
  useEffect(() => {
    const stop = new AbortController();
    setLog(emptyLog);
    let before: string | undefined;
    let lines: LogLine[] = [];
    void readWithRetry(stop.signal, setLog, async () => {
      const query = { instance, q, tail: true, limit: firstLines - lines.length, before };
      const page = await call('node-logs', { params: { id: node_id }, query, signal: stop.signal });
      const isFirst = before === undefined;
      lines = [...page.items, ...lines];
      before = page.continue_at ?? undefined;
      const searching = before !== undefined && lines.length < firstLines;
      setLog((known) => ({
        // Lines followed meanwhile are newer than everything the search finds.
        lines: [...page.items, ...known.lines],
        cursor: isFirst ? (page.next_cursor ?? undefined) : known.cursor,
        loaded: true,
        searching,
        error: null,
      }));
      return searching ? 'more' : 'done';
    });
    return () => stop.abort();
  }, [node_id, instance, q]);

  const { loaded } = log;
  // biome-ignore lint/correctness/useExhaustiveDependencies: a new cursor must not restart this
  useEffect(() => {
    if (!following || !loaded) return;
    const stop = new AbortController();
    let cursor = log.cursor;
    void readWithRetry(stop.signal, setLog, async () => {
      const query = { instance, q, follow: true, limit: firstLines, cursor };
      const page = await call('node-logs', { params: { id: node_id }, query, signal: stop.signal });
      cursor = page.next_cursor ?? cursor;
      setLog((known) => ({ ...appendLines(known, page.items), cursor, error: null }));
      return 'more';
    });
    return () => stop.abort();
  }, [node_id, instance, q, following, loaded]);

  return log;
}

/** Repeats `read` until it is done. After a failure, shows the error and retries. */
async function readWithRetry(
  stopped: AbortSignal,
  setLog: (change: (known: Log) => Log) => void,
  read: () => Promise<'more' | 'done'>,
): Promise<void> {
  while (!stopped.aborted) {
    try {
      if ((await read()) === 'done') return;
    } catch (error) {
      if (stopped.aborted) return;
      setLog((known) => ({ ...known, error }));
      await pause(systemClock, retryMs, stopped);
    }
  }
}

const lineKey = (line: LogLine) => `${line.node_instance_id}/${line.seq}`;

function appendLines(log: Log, lines: LogLine[]): Log {
  const known = new Set(log.lines.slice(-firstLines).map(lineKey));
  const fresh = lines.filter((line) => !known.has(lineKey(line)));
  return fresh.length === 0 ? log : { ...log, lines: [...log.lines, ...fresh].slice(-maxLines) };
}
