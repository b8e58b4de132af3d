/**
 * An attack and its counter-test. The attack runs against the product, where it must fail; and against a server whose
 * source was edited so that the defence is missing, where it must succeed. An attack that fails on both proves nothing.
 */
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type SpawnedServer, spawnServer } from '../../support/server.ts';

/** Replaces text that occurs exactly once in a source file, given by its path from the root. */
export interface SourceEdit {
  file: string;
  find: string;
  replace: string;
}

export interface Attack {
  /** What the attacker tries: becomes the test's name. */
  name: string;
  /** Takes the defence out. */
  without: SourceEdit[];
  /** Returns whether the attack succeeded. Makes what it needs (pools, tokens, machines) under names of its own. */
  succeeds(server: SpawnedServer): Promise<boolean>;
}

const editHook = fileURLToPath(new URL('./edit-source.mjs', import.meta.url));

/** A server that runs from source, with the edits applied as its modules load. */
export const serverWithout = (without: SourceEdit[], args: string[] = []): Promise<SpawnedServer> =>
  spawnServer({ args, node_args: ['--import', editHook], env: { SLIPWAY_TEST_EDITS: JSON.stringify(without) } });

/** All attacks share one server on the product's side; each counter-test starts its own. */
export function describeAttacks(attacker: string, attacks: readonly Attack[], args: string[] = []): void {
  describe(attacker, () => {
    let server: SpawnedServer;
    beforeAll(async () => {
      server = await spawnServer({ args });
    });
    afterAll(() => server?.stop());

    describe.for(attacks)('$name', ({ without, succeeds }) => {
      it('is refused', async () => {
        expect(await succeeds(server)).toBe(false);
      });

      it('succeeds without its defence', async () => {
        const defenceless = await serverWithout(without, args);
        try {
          expect(await succeeds(defenceless)).toBe(true);
        } finally {
          await defenceless.stop();
        }
      });
    });
  });
}
