/**
 * A machine that registers before its record is stored is answered `enrollment_pending` with a
 * deadline. It retries, and its reports are not lost.
 */
import { expect, onTestFinished, vi } from 'vitest';
import { exitCodes } from '../../../src/agent/life/exit.ts';
import { now, secondsBetween, systemClock } from '../../../src/base/clock.ts';
import { newCorrelationId, newNodeId, newNodeInstanceId } from '../../../src/base/ids.ts';
import { ApiProblem } from '../../../src/contract/errors/errors.ts';
import { createInstance } from '../../../src/store/agents/instances.ts';
import type * as Enrolment from '../../../src/store/agents/register.ts';
import { openInstallation } from '../../../src/store/keys/installation.ts';
import { openDatabase } from '../../../src/store/pg/database.ts';
import { currentPool } from '../../../src/store/rows/pools.ts';
import { createNode } from '../../../src/store/transitions/node-transition.ts';
import { defaultEnvironment } from '../../../src/store/transitions/transition-rules.ts';
import { callRoute, expectProblem } from '../../api/support/calls.ts';
import { registration } from '../../api/support/machine.ts';
import { type RealAgent, startAgent } from '../support/agents.ts';
import { causesOf, externalPool, nodeOf, waitForNode } from '../support/machines.ts';
import { type ScenarioContext, scenario, whileBroken } from '../support/scenario.ts';

/** A counter-test can replace the answer to a refused registration here. */
const brokenParts = vi.hoisted(() => ({}) as { replaceProblem?: (problem: ApiProblem) => ApiProblem });

vi.mock(import('../../../src/store/agents/register.ts'), async (original) => {
  const originalModule = await original();
  const register: typeof Enrolment.register = async (...args) => {
    try {
      return await originalModule.register(...args);
    } catch (error) {
      throw error instanceof ApiProblem && brokenParts.replaceProblem ? brokenParts.replaceProblem(error) : error;
    }
  };
  return { ...originalModule, register };
});

/** Enough for a machine on a busy host to boot, be refused more than once and register. */
const provision_seconds = 30;
/** For a machine whose record never comes. */
const hopeless_seconds = 4;
/** Replies carry the time in whole seconds, so the agent's deadline may be off by half a second. */
const clock_error_seconds = 0.5;

interface Unrecorded {
  node_id: string;
  /** When the ids of the machine were created. Its budget starts then. */
  created: Date;
  enrollment_token: string;
  /** Writes the record as the product does. */
  record(): Promise<void>;
}

/** A machine whose token is signed, but whose record is not written yet. */
async function unrecordedMachine(context: ScenarioContext, pool: string): Promise<Unrecorded> {
  const db = openDatabase({ url: context.server.database_url, max_connections: 1 });
  onTestFinished(() => db.close());
  const createdAt = now(systemClock);
  const clockAtCreation = { ...systemClock, nowMs: () => createdAt.getTime() };
  const node_id = newNodeId(clockAtCreation);
  const node_instance_id = newNodeInstanceId(clockAtCreation);
  const installation = await openInstallation(db, createdAt);
  const enrollment_token = installation.signEnrollmentToken({ pool, node_id, node_instance_id });
  const record = () =>
    db.transaction(async (tx) => {
      const at = now(systemClock);
      const current = await currentPool(tx, pool);
      if (!current) throw new Error(`there is no pool ${pool}`);
      const node = {
        node_id,
        node_instance_id,
        pool,
        pool_generation: current.generation,
        name: 'earlier-than-its-record',
        zone: null,
        workflow_id: null,
        correlation_id: newCorrelationId(),
        requested_provision_seconds: null,
        labels: {},
      };
      const cause = { by: 'node-create', reason: 'its record comes late' } as const;
      await createNode(tx, node, current.document, cause, at, defaultEnvironment);
      await createInstance(tx, { node_instance_id, node_id, enrollment_token }, at);
    });
  return { node_id, created: createdAt, enrollment_token, record };
}

const refusals = (agent: RealAgent) => agent.output().split('enrollment_pending').length - 1;

/**
 * A real agent registers before its record exists. It retries, and keeps the events that happened
 * meanwhile.
 */
async function retriesRegistration(context: ScenarioContext): Promise<void> {
  const machine = await unrecordedMachine(context, 'workspaces');
  const { enrollment_token } = machine;
  const agent = await startAgent(context, { enrollment_token, setup: 'echo set up before the registration' });
  await context.waitFor('the machine to be refused twice', async () => {
    if (agent.hasEnded()) throw new Error(`the agent gave up: ${(await agent.exitReport())?.reason}`);
    return refusals(agent) >= 2;
  });
  await machine.record();

  const node = await waitForNode(context, machine.node_id, 'ready');
  expect(await causesOf(context, node.node_id)).toEqual(['node-create', 'registration', 'claim-ready']);
  expect(node).toMatchObject({ restarts: 0, verdict: null });
  const boot = await context.client.call('node-boot', { params: { id: node.node_id } });
  expect(boot.stages.map((stage) => stage.name)).toEqual(['setup']);
  await context.waitFor('the log lines from before the registration', async () => {
    const { items } = await context.client.call('node-logs', { params: { id: node.node_id } });
    return items.some(({ stream, line }) => stream === 'setup' && line === 'set up before the registration');
  });
  const report = await context.waitFor('the spooled reports to arrive', async () => {
    const { items } = await context.client.call('node-timeline', { params: { id: node.node_id } });
    return items.find((fact) => fact.kind === 'agent_call_failed' && fact.data.code === 'enrollment_pending');
  });
  expect(report).toMatchObject({ layer: 'transport', data: { call: 'agent-register', detail_layer: 'credential' } });
  expect(report.data.count).toBeGreaterThanOrEqual(2);
}

/** The record never comes. The agent gives up at the announced deadline and reports that. */
async function expectGivesUpInTime(
  context: ScenarioContext,
  agent: RealAgent,
  { created, node_id }: Unrecorded,
): Promise<void> {
  await context.waitFor('the machine to give up', () => agent.hasEnded());
  expect(await agent.ended).toBe(exitCodes.registration_deadline);
  const report = await agent.exitReport();
  expect(report?.reason).toMatch(
    /^the agent could not register by its deadline .* last failure: credential\/enrollment_pending/,
  );
  expect(secondsBetween(created, new Date(report?.at ?? ''))).toBeGreaterThanOrEqual(
    hopeless_seconds - clock_error_seconds,
  );
  await expect(nodeOf(context, node_id)).rejects.toMatchObject({ problem: { code: 'node_not_found' } });
}

/** Different codes for a token without a record yet, a forged token and an unknown credential. */
async function answersEachCase(context: ScenarioContext): Promise<void> {
  const { enrollment_token, created } = await unrecordedMachine(context, 'workspaces');
  const register = (token: string, bearer?: string) =>
    callRoute(
      context.server.url,
      'agent-register',
      { body: registration({ enrollment_token: token }) },
      bearer ? { bearer } : {},
    );
  const earlyReply = await register(enrollment_token);
  expectProblem(earlyReply, 'enrollment_pending');
  expect(earlyReply.status).toBe(425);
  expect(earlyReply.body.retry_after_seconds).toBeGreaterThan(0);
  expect(earlyReply.headers.get('retry-after')).toBe(String(earlyReply.body.retry_after_seconds));
  expect(secondsBetween(created, new Date(String(earlyReply.body.deadline_at)))).toBe(provision_seconds);

  const forgedReply = await register(enrollment_token.replace(/\.(.)/, (_, first) => (first === 'A' ? '.B' : '.A')));
  expectProblem(forgedReply, 'enrollment_invalid');
  expect(forgedReply.status).toBe(401);
  const unknownReply = await register(enrollment_token, 'swc_nobody-was-ever-given-this');
  expectProblem(unknownReply, 'credential_unknown');
  expect(unknownReply.status).toBe(401);
}

scenario({
  name: 'a machine that registers before its record is stored',
  async story(context) {
    await externalPool(context, 'workspaces', { budgets: { provision_seconds } });
    await externalPool(context, 'hopeless', { budgets: { provision_seconds: hopeless_seconds } });
    const unrecorded = await unrecordedMachine(context, 'hopeless');
    const hopeless = await startAgent(context, { enrollment_token: unrecorded.enrollment_token });
    await retriesRegistration(context);
    await expectGivesUpInTime(context, hopeless, unrecorded);
    await answersEachCase(context);
  },
  counterTests: [
    {
      broken: 'a machine without a record treated as unknown',
      around: whileBroken(brokenParts, {
        replaceProblem: (problem) =>
          problem.code === 'enrollment_pending' ? new ApiProblem('enrollment_invalid') : problem,
      }),
      fails: /the agent gave up: the registration was refused: credential\/enrollment_invalid/,
    },
    {
      broken: 'an enrollment_pending answer without a deadline',
      around: whileBroken(brokenParts, {
        replaceProblem: ({ code, extras: { deadline_at: _, ...extras } }) => new ApiProblem(code, extras),
      }),
      fails: /waited .* for the machine to give up/,
      patience_seconds: 2 * hopeless_seconds,
    },
  ],
});
