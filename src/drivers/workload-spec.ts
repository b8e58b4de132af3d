/** What pools say about the workload of a machine, whichever driver launches it: the same words with the same bounds. */
import { Type } from 'typebox';

/** A NUL would end an argument or a variable early, so it is refused before anything is launched. */
export const plainText = (maxLength: number, minLength = 0) =>
  Type.String({ minLength, maxLength, pattern: '^[^\\u0000]*$' });

/** `SLIPWAY_…` is what the agent tells its children, and how a node's processes are found again: a pool must not overwrite it. */
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
    Type.Record(Type.String({ pattern: variableName }), plainText(32_768), {
      maxProperties: 256,
      additionalProperties: false,
      description,
    }),
  );

export const shellText = (description: string) => Type.Optional(Type.String({ ...plainText(65_536), description }));

export const setupScript = shellText('Shell, run before the agent registers.');
export const cleanScript = shellText('Shell, run at release; another exit code than 0 fails the step.');
