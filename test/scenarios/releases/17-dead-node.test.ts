/**
 * A machine with a dead agent is released by its driver. The driver freezes the evidence first,
 * then tears the machine down and proves that it is gone.
 */
import { expect } from 'vitest';
import type { Driver } from '../../../src/drivers/driver.ts';
import type { Composition } from '../../../src/server/opening.ts';
import { allocate, declarePool, readAllocation, release, waitForStatus } from '../../support/allocations.ts';
import { expectNothingLeft } from '../../support/database-connection.ts';
import { findTaggedProcesses } from '../../support/tagged-processes.ts';
import { scenario } from '../support/scenario.ts';

/** Far less than the timeouts of the tasks that a dead agent would not answer. */
const withinSeconds = 40;
/** The output of the command, which the dead agent can no longer report. */
const commandOutput = 'the last output of the command';

const withBrokenDriver = (breaking: (whole: Driver) => Partial<Driver>): Composition => ({
  drivers: (built) =>
    new Map([...built].map(([name, driver]) => [name, name === 'local' ? { ...driver, ...breaking(driver) } : driver])),
});

scenario({
  name: 'the release of a machine whose agent was killed',
  async story({ server, client, db, waitFor }) {
    await declarePool(client, 'orphaned', {
      spec: { command: ['/bin/sh', '-c', `echo ${commandOutput}; exec sleep 600`] },
    });
    const id = await allocate(client, 'orphaned');
    await waitForStatus(client, id, 'active');
    const processes = () => findTaggedProcesses(db.installation_id);
    await waitFor('the command to run', () => (processes().some(({ agent }) => !agent) ? true : undefined));
    const agent = processes().find((each) => each.agent);
    process.kill(agent?.pid ?? 0, 'SIGKILL');

    const requestedMs = performance.now();
    await release(client, id);
    await waitFor('the release to end', async () =>
      (await readAllocation(client, id)).status === 'released' ? true : undefined,
    );
    expect((performance.now() - requestedMs) / 1000, 'seconds for the release').toBeLessThan(withinSeconds);
    await expectNothingLeft(db, server.nodes_dir, 1);

    const facts = await db.query<{ kind: string; layer: string; summary: string; data: object }>(
      'select kind, layer, summary, data from evidence where allocation_id = $1 order by xid, seq',
      [id],
    );
    const firstOf = (kind: string, layer: string) =>
      facts.findIndex((fact) => fact.kind === kind && fact.layer === layer);
    expect(facts[firstOf('evidence.missing', 'workflow')]?.summary).toMatch(/^the agent returned no diagnostics/);
    const frozen = firstOf('evidence.frozen', 'provider');
    expect(JSON.stringify(facts[frozen]?.data), 'the frozen evidence').toContain(commandOutput);
    // The evidence is in this order: frozen, torn down by the driver, proven absent, released.
    const order = [
      frozen,
      facts.findIndex(({ kind, summary }) => kind === 'driver.done' && / removed$/.test(summary)),
      firstOf('proof.absent', 'provider'),
      facts.findIndex(({ kind }) => kind === 'allocation.released'),
    ];
    expect(order.every((place) => place >= 0) && order).toEqual(order.toSorted((a, b) => a - b));
    expect(facts.filter(({ kind }) => kind === 'allocation.released')).toHaveLength(1);
  },
  counterTests: [
    {
      broken: 'a driver that does not see that the agent is gone',
      composition: withBrokenDriver(() => ({
        inspect: async () => ({ state: 'running', present: true, ready: true, detail: null }),
      })),
      fails: /for the release to end/,
      patience_seconds: withinSeconds,
    },
    {
      broken: 'a driver that freezes no evidence',
      composition: withBrokenDriver(() => ({
        diagnose: async () => ({ summary: 'nothing is known', certain: false, attachments: [] }),
      })),
      fails: /the frozen evidence/,
    },
  ],
});
