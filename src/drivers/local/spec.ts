/** The schema of a local pool's `spec`: the workload that runs in a node's directory. */
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
        {
          maxItems: 64,
          description: 'Simulated boot stages, for demonstrations and tests. The agent waits and reports them.',
        },
      ),
    ),
  },
  { additionalProperties: false },
);
export type LocalSpec = Static<typeof LocalSpec>;

const validator = Compile(LocalSpec);

/** Throws if the spec does not match the schema: that is a bug, and must not reach a shell. */
export function localSpec(spec: unknown): LocalSpec {
  if (validator.Check(spec)) return spec;
  throw new TypeError('the spec of a local node does not match its schema');
}
