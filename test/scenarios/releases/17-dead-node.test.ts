/**
 * Scenario 17: a machine whose agent is dead is released by its driver. Its evidence is frozen
 * first, then it is ended and proven gone.
 */
import { expect } from 'vitest';
import type { Driver } from '../../../src/drivers/driver.ts';
import type { Composition } from '../../../src/server/opening.ts';
import { allocate, declarePool, readAllocation, release, waitForStatus } from '../../support/allocations.ts';
import { expectNothingLeft } from '../../support/database-connection.ts';
import { findTaggedProcesses } from '../../support/tagged-processes.ts';
import { scenario } from '../support/scenario.ts';

/** Far less than the agent's timeouts for each question. */
const withinSeconds = 25;
/** The agent can no longer provide either of them. */
const lastWords = 'these were its last words';

const brokenDriver = (breaking: (whole: Driver) => Partial<Driver>): Composition => ({
  drivers: (built) =>
    new Map([...built].map(([name, driver]) => [name, name === 'local' ? { ...driver, ...breaking(driver) } : driver])),
});

scenario({
  name: 'the release of a machine whose agent was killed',
  async story({ server, client, db, waitFor }) {
    await declarePool(client, 'orphaned', {
      spec: { command: ['/bin/sh', '-c', `echo ${lastWords}; exec sleep 600`] },
    });
    const id = await allocate(client, 'orphaned');
    await waitForStatus(client, id, 'active');
    const processes = () => findTaggedProcesses(db.installation_id);
    await waitFor('its command to run', () => (processes().some(({ agent }) => !agent) ? true : undefined));
    const agent = processes().find((each) => each.agent);
    process.kill(agent?.pid ?? 0, 'SIGKILL');

    const askedMs = performance.now();
    await release(client, id);
    await waitFor('the release to end', async () =>
      (await readAllocation(client, id)).status === 'released' ? true : undefined,
    );
    expect((performance.now() - askedMs) / 1000, 'seconds for the release').toBeLessThan(withinSeconds);
    await expectNothingLeft(db, server.nodes_dir, 1);

    const facts = await db.query<{ kind: string; layer: string; summary: string; data: object }>(
      'select kind, layer, summary, data from evidence where allocation_id = $1 order by xid, seq',
      [id],
    );
    const firstOf = (kind: string, layer: string) =>
      facts.findIndex((fact) => fact.kind === kind && fact.layer === layer);
    expect(facts[firstOf('evidence.missing', 'workflow')]?.summary).toMatch(/^what the agent knew could not be had/);
    const frozen = firstOf('evidence.frozen', 'provider');
    expect(JSON.stringify(facts[frozen]?.data), 'what was frozen').toContain(lastWords);
    // Frozen, ended by the driver, proven absent, released, in exactly this order.
    const order = [
      frozen,
      facts.findIndex(({ kind, summary }) => kind === 'driver.done' && / removed$/.test(summary)),
      firstOf('proof.absent', 'provider'),
      facts.findIndex(({ kind }) => kind === 'allocation.released'),
    ];
    expect(order.every((place) => place >= 0) && order).toEqual(order.toSorted((a, b) => a - b));
    expect(facts.filter(({ kind }) => kind === 'allocation.released')).toHaveLength(1);
  },
  counters: [
    {
      broken: 'a driver that does not see that the agent is gone',
      composition: brokenDriver(() => ({
        observe: async () => ({ state: 'running', present: true, ready: true, detail: null }),
      })),
      fails: /for the release to end/,
      patience_seconds: withinSeconds,
    },
    {
      broken: 'a driver that freezes no evidence',
      composition: brokenDriver(() => ({
        diagnose: async () => ({ summary: 'nothing is known', certain: false, attachments: [] }),
      })),
      fails: /what was frozen/,
    },
  ],
});
