/** What goes into an incident bundle: each part is a name and a question to the server, asked with the caller's own rights. */

import { RequestRefused } from '../../../contract/client.ts';
import type { LogLine, LogPage } from '../../../contract/node.ts';
import { maskPool } from '../../../contract/pool-fields/masked.ts';
import { collect } from '../../connection/pages.ts';
import type { Session } from '../../connection/session.ts';
import { fieldOfId } from '../machines/timeline.ts';

/** Whom the bundle is about; what is null is not known, or not visible to the caller. */
export interface Subjects {
  id: string;
  node_id: string | null;
  allocation_id: string | null;
  workflow_id: string | null;
  pool: string | null;
  /** Facts and lines before it are left out. */
  since: string | null;
}

export interface Part {
  name: string;
  says: string;
  /** A document, or lines; null where there is nothing of the kind. */
  ask(session: Session, about: Subjects): Promise<{ lines: unknown[]; cut: boolean } | object | null>;
}

const mostFacts = 20_000;
const mostLines = 50_000;
const pageLines = 500;

/** From the oldest on, page by page; of more than a bundle holds, the last lines are still there, and the middle is left out. */
async function logsOf(session: Session, id: string, since: string | null): Promise<{ lines: LogLine[]; cut: boolean }> {
  const lines: LogLine[] = [];
  const ask = (more: { cursor?: string; tail?: boolean }): Promise<LogPage> =>
    session.call('node-logs', { params: { id }, query: { limit: pageLines, ...(since && { since }), ...more } });
  let cursor: string | null = null;
  while (lines.length < mostLines) {
    const page: LogPage = await ask(cursor ? { cursor } : {});
    lines.push(...page.items);
    const isEnd = page.items.length === 0 && !page.continue_at;
    if (isEnd || page.next_cursor === null || page.next_cursor === cursor) return { lines, cut: false };
    cursor = page.next_cursor;
  }
  const last = await ask({ tail: true });
  return { lines: [...lines, ...last.items], cut: true };
}

async function timelineOf(session: Session, id: string, since: string | null) {
  const query = { [fieldOfId(id)]: id, order: 'newest' as const, ...(since && { since }) };
  const { items, truncated } = await collect(
    (paging) => session.call('timeline-get', { query: { ...query, ...paging } }),
    mostFacts,
  );
  return { lines: items.reverse(), cut: truncated };
}

const aboutNode =
  (ask: (session: Session, id: string, since: string | null) => ReturnType<Part['ask']>): Part['ask'] =>
  async (session, { node_id, since }) =>
    node_id === null ? null : ask(session, node_id, since);

export const parts: readonly Part[] = [
  {
    name: 'timeline.ndjson',
    says: 'evidence of every layer, oldest first; origin says whose statement each is',
    ask: (session, { node_id, id, since }) => timelineOf(session, node_id ?? id, since),
  },
  { name: 'logs.ndjson', says: 'what the machine wrote, every instance', ask: aboutNode(logsOf) },
  {
    name: 'explain.json',
    says: 'where it stands, why, and what comes next',
    ask: aboutNode((session, id) => session.call('node-explain', { params: { id } })),
  },
  {
    name: 'node.json',
    says: 'the node',
    ask: aboutNode((session, id) => session.call('node-get', { params: { id } })),
  },
  {
    name: 'checkup.json',
    says: 'how it stands with the server, layer by layer',
    ask: aboutNode((session, id) => session.call('node-checkup', { params: { id } })),
  },
  {
    name: 'boot.json',
    says: 'its boot stages',
    ask: aboutNode((session, id) => session.call('node-boot', { params: { id } })),
  },
  {
    name: 'allocation.json',
    says: 'the allocation',
    ask: async (session, { allocation_id: id }) => (id ? session.call('allocation-get', { params: { id } }) : null),
  },
  {
    name: 'operation.json',
    says: 'the last operation, with its steps',
    ask: async (session, { workflow_id: id }) => (id ? session.call('operation-get', { params: { id } }) : null),
  },
  {
    name: 'pool.json',
    says: 'the pool’s document, with its environment, scripts and commands masked',
    ask: async (session, { pool }) => (pool ? maskPool(await session.call('pool-get', { params: { pool } })) : null),
  },
  { name: 'server/settings.json', says: 'versions and settings', ask: (session) => session.call('settings-get', {}) },
  { name: 'server/overview.json', says: 'counts and replicas', ask: (session) => session.call('overview-get', {}) },
  { name: 'server/sweeps.json', says: 'the rules at work', ask: (session) => session.call('sweep-list', {}) },
  { name: 'server/brake.json', says: 'what is held back', ask: (session) => session.call('brake-get', {}) },
];

/** Who may not see a part gets a bundle without it, which says so; anything else that fails is told, too. */
export const whyMissing = (error: unknown): string => {
  if (!(error instanceof RequestRefused)) throw error;
  return `${error.problem.code}: ${error.problem.detail}`;
};
