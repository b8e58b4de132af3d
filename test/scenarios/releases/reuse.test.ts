/**
 * In a pool that reuses machines, a request gets a free machine first. When the pool is full,
 * requests wait in order, and their progress says so. Occupancy and fence are exact at every stage.
 */
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, vi } from 'vitest';
import type * as allocations from '../../../src/store/rows/allocations.ts';
import type * as freeNodes from '../../../src/store/rows/free-nodes.ts';
import { allocate, declarePool, readAllocation, release, waitForStatus } from '../../support/allocations.ts';
import { type ScenarioContext, scenario, whileBroken } from '../support/scenario.ts';

/** Set by counter-tests: a pool that finds no free machine, or ignores the order of requests. */
const brokenParts = vi.hoisted((): { findsFree?: false; countsAhead?: false } => ({}));
/** How many more times free machines are skipped, as if another transaction had locked them. */
const lockedElsewhere = vi.hoisted(() => ({ times: 0 }));
vi.mock('../../../src/store/rows/free-nodes.ts', async (original) => {
  const real = await original<typeof freeNodes>();
  const lockFreeNodes: typeof freeNodes.lockFreeNodes = async (...args) =>
    brokenParts.findsFree === false || lockedElsewhere.times-- > 0 ? [] : real.lockFreeNodes(...args);
  return { ...real, lockFreeNodes };
});
vi.mock('../../../src/store/rows/allocations.ts', async (original) => {
  const real = await original<typeof allocations>();
  const countWaitingBefore: typeof allocations.countWaitingBefore = async (db, pool, ids, launches) =>
    brokenParts.countsAhead === false
      ? new Map(ids.map((id) => [id, 0]))
      : real.countWaitingBefore(db, pool, ids, launches);
  return { ...real, countWaitingBefore };
});

const pool = 'shared';
const full = 'Waiting for room in the pool (2 nodes at most)';

async function story({ client, waitFor }: ScenarioContext, files: string): Promise<void> {
  const openGate = (gate: string) => writeFile(join(files, gate), '');
  const waitForGate = (gate: string) => `while [ ! -e ${join(files, gate)} ]; do sleep 0.1; done`;
  await declarePool(client, pool, {
    ...{ reuse: true, max_nodes: 2 },
    spec: { command: ['sleep', '600'], setup: waitForGate('set-up'), clean: waitForGate('clean') },
  });
  const node = async (id: string) => {
    const { node_id } = await readAllocation(client, id);
    return node_id ? client.call('node-get', { params: { id: node_id } }) : undefined;
  };
  const expectNode = async (id: string, expected: object) => expect(await node(id)).toMatchObject(expected);
  const waitForMessage = (id: string, message: string) =>
    waitFor(`"${message}"`, async () =>
      (await readAllocation(client, id)).progress?.message === message ? true : undefined,
    );

  const first = await allocate(client, pool);
  const second = await allocate(client, pool);
  for (const id of [first, second]) {
    await waitFor('the node of the request', () => node(id));
    await expectNode(id, { status: 'provisioning', occupancy: 'reserved', fenced: false });
  }
  await openGate('set-up');
  for (const id of [first, second]) {
    await waitForStatus(client, id, 'active');
    await expectNode(id, { status: 'ready', occupancy: 'occupied', fenced: false });
  }

  // The pool is full, so these requests wait in this order.
  const third = await allocate(client, pool);
  await waitForMessage(third, full);
  const fourth = await allocate(client, pool);
  await waitForMessage(fourth, `${full}, behind 1 other`);
  const fifth = await allocate(client, pool);
  await waitForMessage(fifth, `${full}, behind 2 others`);

  // A machine that is being cleaned serves no request, even if requests wait.
  const machine = (await node(first))?.node_id;
  await release(client, first);
  await waitFor('the machine to be cleaned', async () =>
    (await node(first))?.status === 'cleaning' ? true : undefined,
  );
  await expectNode(first, { status: 'cleaning', occupancy: 'cleanup', fenced: true });
  expect((await readAllocation(client, first)).status).toBe('releasing');
  for (const id of [third, fourth, fifth]) expect((await readAllocation(client, id)).status).toBe('requested');
  await openGate('clean');

  const servedAllocation = await waitFor('the first waiting request to be served', async () => {
    const { status, node_id } = await readAllocation(client, third);
    return status === 'active' ? { node_id } : undefined;
  });
  expect(servedAllocation).toMatchObject({ node_id: machine });
  await expectNode(third, { status: 'ready', occupancy: 'occupied', fenced: false });
  await waitForMessage(fourth, full);
  await waitForMessage(fifth, `${full}, behind 1 other`);
  const otherId = (await node(second))?.node_id;
  await release(client, second);
  expect(await waitForStatus(client, fourth, 'active')).toMatchObject({ node_id: otherId });
  expect((await readAllocation(client, fifth)).status).toBe('requested');
  // Releasing a waiting request makes room in the queue and leaves nothing behind.
  await release(client, fifth);
  await waitForStatus(client, fifth, 'released');

  // Nothing waits, so the released machine stays free, and the next request gets it instead of a
  // new one.
  await release(client, third);
  await waitForStatus(client, third, 'released');
  await expectNode(third, { status: 'ready', occupancy: 'free', fenced: false });
  lockedElsewhere.times = 1;
  const sixth = await allocate(client, pool);
  expect(await waitForStatus(client, sixth, 'active'), 'the machine of the next request').toMatchObject({
    node_id: machine,
  });
  const { items } = await client.call('node-list', { query: { pool } });
  expect(items, 'machines of the pool').toHaveLength(2);
}

scenario({
  name: 'a pool that reuses its machines',
  async story(context) {
    const files = await mkdtemp(join(tmpdir(), 'slipway-scenario-'));
    try {
      await story(context, files);
    } finally {
      await rm(files, { recursive: true, force: true });
    }
  },
  counterTests: [
    {
      broken: 'a pool that does not look for a free machine',
      around: whileBroken(brokenParts, { findsFree: false }),
      fails: /for the first waiting request to be served/,
    },
    {
      broken: 'a pool that ignores the order of requests',
      around: whileBroken(brokenParts, { countsAhead: false }),
      fails: /for "Waiting for room in the pool \(2 nodes at most\), behind 1 other"/,
    },
  ],
});
