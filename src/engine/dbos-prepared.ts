/**
 * Turns DBOS's recurring statements into prepared ones. DBOS sends plain text, which PostgreSQL
 * plans each time, and planning takes longer than execution. We own the connections, so we can name
 * the statements there.
 */
import { createHash } from 'node:crypto';
import type { ClientBase } from 'pg';

/** More than recur. Texts that are built differently each time must not fill the cache. */
const maxStatements = 100;
/** A prepared statement that returns all columns fails once the table gets another one. */
const returnsAllColumns = /\b(select|returning)\s+(\w+\.)?\*/i;
const recurs = /^\s*(select|insert|update)\b/i;

type Query = (...given: unknown[]) => unknown;

export function prepareStatements(client: ClientBase): void {
  const names = new Map<string, string>();
  const nameOf = (text: string): string | undefined => {
    const known = names.get(text);
    if (known !== undefined || names.size >= maxStatements || !recurs.test(text) || returnsAllColumns.test(text))
      return known;
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
