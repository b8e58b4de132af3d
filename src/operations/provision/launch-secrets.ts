/** Puts the values of secrets in the place of their names, for the moment of a launch. Nothing of it is stored. */
import { now } from '../../base/clock.ts';
import { isSecretReference, secretsIn } from '../../contract/pool-fields/references.ts';
import type { DriverFailure } from '../../drivers/driver.ts';
import { formsForEverybody } from '../../store/rows/secrets/known-values.ts';
import { openSecret } from '../../store/rows/secrets/seal.ts';
import { noteUse, secretsNamed } from '../../store/rows/secrets/secrets.ts';
import type { OperationServices } from '../runtime/services.ts';

const failure = (code: string, message: string): DriverFailure => ({
  outcome: 'failed',
  owner_layer: 'operator',
  code,
  message,
  retryable: false,
});

export type LaunchSpec = { outcome: 'ready'; spec: unknown; secret_env: string[] } | DriverFailure;

type Env = Record<string, unknown>;

export async function launchSpec(services: OperationServices, spec: unknown): Promise<LaunchSpec> {
  const names = secretsIn(spec);
  if (names.length === 0) return { outcome: 'ready', spec, secret_env: [] };
  const rows = new Map((await secretsNamed(services.db, names)).map((row) => [row.name, row]));
  const values = new Map<string, string>();
  for (const name of names) {
    const row = rows.get(name);
    if (!row)
      return failure(
        'secret_missing',
        `the pool names the secret ${name}, which is not stored: slipway secrets set ${name}`,
      );
    const opened = openSecret(services.key_ring, row);
    if (!opened.ok)
      return opened.why === 'key_missing'
        ? failure(
            'secret_key_missing',
            `the secret ${name} is encrypted with the key ${row.kid}, which ${services.key_ring.path} does not hold: copy the key file of the server that stored it there`,
          )
        : failure(
            'secret_damaged',
            `the secret ${name} cannot be decrypted; set it again: slipway secrets set ${name}`,
          );
    values.set(name, opened.value);
  }
  // Before anything can be printed by the machine, or by its provider.
  services.db.redact.learn([...values.values()].flatMap(formsForEverybody));
  await noteUse(services.db, names, now(services.clock));
  const { env, ...rest } = spec as { env: Env };
  const resolved = Object.entries(env).map(([variable, value]) => [
    variable,
    isSecretReference(value) ? values.get(value.secret) : value,
  ]);
  return {
    outcome: 'ready',
    spec: { ...rest, env: Object.fromEntries(resolved) },
    secret_env: Object.keys(env).filter((variable) => isSecretReference(env[variable])),
  };
}
