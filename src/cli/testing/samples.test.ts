/** Checks every sample against the schema of the contract. */
import { Value } from 'typebox/value';
import { expect, test } from 'vitest';
import { Allocation } from '../../contract/allocation.ts';
import { AllocationActed } from '../../contract/allocation-action.ts';
import { Problem } from '../../contract/errors/problem.ts';
import { Evidence } from '../../contract/evidence/evidence.ts';
import { ServerStatus } from '../../contract/fleet/server-status.ts';
import { LogLine, Node } from '../../contract/node.ts';
import { Operation } from '../../contract/operation.ts';
import { Pool } from '../../contract/pool.ts';
import { PoolBoots, WhatIf } from '../../contract/supervision/boots.ts';
import { Explanation, NodeActed } from '../../contract/supervision/explanation.ts';
import { Finding, FindingDecided } from '../../contract/supervision/finding.ts';
import { Brake, SweepRun } from '../../contract/supervision/supervision.ts';
import { sampleBootPhase, sampleLearning, samplePoolBoots, sampleWhatIf } from './boots-samples.ts';
import {
  sampleAllocation,
  sampleEvidence,
  sampleLogLine,
  sampleNode,
  sampleOperation,
  samplePool,
  sampleProblem,
} from './samples.ts';
import {
  sampleActed,
  sampleAllocationActed,
  sampleBrake,
  sampleDecided,
  sampleExplanation,
  sampleFinding,
  sampleHeld,
  sampleHold,
  sampleServerProblem,
  sampleServerStatus,
  sampleSweep,
  sampleWindow,
} from './supervision-samples.ts';

test.each([
  ['allocation', Allocation, sampleAllocation()],
  ['node', Node, sampleNode()],
  ['operation', Operation, sampleOperation()],
  ['pool', Pool, samplePool()],
  ['evidence', Evidence, sampleEvidence()],
  ['log line', LogLine, sampleLogLine()],
  ['problem', Problem, sampleProblem()],
  ['explanation', Explanation, sampleExplanation({ held: sampleHeld() })],
  ['answer to an action', NodeActed, sampleActed()],
  ['answer to an action on an allocation', AllocationActed, sampleAllocationActed()],
  ['brake', Brake, sampleBrake({ holds: [sampleHold()], maintenance: [sampleWindow()] })],
  ['sweep', SweepRun, sampleSweep()],
  ['server status', ServerStatus, sampleServerStatus({ problems: [sampleServerProblem()] })],
  ['finding', Finding, sampleFinding()],
  ['boots', PoolBoots, samplePoolBoots({ phases: [sampleBootPhase({ learning: sampleLearning() })] })],
  ['answer to what if', WhatIf, sampleWhatIf()],
  ['decision on a finding', FindingDecided, sampleDecided()],
])('the sample %s matches the contract', (_, schema, sample) => {
  expect([...Value.Errors(schema, sample)]).toEqual([]);
});
