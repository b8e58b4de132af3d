/** The `spec` of a local pool: what runs in a node's directory. Unknown keys are refused and every size is bounded. */
import { type Static, Type } from 'typebox';
import { Compile } from 'typebox/compile';

/** A NUL would end an argument or a variable early, so the kernel refuses it; we say so before anything is launched. */
const text = (maxLength: number, minLength = 0) => Type.String({ minLength, maxLength, pattern: '^[^\\u0000]*$' });

/** `SLIPWAY_…` is how a node's processes are found again, so a pool must not be able to overwrite it. */
const variableName = '^(?!SLIPWAY_)[A-Za-z_][A-Za-z0-9_]{0,127}$';

export const LocalSpec = Type.Object(
  {
    command: Type.Optional(
      Type.Array(text(8192), {
        minItems: 1,
        maxItems: 256,
        description: 'Program and arguments that the agent supervises.',
      }),
    ),
    env: Type.Optional(
      Type.Record(Type.String({ pattern: variableName }), text(32_768), {
        maxProperties: 256,
        additionalProperties: false,
        description: 'Environment of set-up, command and clean. Names that start with SLIPWAY_ are refused.',
      }),
    ),
    setup: Type.Optional(Type.String({ ...text(65_536), description: 'Shell, run before the agent registers.' })),
    clean: Type.Optional(
      Type.String({ ...text(65_536), description: 'Shell, run at release; another exit code than 0 fails the step.' }),
    ),
    boot_stages: Type.Optional(
      Type.Array(
        Type.Object(
          { name: text(128, 1), seconds: Type.Number({ minimum: 0, maximum: 86_400 }) },
          { additionalProperties: false },
        ),
        { maxItems: 64, description: 'Stages that the agent goes through and reports while it boots.' },
      ),
    ),
  },
  { additionalProperties: false },
);
export type LocalSpec = Static<typeof LocalSpec>;

const validator = Compile(LocalSpec);

/** The contract says the spec was validated; a spec that was not is a mistake of ours and must not reach a shell. */
export function localSpec(spec: unknown): LocalSpec {
  if (validator.Check(spec)) return spec;
  throw new TypeError('the spec of a local node was not validated against its schema');
}
