/**
 * Prepares every statement with values once per connection, for these tests only. A run executes
 * the same few hundred statements some 300,000 times, and planning takes longer than executing.
 */
import pg from 'pg';

/** One plan from the first execution on. */
const options = '-c plan_cache_mode=force_generic_plan';

const names = new Map<string, string>();

function nameOf(text: string): string {
  const name = names.get(text) ?? `statement_${names.size}`;
  names.set(text, name);
  return name;
}

/** As src/store/pg/database.ts passes it; some statements have a name already. */
interface QueryConfig {
  text: string;
  values?: unknown[];
  name?: string;
}
type Query = (this: pg.Client, config: QueryConfig | string, ...rest: unknown[]) => unknown;

/** Returns the address with this setting. */
export function withGenericPlans(url: string): string {
  const address = new URL(url);
  address.searchParams.set('options', options);
  return address.href;
}

const plain = pg.Client.prototype.query as Query;
const prepared: Query = function (config, ...rest) {
  if (typeof config === 'string' || !config.values?.length) return plain.call(this, config, ...rest);
  return plain.call(this, { name: nameOf(config.text), ...config }, ...rest);
};
Object.assign(pg.Client.prototype, { query: prepared });
