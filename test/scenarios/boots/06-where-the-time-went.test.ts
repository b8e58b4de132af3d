/** A boot's duration is shown stage by stage, and the stages that made it slow are named. */
import { expect, vi } from 'vitest';
import type * as BootReports from '../../../src/contract/agent/boot-report/read.ts';
import type { BootStage } from '../../../src/contract/node.ts';
import type * as SlowStages from '../../../src/lifecycle/boots/slow-stages.ts';
import type * as BootStages from '../../../src/store/agents/boot-stages.ts';
import type { Machine } from '../../api/support/machine.ts';
import { allocate } from '../../support/allocations.ts';
import { externalPool, joinMachine, localPool, waitForAllocation } from '../support/machines.ts';
import { type ScenarioContext, scenario, whileBroken } from '../support/scenario.ts';

type Parts = Pick<typeof SlowStages, 'findSlowStages'> &
  Pick<typeof BootReports, 'readBootReport'> &
  Pick<typeof BootStages, 'readBootStages'>;
const brokenParts = vi.hoisted(() => ({}) as Partial<Parts>);
const originalParts = vi.hoisted(() => ({}) as Parts);

vi.mock(import('../../../src/lifecycle/boots/slow-stages.ts'), async (original) => {
  const originalModule = await original();
  originalParts.findSlowStages = originalModule.findSlowStages;
  return {
    ...originalModule,
    findSlowStages: (...args) => (brokenParts.findSlowStages ?? originalModule.findSlowStages)(...args),
  };
});
vi.mock(import('../../../src/contract/agent/boot-report/read.ts'), async (original) => {
  const originalModule = await original();
  originalParts.readBootReport = originalModule.readBootReport;
  return {
    ...originalModule,
    readBootReport: (text) => (brokenParts.readBootReport ?? originalModule.readBootReport)(text),
  };
});
vi.mock(import('../../../src/store/agents/boot-stages.ts'), async (original) => {
  const originalModule = await original();
  originalParts.readBootStages = originalModule.readBootStages;
  return {
    ...originalModule,
    readBootStages: (...args) => (brokenParts.readBootStages ?? originalModule.readBootStages)(...args),
  };
});

/** A measured boot of 423 s. Most of it is a script, and most of the script is its set-up. */
const measuredStages: BootStage[] = [
  { name: 'before-script', seconds: 42 },
  { name: 'script', seconds: 381 },
  { name: 'image-pull', seconds: 107, parent: 'script' },
  { name: 'set-up', seconds: 270, parent: 'script' },
];
const usual_pull_seconds = 20;
/** The same boot with the image in a nearby registry. */
const usual = measuredStages.map((stage) =>
  stage.name === 'image-pull' ? { ...stage, seconds: usual_pull_seconds } : stage,
);

const blame = `-- Boot Record 01 --
     381.00000s (modules-final/config-scripts_user)
     30.50000s (init-network/config-growpart)
     11.50000s (modules-config/config-apt_configure)
     00.00100s (modules-final/config-final_message)

1 boot records analyzed
`;

const readBoot = (context: ScenarioContext, id: string) => context.client.call('node-boot', { params: { id } });

/** The stages as reported, without the fields that the chart adds. */
const readReportedStages = async (context: ScenarioContext, id: string) =>
  (await readBoot(context, id)).stages.map(({ starts_seconds: _, usual_seconds: _usual, ...stage }) => stage);

async function readSlowStages(context: ScenarioContext, id: string): Promise<string[]> {
  const { slow_stages } = await context.client.call('node-explain', { params: { id } });
  return slow_stages.map((stage) => stage.says);
}

async function bootMachine(context: ScenarioContext, name: string, stages: BootStage[]): Promise<Machine> {
  const machine = await joinMachine(context, 'workspaces', name);
  expect((await machine.call('agent-boot', { body: { stages } })).status).toBe(200);
  return machine;
}

/** A stage is slow by its share of the boot, or by the pool's history once that has three boots. */
async function checkNestedStages(context: ScenarioContext): Promise<void> {
  await externalPool(context, 'workspaces');
  await bootMachine(context, 'usual-1', usual);
  await bootMachine(context, 'usual-2', usual);
  const first = await bootMachine(context, 'slow-1', measuredStages);
  expect(await readReportedStages(context, first.node_id), 'the stages as they were reported').toEqual(measuredStages);
  expect(await readSlowStages(context, first.node_id), 'by their share of the boot').toEqual([
    'script took 381 s of 423 s',
    'set-up took 270 s of 423 s',
    'image-pull took 107 s of 423 s',
  ]);
  const second = await bootMachine(context, 'slow-2', measuredStages);
  expect(await readSlowStages(context, second.node_id), 'against the history of the pool').toEqual([
    `image-pull took 107 s, usually ${usual_pull_seconds} s`,
  ]);
  const { stages } = await readBoot(context, second.node_id);
  const chart = stages.map(({ name, starts_seconds, usual_seconds }) => [name, starts_seconds, usual_seconds]);
  expect(chart, 'the chart with the median of the pool').toEqual([
    ['before-script', 0, 42],
    ['script', 42, 381],
    ['image-pull', 42, usual_pull_seconds],
    ['set-up', 149, 270],
  ]);
}

async function checkBlamedStages(context: ScenarioContext): Promise<void> {
  await externalPool(context, 'images');
  const machine = await joinMachine(context, 'images', 'by-cloud-init');
  const reportReply = await machine.call('agent-boot', {}, { raw: blame, headers: { 'content-type': 'text/plain' } });
  expect(reportReply.status, reportReply.text).toBe(200);
  expect(await readReportedStages(context, machine.node_id), 'the stages as cloud-init blames them').toEqual([
    { name: 'config-scripts_user', seconds: 381, parent: 'modules-final' },
    { name: 'config-growpart', seconds: 30.5, parent: 'init-network' },
    { name: 'config-apt_configure', seconds: 11.5, parent: 'modules-config' },
    { name: 'config-final_message', seconds: 0.001, parent: 'modules-final' },
  ]);
  expect(await readSlowStages(context, machine.node_id), 'the slow stage in the report of cloud-init').toEqual([
    'config-scripts_user took 381 s of 423 s',
  ]);
}

/** The chart needs a start for every stage, by the server's clock, and no two may overlap. */
async function checkAgentStages(context: ScenarioContext, allocation_id: string, stages: BootStage[]): Promise<void> {
  const { node_id } = await waitForAllocation(context, allocation_id, 'active');
  const reportedStagesOfAgent = (await readBoot(context, node_id ?? '')).stages;
  expect(reportedStagesOfAgent.map((stage) => stage.name)).toEqual(stages.map((stage) => stage.name));
  for (const [index, { name, seconds, started_at }] of reportedStagesOfAgent.entries()) {
    expect(seconds, name).toBeGreaterThanOrEqual(stages[index]?.seconds ?? 0);
    const endedMs = Date.parse(started_at ?? '') + seconds * 1000;
    const nextMs = Date.parse(reportedStagesOfAgent[index + 1]?.started_at ?? '9999-12-31T00:00:00Z');
    // Both times are rounded to milliseconds.
    expect(endedMs, `${name} ends before the next begins`).toBeLessThanOrEqual(nextMs + 2);
  }
  expect(await readSlowStages(context, node_id ?? '')).toEqual([
    expect.stringMatching(/^set-up took [\d.]+ s of [\d.]+ s$/),
  ]);
}

scenario({
  name: 'the stages of a boot, and which of them were slow',
  async story(context) {
    const simulatedStages = [
      { name: 'image-pull', seconds: 0.1 },
      { name: 'set-up', seconds: 1.2 },
    ];
    await localPool(context, 'launched', { spec: { boot_stages: simulatedStages } });
    const launchedId = await allocate(context.client, 'launched');
    await checkNestedStages(context);
    await checkBlamedStages(context);
    await checkAgentStages(context, launchedId, simulatedStages);
  },
  counterTests: [
    {
      broken: 'stages without their parents',
      around: whileBroken(brokenParts, {
        readBootStages: async (...args) =>
          (await originalParts.readBootStages(...args)).map(({ parent: _, ...stage }) => stage),
      }),
      fails: /the stages as they were reported/,
    },
    {
      broken: 'slow stages that are never named',
      around: whileBroken(brokenParts, { findSlowStages: () => [] }),
      fails: /by their share of the boot/,
    },
    {
      broken: 'an ignored history',
      around: whileBroken(brokenParts, { findSlowStages: (stages) => originalParts.findSlowStages(stages, new Map()) }),
      fails: /against the history of the pool/,
    },
    {
      broken: 'a cloud-init parser that takes every stage for the whole boot',
      around: whileBroken(brokenParts, {
        readBootReport: (text) => ({
          stages: originalParts.readBootReport(text).stages.map(({ parent: _, ...stage }) => stage),
        }),
      }),
      fails: /the stages as cloud-init blames them/,
    },
  ],
});
