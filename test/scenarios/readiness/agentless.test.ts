/**
 * For an agentless machine the provider reports readiness, and each observation at the provider
 * counts as a heartbeat.
 */
import { expect } from 'vitest';
import type { DriverOutcome, Observation, PlannedStep } from '../../../src/drivers/driver.ts';
import { nodeOf, waitForAllocation, waitForNode } from '../support/machines.ts';
import { type CounterTest, type ScenarioContext, scenario, withoutSweep } from '../support/scenario.ts';
import { simulatedDriver } from '../support/simulated-driver.ts';

/**
 * The stale time is several intervals long, because a busy host may miss some of the observations.
 */
const heartbeat = { interval_seconds: 1, stale_after_seconds: 6 };
const phases: PlannedStep[] = ['requesting', 'creating', 'completed'].map((phase) => ({
  phase,
  label: `${phase} it`,
  usual_seconds: 1,
  owner_layer: 'provider',
}));

/**
 * The start budget: shorter than the stale time, and long enough for the next observation of the
 * machine even on a busy host.
 */
const start_seconds = 3;

type ShownState = Pick<Observation, 'state'> & Partial<Observation>;

/** A simulated provider. The story sets its answer to `ensure` and the state that it shows. */
interface Provider {
  answer: DriverOutcome;
  /** Undefined while the provider is unreachable. */
  shown: ShownState | undefined;
  calls: string[];
}

let provider: Provider;
const recordCall =
  (call: string): (() => Promise<DriverOutcome>) =>
  async () => {
    provider.calls.push(call);
    return { outcome: 'done', message: call };
  };
const withProvider = {
  drivers: (built: Map<string, ReturnType<typeof simulatedDriver>>) => {
    provider = {
      answer: { outcome: 'wait', retry_seconds: 0.1, message: 'creating', phase: 'creating' },
      shown: { state: 'Creating' },
      calls: [],
    };
    const driver = simulatedDriver({
      supervision: 'agentless',
      plan: () => phases,
      ensure: async () => provider.answer,
      inspect: async () => {
        const defaults = { present: true, ready: false, detail: null };
        return provider.shown
          ? { ...defaults, ...provider.shown }
          : { ...defaults, state: 'unknown', detail: 'no route to it', unseen: true };
      },
      stop: recordCall('stop'),
      destroy: recordCall('destroy'),
    });
    return new Map([...built, ['simulated', driver]]);
  },
};

const runningState: ShownState = { state: 'Running', ready: true };

async function allocateAgentless(context: ScenarioContext, budgets = {}): Promise<string> {
  const body = { driver: 'simulated', heartbeat, budgets };
  await context.client.call('pool-put', { params: { pool: 'clusters' }, body });
  const { allocation } = await context.client.call('allocation-create', { body: { pool: 'clusters' } });
  return allocation.allocation_id;
}

async function allocateServing(context: ScenarioContext, budgets = {}) {
  const id = await allocateAgentless(context, budgets);
  provider.answer = { outcome: 'done', message: 'created', phase: 'completed', endpoint: 'https://cluster.example' };
  provider.shown = runningState;
  const { node_id } = await waitForAllocation(context, id, 'active');
  return { id, node_id: node_id ?? '' };
}

const withoutObservations: CounterTest = {
  broken: 'no observations at the provider',
  composition: withoutSweep('observation'),
  fails: /for the machine to be observed again/,
  patience_seconds: 4 * heartbeat.stale_after_seconds,
};

scenario({
  name: 'an agentless machine comes up in the steps of its driver, serves, and is torn down',
  settings: withProvider,
  async story(context) {
    const requires = [{ name: 'git', check: 'git --version' }];
    const poolPut = context.client.call('pool-put', {
      params: { pool: 'clusters' },
      body: { driver: 'simulated', requires },
    });
    await expect(poolPut, 'a prerequisite that only an agent could check').rejects.toThrow(
      /machines of the driver simulated run no agent/,
    );
    const id = await allocateAgentless(context);
    const secondStep = await context.waitFor('its second step', async () => {
      const { progress } = await context.client.call('allocation-get', { params: { id } });
      return progress?.phase === 'creating' ? progress : undefined;
    });
    expect(secondStep).toMatchObject({ step: 2, total_steps: phases.length, label: 'creating it' });
    provider.answer = { outcome: 'done', message: 'created', phase: 'completed', endpoint: 'https://cluster.example' };
    const { items } = await context.client.call('node-list', { query: {} });
    const node_id = items[0]?.node_id ?? '';
    const earlyPing = context.client.call('node-ping', { params: { id: node_id } });
    await expect(earlyPing, 'a ping before the machine is ready').rejects.toMatchObject({
      problem: { code: 'no_agent' },
    });
    // A created machine is not ready until the provider reports it as ready.
    await waitForNode(context, node_id, 'starting');
    await context.expectNever('the machine became ready before its provider reported it as ready', 1, async () => {
      const { status } = await nodeOf(context, node_id);
      return status === 'ready';
    });
    provider.shown = runningState;
    await waitForAllocation(context, id, 'active');
    expect(await nodeOf(context, node_id)).toMatchObject({ status: 'ready', endpoint: 'https://cluster.example' });
    const { steps } = await context.waitFor('its operation to end', async () => {
      const operation = await context.client.call('operation-get', { params: { id: secondStep.workflow_id } });
      return operation.finished_at ? operation : undefined;
    });
    expect(steps.map(({ name, status }) => `${name} ${status}`)).toEqual(phases.map(({ phase }) => `${phase} done`));
    // Each observation counts as a heartbeat, so the machine is still ready when twice the stale
    // time has passed since its registration.
    const { registered_at } = await nodeOf(context, node_id);
    const twoStaleTimesLater = Date.parse(registered_at ?? '') + 2 * heartbeat.stale_after_seconds * 1000;
    await context.waitFor('the machine to be observed again', async () => {
      const { last_seen_at } = await nodeOf(context, node_id);
      return Date.parse(last_seen_at ?? '') > twoStaleTimesLater || undefined;
    });
    expect((await nodeOf(context, node_id)).status).toBe('ready');
    // Without an agent there is no credential to check. That is no fault.
    const { checks } = await context.client.call('node-checkup', { params: { id: node_id } });
    expect(checks.map(({ layer, ok }) => `${layer} ${ok}`)).toEqual([
      'credential null',
      'fence true',
      'heartbeat true',
    ]);
    const ping = context.client.call('node-ping', { params: { id: node_id } });
    await expect(ping).rejects.toMatchObject({ problem: { code: 'no_agent' } });
    await context.client.call('allocation-release', { params: { id } });
    await waitForAllocation(context, id, 'released');
    expect(provider.calls).toContain('destroy');
    const missingEvidenceCount = await context.db.countEvidence(id, 'evidence.missing');
    expect(missingEvidenceCount, 'evidence missing from an agent that does not exist').toBe(0);
  },
  counterTests: [
    withoutObservations,
    {
      broken: 'a provider whose created machines count as ready',
      composition: {
        drivers: (built) => {
          const drivers = withProvider.drivers(built as never);
          const simulatedDriverOfServer = drivers.get('simulated');
          if (!simulatedDriverOfServer) throw new Error('no such driver');
          const inspect = async () => ({ state: 'Running', present: true, ready: true, detail: null });
          return drivers.set('simulated', { ...simulatedDriverOfServer, inspect });
        },
      },
      fails: /for node to be starting|the machine became ready before its provider reported it as ready/,
    },
  ],
});

scenario({
  name: 'the status of an agentless machine follows its provider: stopped, unreachable, absent',
  settings: withProvider,
  async story(context) {
    const { id, node_id } = await allocateServing(context, { offline_seconds: 30, start_seconds });
    provider.shown = { state: 'Stopped', detail: 'somebody stopped it' };
    const stoppedNode = await waitForNode(context, node_id, 'degraded');
    expect(stoppedNode.verdict?.reason).toBe('its provider shows it as Stopped (somebody stopped it)');
    expect(stoppedNode.observed).toMatchObject({ state: 'Stopped' });
    const { waiting_for } = await context.client.call('node-explain', { params: { id: node_id } });
    expect(waiting_for).toBe('its provider to show it as healthy again');
    provider.shown = runningState;
    await waitForNode(context, node_id, 'ready');

    // An unreachable provider is no evidence about the machine.
    provider.shown = undefined;
    const hold = await context.waitFor('the verdict to be held', async () => (await nodeOf(context, node_id)).held);
    expect(hold).toMatchObject({ rule: 'liveness', kind: 'provider-away' });
    expect(hold.reason).toContain('no route to it');
    await context.expectNever(
      'the machine got a verdict while the provider was unreachable',
      2 * heartbeat.stale_after_seconds,
      async () => {
        const { status } = await nodeOf(context, node_id);
        return status !== 'ready';
      },
    );
    provider.shown = runningState;
    await context.waitFor('the hold to end', async () => (await nodeOf(context, node_id)).held === null || undefined);
    expect((await nodeOf(context, node_id)).status).toBe('ready');

    // After a quarantine the provider must show the machine as ready again. Neither an earlier
    // observation nor an unreachable provider counts.
    const act = (action: 'quarantine' | 'reactivate') =>
      context.client.call('node-act', { params: { id: node_id, action }, body: { reason: 'looked at' } });
    await act('quarantine');
    provider.shown = undefined;
    await act('reactivate');
    await context.expectNever(
      'the machine got a verdict while the provider was unreachable',
      start_seconds + 2 * heartbeat.stale_after_seconds,
      async () => {
        const { status } = await nodeOf(context, node_id);
        return status !== 'starting';
      },
    );
    expect((await nodeOf(context, node_id)).held).toMatchObject({ rule: 'start-deadline', kind: 'provider-away' });
    provider.shown = runningState;
    expect((await waitForNode(context, node_id, 'ready')).held).toBeNull();

    provider.shown = { state: 'absent', present: false };
    const lostAllocation = await waitForAllocation(context, id, 'failed');
    expect(lostAllocation.reason).toMatch(/the provider shows it as absent/);
    const node = await waitForNode(context, node_id, 'failed');
    expect(node.verdict?.rule).toBe('offline-deadline');
    // Without an agent nothing can enrol, so the action is listed as unavailable, with the reason.
    const { actions } = await context.client.call('node-explain', { params: { id: node_id } });
    const reEnroll = actions.find(({ action }) => action === 're-enroll');
    expect(reEnroll).toMatchObject({ open: false, why_not: expect.stringContaining('No agent runs on it') });
  },
  counterTests: [
    { ...withoutObservations, fails: /for node to be degraded/ },
    {
      broken: 'a machine treated as absent while its provider is unreachable',
      composition: {
        drivers: (built) => {
          const drivers = withProvider.drivers(built as never);
          const simulatedDriverOfServer = drivers.get('simulated');
          if (!simulatedDriverOfServer) throw new Error('no such driver');
          const inspect: typeof simulatedDriverOfServer.inspect = async (target) => {
            const { unseen, ...seen } = await simulatedDriverOfServer.inspect(target);
            return unseen ? { ...seen, state: 'absent', present: false } : seen;
          };
          return drivers.set('simulated', { ...simulatedDriverOfServer, inspect });
        },
      },
      fails: /for the verdict to be held/,
    },
  ],
});
