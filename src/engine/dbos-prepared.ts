/**
 * DBOS sends each of its statements as text, and the database plans it each time anew, which takes longer than doing it. Its connections
 * are ours: here those that come again and again are given a name, so that each connection plans them once.
 */
import { createHash } from 'node:crypto';
import type { ClientBase } from 'pg';

/** As many as recur, and more; a text that is put together differently each time is soon nothing new. */
const most = 100;
/** What such a statement answers could change with the table's columns, and a planned one would then be refused. */
const answersAllColumns = /\b(select|returning)\s+(\w+\.)?\*/i;
const recurs = /^\s*(select|insert|update)\b/i;

type Query = (...given: unknown[]) => unknown;

export function preparing(client: ClientBase): void {
  const names = new Map<string, string>();
  const nameOf = (text: string): string | undefined => {
    const known = names.get(text);
    if (known !== undefined || names.size >= most || !recurs.test(text) || answersAllColumns.test(text)) return known;
    const name = `dbos_${createHash('md5').update(text).digest('base64url')}`;
    names.set(text, name);
    return name;
  };
  const plain = client.query.bind(client) as Query;
  const prepared: Query = (text, values, ...rest) => {
    const name = typeof text === 'string' && Array.isArray(values) ? nameOf(text) : undefined;
    return name === undefined ? plain(text, values, ...rest) : plain({ name, text, values }, ...rest);
  };
  client.query = prepared as typeof client.query;
}
