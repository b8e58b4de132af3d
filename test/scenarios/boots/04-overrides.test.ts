/**
 * A budget comes from the server, the runtime class, the pool or the request. Each is stored with
 * its source and applied, and the verdict names the source.
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect } from 'vitest';
import { secondsBetween } from '../../../src/base/clock.ts';
import type { Node } from '../../../src/contract/node.ts';
import {
  type BudgetQuestion,
  type BudgetSource,
  defaultBudgets,
  defaultRuntimeClasses,
} from '../../../src/lifecycle/deadlines/budgets.ts';
import { changesOf, externalPool, localPool, waitForNode } from '../support/machines.ts';
import { type ScenarioContext, scenario, withDeciders, withoutSweep } from '../support/scenario.ts';

/** The budgets of server, class and pool are the usual 720, 1800 and 1200 s, sped up 600 times. */
const default_seconds = 1.2;
const class_seconds = 3;
const pool_seconds = 2;
const requested_seconds = 0.6;
const ceiling_seconds = 2.4;

const directory = mkdtempSync(join(tmpdir(), 'slipway-scenario-'));
const config = join(directory, 'slipway.yaml');
writeFileSync(
  config,
  JSON.stringify({
    budgets: { provision_seconds: default_seconds },
    runtime_classes: { hermes: { provision_seconds: class_seconds } },
  }),
);
afterAll(() => rmSync(directory, { recursive: true, force: true }));

async function declarePools(
  context: ScenarioContext,
  own: { provision_seconds: number; ceiling_seconds: number },
): Promise<void> {
  await externalPool(context, 'plain');
  await externalPool(context, 'classed', { runtime_class: 'hermes' });
  await externalPool(context, 'owned', { runtime_class: 'hermes', budgets: own });
  // Machines of this pool never register.
  await localPool(context, 'launched', {
    runtime_class: 'hermes',
    budgets: own,
    spec: { setup: 'while :; do sleep 0.1; done' },
  });
}

type NodeWithDeadline = Pick<Node, 'node_id' | 'created_at' | 'deadline_at' | 'budget_seconds' | 'budget_source'>;

async function createNode(
  context: ScenarioContext,
  pool: string,
  provision_timeout_seconds?: number,
): Promise<NodeWithDeadline> {
  const body = { pool, ...(provision_timeout_seconds && { provision_timeout_seconds }) };
  return (await context.client.call('node-create', { body })).node;
}

/** Reads the timeline, because a budget this short may be over before the node is read. */
async function allocateNode(context: ScenarioContext, provision_timeout_seconds: number): Promise<NodeWithDeadline> {
  const body = { pool: 'launched', provision_timeout_seconds };
  const { allocation } = await context.client.call('allocation-create', { body });
  const { allocation_id } = allocation;
  const [node, shared] = await context.waitFor('a node for the allocation', async () => {
    const { items } = await context.client.call('timeline-get', { query: { allocation_id, limit: 500 } });
    const set = (kind: string) => items.find((fact) => fact.kind === kind)?.data.set as NodeWithDeadline | undefined;
    const fields = [set('node.provisioning'), set('allocation.provisioning')] as const;
    return fields[0] && fields[1] ? ([fields[0], fields[1]] as const) : undefined;
  });
  const { deadline_at, budget_seconds, budget_source } = shared;
  expect(node, 'node and allocation have the same deadline').toMatchObject({
    deadline_at,
    budget_seconds,
    budget_source,
  });
  return node;
}

interface Case {
  /** The name of the level in failure messages. */
  level: string;
  seconds: number;
  source: BudgetSource;
  node: NodeWithDeadline;
}

function expectBudget({ level, seconds, source, node }: Case): void {
  expect(node.budget_seconds, `${level}: the budget`).toBe(seconds);
  expect(node.budget_source, `${level}: the source`).toBe(source);
  expect(secondsBetween(new Date(node.created_at), new Date(node.deadline_at ?? '')), `${level}: the deadline`).toBe(
    seconds,
  );
}

async function expectNamedInVerdict(context: ScenarioContext, { level, seconds, source, node }: Case): Promise<void> {
  await waitForNode(context, node.node_id, 'failed');
  const verdict = (await changesOf(context, node.node_id)).find((change) => change.to === 'failed');
  expect(verdict?.by).toBe('provision-deadline');
  expect(verdict?.reason, level).toMatch(
    // On a busy machine the budget may end before the launch, which makes the reason longer.
    new RegExp(`^provisioning timed out.* \\(waited \\d+ s, budget from ${source}\\)$`),
  );
  expect(verdict?.evidence, level).toMatchObject({ budget_seconds: seconds, budget_source: source });
  expect(verdict?.at.getTime(), level).toBeGreaterThanOrEqual(Date.parse(node.deadline_at ?? ''));
}

/** A server that ignores one level. */
const ignoreLevel = (change: (question: BudgetQuestion) => BudgetQuestion) =>
  withDeciders(({ resolveBudget }) => ({ resolveBudget: (question) => resolveBudget(change(question)) }));

scenario({
  name: 'budgets from every level',
  args: ['--config', config],
  async story(context) {
    await declarePools(context, { provision_seconds: pool_seconds, ceiling_seconds });
    const cases: Case[] = [
      { level: 'server', seconds: default_seconds, source: 'default', node: await createNode(context, 'plain') },
      { level: 'class', seconds: class_seconds, source: 'class', node: await createNode(context, 'classed') },
      { level: 'pool', seconds: pool_seconds, source: 'pool', node: await createNode(context, 'owned') },
      {
        level: 'node',
        seconds: requested_seconds,
        source: 'allocation',
        node: await createNode(context, 'owned', requested_seconds),
      },
      {
        level: 'allocation',
        seconds: requested_seconds,
        source: 'allocation',
        node: await allocateNode(context, requested_seconds),
      },
      {
        level: 'allocation beyond the ceiling',
        seconds: ceiling_seconds,
        source: 'allocation',
        node: await allocateNode(context, 2 * ceiling_seconds),
      },
    ];
    for (const each of cases) expectBudget(each);
    for (const each of cases) await expectNamedInVerdict(context, each);
  },
  counterTests: [
    {
      broken: "the server's default ignored",
      composition: ignoreLevel((question) => ({ ...question, server: {} })),
      fails: /server: the budget: expected 720 to be/,
    },
    {
      broken: 'the runtime class ignored',
      composition: ignoreLevel((question) => ({ ...question, runtime_class: {} })),
      fails: /class: the budget: expected 1.2 to be 3/,
    },
    {
      broken: 'the pool ignored',
      composition: ignoreLevel(({ pool: { ceiling_seconds }, ...question }) => ({
        ...question,
        pool: ceiling_seconds === undefined ? {} : { ceiling_seconds },
      })),
      fails: /pool: the budget: expected 3 to be 2/,
    },
    {
      broken: 'the request ignored',
      composition: ignoreLevel((question) => ({ ...question, requested_seconds: null })),
      fails: /node: the budget: expected 2 to be 0.6/,
    },
    {
      broken: 'no ceiling',
      composition: ignoreLevel(({ pool: { ceiling_seconds: _, ...pool }, ...question }) => ({ ...question, pool })),
      fails: /beyond the ceiling: the budget: expected 4.8 to be 2.4/,
    },
    {
      broken: 'no provision-deadline rule',
      composition: withoutSweep('provision-deadline'),
      fails: /waited .* for node to be failed/,
      patience_seconds: class_seconds + 2,
    },
  ],
});

scenario({
  name: 'the default budgets of the product',
  async story(context) {
    const poolBudgets = { provision_seconds: 1200, ceiling_seconds: 3600 };
    await declarePools(context, poolBudgets);
    const hermes = defaultRuntimeClasses.hermes?.provision_seconds ?? 0;
    const requestedSeconds = poolBudgets.provision_seconds / 20;
    const cases: Case[] = [
      {
        level: 'server',
        seconds: defaultBudgets.provision,
        source: 'default',
        node: await createNode(context, 'plain'),
      },
      { level: 'class', seconds: hermes, source: 'class', node: await createNode(context, 'classed') },
      {
        level: 'pool',
        seconds: poolBudgets.provision_seconds,
        source: 'pool',
        node: await createNode(context, 'owned'),
      },
      {
        level: 'node',
        seconds: requestedSeconds,
        source: 'allocation',
        node: await createNode(context, 'owned', requestedSeconds),
      },
    ];
    for (const each of cases) expectBudget(each);
  },
  counterTests: [
    {
      broken: 'a class that ships without its budget',
      composition: { environment: (built) => ({ ...built, runtime_classes: { hermes: {} } }) },
      fails: /class: the budget: expected 720 to be 1800/,
    },
  ],
});
