/**
 * A machine that lost its credential enrols again, and a quarantined machine is reactivated. A ping
 * proves that tasks reach the agent and answers return.
 */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { expect, vi } from 'vitest';
import { runCli } from '../../../src/cli/testing/run-cli.ts';
import type { NodeActionName } from '../../../src/lifecycle/actions/actions.ts';
import type * as Ping from '../../../src/operations/provision/ping.ts';
import type * as Teardown from '../../../src/operations/release/teardown.ts';
import type * as AllocationTransition from '../../../src/store/transitions/allocation-transition.ts';
import { callRoute, expectProblem } from '../../api/support/calls.ts';
import { startMachine } from '../../api/support/machine.ts';
import { allocate, release } from '../../support/allocations.ts';
import { startAgent } from '../support/agents.ts';
import { credentialsIn, credentialsOf, expectFenced } from '../support/instances.ts';
import {
  allocationOf,
  externalPool,
  joinMachine,
  localPool,
  waitForAllocation,
  waitForNode,
} from '../support/machines.ts';
import { type ScenarioContext, scenario, whileBroken } from '../support/scenario.ts';

type Parts = Pick<typeof Ping, 'proveByPing'> &
  Pick<typeof Teardown, 'removeMachine'> & { mayMove(move: AllocationTransition.AllocationMove): boolean };
const brokenParts = vi.hoisted(() => ({}) as Partial<Parts>);
vi.mock(import('../../../src/operations/provision/ping.ts'), async (original) => {
  const originalModule = await original();
  return {
    ...originalModule,
    proveByPing: (...args) => (brokenParts.proveByPing ?? originalModule.proveByPing)(...args),
  };
});
vi.mock(import('../../../src/operations/release/teardown.ts'), async (original) => {
  const originalModule = await original();
  return {
    ...originalModule,
    removeMachine: (...args) => (brokenParts.removeMachine ?? originalModule.removeMachine)(...args),
  };
});
vi.mock(import('../../../src/store/transitions/allocation-transition.ts'), async (original) => {
  const originalModule = await original();
  return {
    ...originalModule,
    moveAllocations: (tx, moves, ...rest) =>
      originalModule.moveAllocations(
        tx,
        moves.filter((move) => brokenParts.mayMove?.(move) ?? true),
        ...rest,
      ),
  };
});

const heartbeat = { interval_seconds: 0.5, stale_after_seconds: 30 };

const act = (
  context: ScenarioContext,
  id: string,
  action: NodeActionName,
  body: object,
  bearer = context.server.token,
  key = '',
) =>
  callRoute(
    context.server.url,
    'node-act',
    { params: { id, action }, body: { reason: 'its disk was replaced', ...body } },
    { bearer, ...(key && { headers: { 'idempotency-key': key } }) },
  );

/** Waits until the operation of an action succeeded and its ping was leased and answered. */
async function expectPinged(context: ScenarioContext, id: string): Promise<void> {
  const { workflow_id } = await context.client.call('node-get', { params: { id } });
  await context.waitFor('a ping to be leased and answered', async () => {
    const { items } = await context.client.call('timeline-get', {
      query: { workflow_id: workflow_id ?? '', limit: 500 },
    });
    const has = (kind: string) => items.some((fact) => fact.kind === kind);
    return has('task.leased') && has('task.succeeded') && has('ping.answered') && has('operation.succeeded');
  });
}

const printedCommand = /^ {2}SLIPWAY_ENROLLMENT_TOKEN=(swe_\S+) slipway agent --server (\S+)$/m;

/** Checks that a secret that is shown once is stored nowhere. */
async function expectNotStored(context: ScenarioContext, token: string): Promise<void> {
  for (const table of ['evidence', 'operations', 'instances', 'nodes', 'idempotency_keys', 'step_receipts'])
    expect(
      await context.db.countRows(`select 1 from ${table} as kept where kept::text like $1`, [`%${token}%`]),
      table,
    ).toBe(0);
}

scenario({
  name: 'an external machine that lost its credential while allocated, and was quarantined later',
  async story(context) {
    await externalPool(context, 'lab', { heartbeat });
    const { token: join_token } = await context.client.call('join-token-create', { params: { pool: 'lab' } });
    const first = await startAgent(context, { join_token, name: 'rack-1' });
    const allocation = await allocate(context.client, 'lab');
    const { node_id } = await waitForAllocation(context, allocation, 'active');
    const id = node_id ?? '';
    const credentials = await credentialsIn(first.dir);
    await first.stop();
    const { node_instance_id: former } = await waitForNode(context, id, 'offline');

    const prediction = await act(context, id, 're-enroll', { dry_run: true });
    expect(prediction.body).toMatchObject({ node: { status: 'offline' }, predicts: { status: 'provisioning' } });
    expect(prediction.body).not.toHaveProperty('enrollment_token');
    const env = { SLIPWAY_TOKEN: context.server.token };
    const args = ['act', id, 're-enroll', '--reason', 'its disk was replaced'];
    const output = await runCli(args, { server: context.server.url, env });
    expect(output).toMatchObject({ code: 0, stdout: expect.stringContaining('; its allocation stays active') });
    const [, enrollment_token = '', server_url] = printedCommand.exec(output.stdout) ?? [];
    expect(server_url).toBe(context.server.url);
    await expectFenced(context, credentials);
    expect(await allocationOf(context, allocation)).toMatchObject({
      status: 'active',
      reason: 'its machine is enrolling again',
    });

    const second = await startAgent(context, { enrollment_token });
    const back = await waitForNode(context, id, 'ready');
    expect(back.node_instance_id).not.toBe(former);
    await expectPinged(context, id);
    expect(await allocationOf(context, allocation)).toMatchObject({ status: 'active', reason: 'its machine is back' });
    await expectNotStored(context, enrollment_token);

    await release(context.client, allocation);
    await waitForAllocation(context, allocation, 'released');
    await act(context, id, 'quarantine', {});
    await waitForNode(context, id, 'quarantined');
    expect((await act(context, id, 'reactivate', {})).status).toBe(200);
    await waitForNode(context, id, 'ready');
    await expectPinged(context, id);
    expect(second.hasEnded()).toBe(false);
  },
  counterTests: [
    {
      broken: 'an operation that sends no ping',
      around: whileBroken(brokenParts, { proveByPing: async () => {} }),
      fails: /waited .* for a ping to be leased and answered/,
    },
  ],
});

scenario({
  name: 'an external machine that failed together with its allocation',
  async story(context) {
    await externalPool(context, 'yard', { heartbeat, budgets: { offline_seconds: 0.5 } });
    const machine = await joinMachine(context, 'yard', 'crane-1');
    await machine.beat('ready');
    const allocation = await allocate(context.client, 'yard');
    await waitForAllocation(context, allocation, 'active');
    const id = machine.node_id;
    await machine.beat('stopping');
    await waitForAllocation(context, allocation, 'failed');

    const key = 'once-more';
    const reply = await act(context, id, 're-enroll', {}, context.server.token, key);
    expect(reply.body).toMatchObject({ node: { status: 'provisioning' } });
    expect(reply.body.node, 'the allocation of the machine').toMatchObject({
      allocation_id: allocation,
      occupancy: 'reserved',
    });
    const repeatedReply = await act(context, id, 're-enroll', {}, context.server.token, key);
    expect(repeatedReply.body).toEqual(reply.body);
    // The same idempotency key with another token is another request and gets no secret.
    const otherToken = await context.client.call('token-create', { body: { name: 'another', role: 'operator' } });
    const refusal = await act(context, id, 're-enroll', {}, otherToken.token ?? '', key);
    expectProblem(refusal, 'action_illegal');
    expect(refusal.text).not.toContain(String(reply.body.enrollment_token));

    const replacement = await startMachine(context.server.url, {
      enrollment_token: String(reply.body.enrollment_token),
    });
    await replacement.beat('ready');
    await waitForAllocation(context, allocation, 'active');
    await expectFenced(context, { credential: machine.credential, enrollment_token: null });
    let isProven = false;
    const proof = expectPinged(context, id).finally(() => {
      isProven = true;
    });
    await Promise.all([proof, replacement.work(async () => isProven)]);
    const reimageReply = await act(context, id, 'reimage', {});
    expect(String(reimageReply.body.detail)).toMatch(/external machine.*then re-enroll it/);
  },
  counterTests: [
    {
      broken: 'an allocation that is not rescued',
      around: whileBroken(brokenParts, { mayMove: ({ by, actor }) => by !== 'rescue' || !actor }),
      fails: /the allocation of the machine/,
    },
  ],
});

scenario({
  name: 'a machine that the driver launched',
  async story(context) {
    await localPool(context, 'rig', { heartbeat, reuse: true, max_nodes: 1, spec: { command: ['sleep', '600'] } });
    const allocation = await allocate(context.client, 'rig');
    const { node_id } = await waitForAllocation(context, allocation, 'active');
    const id = node_id ?? '';
    await release(context.client, allocation);
    await waitForAllocation(context, allocation, 'released');
    await act(context, id, 'quarantine', {});
    const { node_instance_id: former } = await waitForNode(context, id, 'quarantined');
    const credentials = await credentialsOf(context, former ?? '');

    const reply = await act(context, id, 're-enroll', {});
    expect(reply.status).toBe(200);
    // The driver passes the token to the machine, so the caller does not get it.
    expect(reply.body).not.toHaveProperty('enrollment_token');
    const back = await waitForNode(context, id, 'ready');
    expect(back.node_instance_id).not.toBe(former);
    await expectPinged(context, id);
    await expectFenced(context, credentials);
    expect(existsSync(join(context.server.nodes_dir, former ?? '')), 'the directory of the former instance').toBe(
      false,
    );
  },
  counterTests: [
    {
      broken: 'a former machine that is not removed',
      around: whileBroken(brokenParts, { removeMachine: async () => ({ kind: 'absent', nonce: '', checked: [] }) }),
      fails: /the directory of the former instance/,
    },
  ],
});
