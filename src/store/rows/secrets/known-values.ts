/**
 * Loads the stored secrets into the redactors. The server's redactor gets the values that cannot be
 * guessed; the redactor of each pool gets all values that the pool names.
 */
import type { KeyRing } from '../../../base/credentials/key-ring.ts';
import type { Log } from '../../../base/telemetry/log.ts';
import { type SecretValueProblem, secretValueProblem } from '../../../contract/security/secret-values.ts';
import type { EvidenceTail } from '../../evidence/tail.ts';
import type { Database } from '../../pg/database.ts';
import { createPoolRedactors, type PoolRedactors } from './pool-redactors.ts';
import { openSecret } from './seal.ts';
import { listSecrets, readSecretsByPool } from './secrets.ts';

/** Shorter lines of a value are not redacted, because they are likely to be ordinary words. */
const minLineLength = 8;

/** The first and last lines of a PEM key or certificate, which are not secret. */
const isArmour = (line: string): boolean => /^-----(?:BEGIN|END) [A-Z0-9 ]+-----$/.test(line);

/** The texts to redact: the value, and its long lines, because logs print a value line by line. */
export const printedForms = (value: string): string[] => {
  const lines = value.split(/\r?\n/).map((line) => line.trim());
  const longLines = lines.filter((line) => line.length >= minLineLength && !isArmour(line));
  return [value, ...(lines.length > 1 ? longLines : [])];
};

/**
 * The texts to redact in every log. Leaves out guessable texts, because another pool could log
 * guesses and see which are redacted, and words that programs read. Checks each line of a value.
 */
export const unguessableForms = (value: string): string[] =>
  printedForms(value).filter((form) => secretValueProblem(form) === undefined);

export interface SecretProblems {
  /** Secrets that this server cannot decrypt, with the id of the key that encrypted them. */
  unreadable: { name: string; kid: string }[];
  /** Values older than the present rules for values. Redacted only from logs of their own pools. */
  unsuitable: { name: string; problem: SecretValueProblem }[];
}

export async function learnSecrets(db: Database, ring: KeyRing, pools: PoolRedactors): Promise<SecretProblems> {
  const rows = (await listSecrets(db)).map((row) => ({ row, opened: openSecret(ring, row) }));
  const values = new Map(rows.flatMap(({ row, opened }) => (opened.ok ? [[row.name, opened.value] as const] : [])));
  db.redact.learn([...values.values()].flatMap(unguessableForms));
  for (const { pool, secrets } of await readSecretsByPool(db))
    pools.learn(
      pool,
      secrets.flatMap((name) => printedForms(values.get(name) ?? '')),
    );
  return {
    unreadable: rows.flatMap(({ row: { name, kid }, opened }) => (opened.ok ? [] : [{ name, kid }])),
    unsuitable: [...values].flatMap(([name, value]) => {
      const problem = secretValueProblem(value);
      return problem ? [{ name, problem }] : [];
    }),
  };
}

const secretChangeKinds = new Set(['secret.set', 'pool.declared']);

/**
 * Loads every stored secret into the redactors before it returns, and reloads them on each change.
 * Logs unreadable and unsuitable secrets.
 */
export async function followSecrets(
  { db, key_ring: ring }: { db: Database; key_ring: KeyRing },
  tail: EvidenceTail,
  log: Log,
): Promise<PoolRedactors> {
  // Subscribe before the first read, so that no secret set in between is missed.
  const first = Promise.withResolvers<void>();
  let last: Promise<void> = first.promise;
  let next: Promise<void> | undefined;
  /** All callers share one queued reload until it starts. */
  const reload = (): Promise<void> => {
    next ??= last = last.then(async () => {
      next = undefined;
      await learnSecrets(db, ring, pools).catch((error) => {
        pools.forget();
        log.error({ error }, 'the redactor could not read the stored secrets');
      });
    });
    return next;
  };
  const pools = createPoolRedactors(db.redact, reload);
  tail.subscribe(({ kind }) => {
    if (secretChangeKinds.has(kind)) void reload();
  });
  tail.whenHistoryChanged(() => void reload());
  const { unreadable, unsuitable } = await learnSecrets(db, ring, pools).finally(first.resolve);
  if (unreadable.length > 0)
    log.error(
      { secrets: unreadable.map(({ name }) => name), keys: [...new Set(unreadable.map(({ kid }) => kid))] },
      `stored secrets cannot be decrypted: copy the key file of the server that stored them to ${ring.path}; launches that need them fail until then`,
    );
  if (unsuitable.length > 0)
    log.warn(
      { secrets: unsuitable },
      'stored secrets are unsuitable: they are redacted only from logs of their own pools; replace them with generated values of at least 16 characters',
    );
  return pools;
}
