/** Checks how an operation is shown with its steps. */
import { expect, test } from 'vitest';
import type { Step } from '../../../contract/operation.ts';
import { sampleOperation } from '../../testing/samples.ts';
import { plain } from '../text/palette.ts';
import { operationLines } from './operation.ts';

test('shows a step with a status that only newer versions have', () => {
  const [step] = sampleOperation().steps;
  const unknown = { ...step, status: 'paused' as 'running' } as Step;
  const lines = operationLines(sampleOperation({ steps: [unknown] }), 0, { width: 200, paint: plain });
  expect(lines.at(-1)).toMatch(/^\s*\? +\S.* paused /);
});
