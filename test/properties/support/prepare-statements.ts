/**
 * Prepares every statement with values once per connection, for these tests only. A run executes
 * the same few hundred statements some 300,000 times, and planning takes longer than executing.
 */
import pg from 'pg';

/** Makes PostgreSQL plan each prepared statement once, whatever its values. */
const connectionOptions = '-c plan_cache_mode=force_generic_plan';

const names = new Map<string, string>();

function nameOf(text: string): string {
  const name = names.get(text) ?? `statement_${names.size}`;
  names.set(text, name);
  return name;
}

/** The form in which src/store/pg/database.ts passes a query; some queries already have a name. */
interface QueryConfig {
  text: string;
  values?: unknown[];
  name?: string;
}
type Query = (this: pg.Client, config: QueryConfig | string, ...others: unknown[]) => unknown;

/** Adds the connection option to a database URL. */
export function withGenericPlans(url: string): string {
  const parsedUrl = new URL(url);
  parsedUrl.searchParams.set('options', connectionOptions);
  return parsedUrl.href;
}

const originalQuery = pg.Client.prototype.query as Query;
const queryPrepared: Query = function (config, ...others) {
  if (typeof config === 'string' || !config.values?.length) return originalQuery.call(this, config, ...others);
  return originalQuery.call(this, { name: nameOf(config.text), ...config }, ...others);
};
Object.assign(pg.Client.prototype, { query: queryPrepared });
