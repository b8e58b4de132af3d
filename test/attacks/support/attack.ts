/**
 * An attack and its counter-test. The attack must fail against the product, and must succeed
 * against a server whose defence was edited out of the source. An attack that fails in both cases
 * proves nothing.
 */
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type SpawnedServer, spawnServer } from '../../support/server.ts';

/**
 * Replaces text that occurs exactly once in a source file. Paths start at the repository's root.
 */
export interface SourceEdit {
  file: string;
  find: string;
  replace: string;
}

export interface Attack {
  /** States what the attacker tries; becomes the test's name. */
  name: string;
  /** Removes the defence. */
  without: SourceEdit[];
  /** Returns whether the attack succeeded. Creates its own pools, tokens and machines. */
  succeeds(server: SpawnedServer): Promise<boolean>;
}

const editHook = fileURLToPath(new URL('./edit-source.mjs', import.meta.url));

/** A server that runs from source, with the edits applied as its modules load. */
export const serverWithout = (without: SourceEdit[], args: string[] = []): Promise<SpawnedServer> =>
  spawnServer({ args, node_args: ['--import', editHook], env: { SLIPWAY_TEST_EDITS: JSON.stringify(without) } });

/** All attacks share one server of the product; each counter-test starts its own. */
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
