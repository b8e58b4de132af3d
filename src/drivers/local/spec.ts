/**
 * The `spec` of a local pool: the workload in a node's directory. Unknown fields are refused and
 * every size is bounded.
 */
import { type Static, Type } from 'typebox';
import { Compile } from 'typebox/compile';
import { cleanScript, plainText, setupScript, workloadCommand, workloadEnv } from '../workload-spec.ts';

export const LocalSpec = Type.Object(
  {
    command: workloadCommand,
    env: workloadEnv('Environment of set-up, command and clean. Names that start with SLIPWAY_ are refused.'),
    setup: setupScript,
    clean: cleanScript,
    boot_stages: Type.Optional(
      Type.Array(
        Type.Object(
          { name: plainText(128, 1), seconds: Type.Number({ minimum: 0, maximum: 86_400 }) },
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

/** The caller must have validated the spec; an invalid one is a bug and must not reach a shell. */
export function localSpec(spec: unknown): LocalSpec {
  if (validator.Check(spec)) return spec;
  throw new TypeError('the spec of a local node was not validated against its schema');
}
