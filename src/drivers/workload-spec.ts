/** The workload fields of a pool that are the same for every driver, with the same limits. */
import { Type } from 'typebox';
import { isSecretReference, SecretReference } from '../contract/pool-fields/references.ts';

/** A NUL would end an argument or a variable early, so it is refused before a launch. */
export const plainText = (maxLength: number, minLength = 0) =>
  Type.String({ minLength, maxLength, pattern: '^[^\\u0000]*$' });

/** `SLIPWAY_…` variables identify a node's processes, so a pool must not overwrite them. */
const variableName = '^(?!SLIPWAY_)[A-Za-z_][A-Za-z0-9_]{0,127}$';

export const workloadCommand = Type.Optional(
  Type.Array(plainText(8192), {
    minItems: 1,
    maxItems: 256,
    description: 'Program and arguments that the agent supervises.',
  }),
);

export const workloadEnv = (description: string) =>
  Type.Optional(
    Type.Record(Type.String({ pattern: variableName }), Type.Union([plainText(32_768), SecretReference]), {
      maxProperties: 256,
      additionalProperties: false,
      description,
    }),
  );

export type WorkloadEnv = Record<string, string | SecretReference>;

/** The variables written out in the pool, without those that name a secret. */
export const literalEnv = (env: WorkloadEnv = {}): Record<string, string> =>
  Object.fromEntries(Object.entries(env).flatMap(([name, value]) => (isSecretReference(value) ? [] : [[name, value]])));

/** The environment for a launch; all secrets must have been read by then. */
export function launchEnv(env: WorkloadEnv = {}): Record<string, string> {
  const named = Object.values(env).find(isSecretReference);
  if (named) throw new TypeError(`the secret ${named.secret} was not read before the launch`);
  return literalEnv(env);
}

export const shellText = (description: string) => Type.Optional(Type.String({ ...plainText(65_536), description }));

export const setupScript = shellText('Shell, run before the agent registers.');
export const cleanScript = shellText('Shell, run at release; another exit code than 0 fails the step.');
