/**
 * A run asks the same few hundred statements some three hundred thousand times, and to read and plan them again each time takes
 * the database longer than to carry them out. So here, and only here, every statement with values is prepared once for each
 * connection, under a name. What is asked and what is answered stays the same.
 */
import pg from 'pg';

/** Planned once, and not anew for the first few of its values. */
const options = '-c plan_cache_mode=force_generic_plan';

const names = new Map<string, string>();

function nameOf(text: string): string {
  const name = names.get(text) ?? `statement_${names.size}`;
  names.set(text, name);
  return name;
}

/** As src/store/pg/database.ts asks; some it names by itself. */
interface Asked {
  text: string;
  values?: unknown[];
  name?: string;
}
type Query = (this: pg.Client, asked: Asked | string, ...rest: unknown[]) => unknown;

/** Answers the address at which sessions plan that way. */
export function preparing(url: string): string {
  const address = new URL(url);
  address.searchParams.set('options', options);
  return address.href;
}

const plain = pg.Client.prototype.query as Query;
const prepared: Query = function (asked, ...rest) {
  if (typeof asked === 'string' || !asked.values?.length) return plain.call(this, asked, ...rest);
  return plain.call(this, { name: nameOf(asked.text), ...asked }, ...rest);
};
Object.assign(pg.Client.prototype, { query: prepared });
