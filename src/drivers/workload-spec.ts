/** The workload fields of a pool, with their limits, that all drivers share. */
import { Type } from 'typebox';
import { isSecretReference, SecretReference } from '../contract/pool-fields/references.ts';

/** Refuses a NUL, because an argument or a variable would end there at the launch. */
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

/** Returns the variables with a literal value, without those that refer to a secret. */
export const literalEnv = (env: WorkloadEnv = {}): Record<string, string> =>
  Object.fromEntries(Object.entries(env).flatMap(([name, value]) => (isSecretReference(value) ? [] : [[name, value]])));

/** Returns the environment for a launch. All secret references must have been resolved by then. */
export function launchEnv(env: WorkloadEnv = {}): Record<string, string> {
  const unresolved = Object.values(env).find(isSecretReference);
  if (unresolved) throw new TypeError(`the secret ${unresolved.secret} was not read before the launch`);
  return literalEnv(env);
}

export const shellText = (description: string) => Type.Optional(Type.String({ ...plainText(65_536), description }));

export const setupScript = shellText('Shell script that runs before the agent registers.');
export const cleanScript = shellText('Shell script that runs at release; an exit code other than 0 fails the step.');
