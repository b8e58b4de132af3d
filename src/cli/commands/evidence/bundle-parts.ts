/** Lists the files of an incident bundle. Each is fetched with the caller's own token. */
import { RequestRefused } from '../../../contract/client.ts';
import type { LogLine, LogPage } from '../../../contract/node.ts';
import { maskPool } from '../../../contract/pool-fields/masked.ts';
import { collect } from '../../connection/pages.ts';
import type { Session } from '../../connection/session.ts';
import { fieldOfId } from '../machines/timeline.ts';

/** The things that the bundle is about. Null means unknown, or not visible to the caller. */
export interface Subjects {
  id: string;
  node_id: string | null;
  allocation_id: string | null;
  workflow_id: string | null;
  pool: string | null;
  /** Facts and log lines before this moment are left out. */
  since: string | null;
}

export interface Part {
  name: string;
  says: string;
  /** Returns a document or lines, or null if the subject has none. */
  fetch(session: Session, subjects: Subjects): Promise<{ lines: unknown[]; cut: boolean } | object | null>;
}

const maxFacts = 20_000;
const maxLines = 50_000;
const pageLines = 500;

/**
 * Returns lines oldest first. If there are too many, leaves out the middle and keeps the last page.
 */
async function fetchLogs(
  session: Session,
  id: string,
  since: string | null,
): Promise<{ lines: LogLine[]; cut: boolean }> {
  const lines: LogLine[] = [];
  const fetchPage = (more: { cursor?: string; tail?: boolean }): Promise<LogPage> =>
    session.call('node-logs', { params: { id }, query: { limit: pageLines, ...(since && { since }), ...more } });
  let cursor: string | null = null;
  while (lines.length < maxLines) {
    const page: LogPage = await fetchPage(cursor ? { cursor } : {});
    lines.push(...page.items);
    const isEnd = page.items.length === 0 && !page.continue_at;
    if (isEnd || page.next_cursor === null || page.next_cursor === cursor) return { lines, cut: false };
    cursor = page.next_cursor;
  }
  const last = await fetchPage({ tail: true });
  return { lines: [...lines, ...last.items], cut: true };
}

async function fetchTimeline(session: Session, id: string, since: string | null) {
  const query = { [fieldOfId(id)]: id, order: 'newest' as const, ...(since && { since }) };
  const { items, truncated } = await collect(
    (paging) => session.call('timeline-get', { query: { ...query, ...paging } }),
    maxFacts,
  );
  return { lines: items.reverse(), cut: truncated };
}

const onlyForNode =
  (fetch: (session: Session, id: string, since: string | null) => ReturnType<Part['fetch']>): Part['fetch'] =>
  async (session, { node_id, since }) =>
    node_id === null ? null : fetch(session, node_id, since);

export const parts: readonly Part[] = [
  {
    name: 'timeline.ndjson',
    says: 'evidence of every layer, oldest first; origin names its source',
    fetch: (session, { node_id, id, since }) => fetchTimeline(session, node_id ?? id, since),
  },
  { name: 'logs.ndjson', says: 'the log of every instance', fetch: onlyForNode(fetchLogs) },
  {
    name: 'explain.json',
    says: 'the status of the node, why, and what happens next',
    fetch: onlyForNode((session, id) => session.call('node-explain', { params: { id } })),
  },
  {
    name: 'node.json',
    says: 'the node',
    fetch: onlyForNode((session, id) => session.call('node-get', { params: { id } })),
  },
  {
    name: 'checkup.json',
    says: 'the connection of the node to the server, layer by layer',
    fetch: onlyForNode((session, id) => session.call('node-checkup', { params: { id } })),
  },
  {
    name: 'boot.json',
    says: 'the boot stages of the node',
    fetch: onlyForNode((session, id) => session.call('node-boot', { params: { id } })),
  },
  {
    name: 'allocation.json',
    says: 'the allocation',
    fetch: async (session, { allocation_id: id }) => (id ? session.call('allocation-get', { params: { id } }) : null),
  },
  {
    name: 'operation.json',
    says: 'the last operation, with its steps',
    fetch: async (session, { workflow_id: id }) => (id ? session.call('operation-get', { params: { id } }) : null),
  },
  {
    name: 'pool.json',
    says: 'the pool’s document, with its environment, scripts and commands masked',
    fetch: async (session, { pool }) => (pool ? maskPool(await session.call('pool-get', { params: { pool } })) : null),
  },
  { name: 'server/settings.json', says: 'versions and settings', fetch: (session) => session.call('settings-get', {}) },
  { name: 'server/overview.json', says: 'counts and replicas', fetch: (session) => session.call('overview-get', {}) },
  {
    name: 'server/sweeps.json',
    says: 'the sweeps and their last runs',
    fetch: (session) => session.call('sweep-list', {}),
  },
  { name: 'server/brake.json', says: 'the verdicts held back', fetch: (session) => session.call('brake-get', {}) },
];

/** Returns why the server refused a part, for the list of files. Other errors fail the command. */
export const explainRefusal = (error: unknown): string => {
  if (!(error instanceof RequestRefused)) throw error;
  return `${error.problem.code}: ${error.problem.detail}`;
};
